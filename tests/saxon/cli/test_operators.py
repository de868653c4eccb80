"""What operators ask of an offline store, and what is printed."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from demaq.cli import main as cli
from demaq.testing.lab import Lab
from tests.support.cli.shop import open_shop

ORDER = '<order id="{}" euros="20"/>'
WRONG = '<order id="18" euros="cheap"/>'


class Asked:
    """Runs commands on one store; keeps what the last one said."""

    def __init__(self, store: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.store = store
        self._capsys = capsys
        self.out = self.err = ""

    def __call__(self, *words: str) -> int:
        code = cli.run(cli.demaq, [*words, "--store", str(self.store)])
        self.out, self.err = self._capsys.readouterr()
        return code

    def json(self, *words: str):
        assert self(*words, "--json") == 0, self.err
        return json.loads(self.out)


@pytest.fixture
def demaq(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Asked:
    monkeypatch.chdir(tmp_path)
    bodies = [ORDER.format(number) for number in (17, 17, 19)]
    return Asked(open_shop(tmp_path, *bodies, WRONG, '<payment id="19"/>'), capsys)


# --- names -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", [["messages", "ordres"], ["take", "ordres"], ["errors", "--queue", "ordres"]])
def test_an_unknown_queue_is_one_line_with_the_name_that_was_meant(demaq: Asked, command: list[str]):
    assert demaq(*command) == 1
    assert (demaq.out, demaq.err) == ("", "demaq: there is no queue ordres; did you mean orders?\n")


def test_where_no_name_is_like_it_those_there_are_are_listed(demaq: Asked):
    assert demaq("messages", "xyz") == 1
    assert demaq.err == (
        "demaq: there is no queue xyz; there are demaq:errors, orders, payments, troubles, reminders, parcels\n"
    )


def test_a_message_for_an_unknown_queue_is_refused_in_one_line(demaq: Asked):
    Path("a.xml").write_text("<a/>")
    assert demaq("send", "ordres", "a.xml") == 1
    assert (demaq.out, demaq.err) == ("", "demaq: there is no queue ordres; did you mean orders?\n")


def test_an_unknown_slicing_is_one_line_with_the_name_that_was_meant(demaq: Asked):
    assert demaq("slices", "orderMsg") == 1
    assert demaq.err == "demaq: there is no slicing orderMsg; did you mean orderMsgs?\n"


# --- listings --------------------------------------------------------------------------------------------------------

LISTINGS = {
    "messages": (["messages", "orders", "--all"], "id"),
    "queues": (["queues", "--all"], "queue"),
    "keys": (["slices", "orderMsgs"], "key"),
    "slice": (["slices", "orderMsgs", "17"], "id"),
    "errors": (["errors"], "id"),
    "timers": (["timers"], "id"),
    "collections": (["collections", "list"], "collection"),
}


@pytest.mark.parametrize("listing", LISTINGS)
def test_every_listing_is_paged(demaq: Asked, listing: str):
    command, name = LISTINGS[listing]
    whole = demaq.json(*command)
    assert demaq.err == ""
    assert whole
    paged: list[object] = []
    after: list[str] = []
    for _ in whole:
        page = demaq.json(*command, "--limit", "1", *after)
        paged += page
        after = ["--after", page[-1][name]]
        assert demaq.err == (f"there is more: --after {page[-1][name]}\n" if paged != whole else "")
    assert paged == whole
    assert demaq.json(*command, *after) == []


@pytest.mark.parametrize("listing", LISTINGS)
def test_every_listing_fits_eighty_columns(demaq: Asked, listing: str):
    assert demaq(*LISTINGS[listing][0]) == 0
    assert demaq.out
    assert max([len(line) for line in demaq.out.splitlines()]) <= 80


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["messages", "payments"], "no messages in queue payments"),
        (["messages", "orders", "--after", "99"], "no further messages in queue orders"),
        (["slices", "orderMsgs", "99"], "no messages in slice orderMsgs 99"),
        (["slices", "orderMsgs", "--after", "99"], "no further slices of orderMsgs"),
        (["errors", "--queue", "demaq:errors"], "no messages in demaq:errors"),
        (["queues", "--after", "zzz"], "no more queues after zzz"),
        (["collections", "list", "--after", "zzz"], "no more collections after zzz"),
        (["take", "demaq:errors"], "no messages in queue demaq:errors"),
    ],
)
def test_an_empty_listing_says_so_on_stderr(demaq: Asked, command: list[str], said: str):
    assert demaq(*command) == 0
    assert (demaq.out, demaq.err) == ("", f"{said}\n")
    assert demaq.json(*command) == []


def test_errors_of_all_error_queues_are_shown_for_people(demaq: Asked):
    assert demaq("errors") == 0
    first, second, *_ = demaq.out.splitlines()
    assert first.endswith("dynamicError in troubles")
    assert second.startswith("          rule approve, message ")


def test_a_timer_that_is_gone_is_no_place_to_go_on_from(demaq: Asked):
    assert demaq("timers", "--after", "1") == 1
    assert demaq.err.startswith("demaq: 1 is no timer")


def test_a_key_may_be_written_in_any_way_its_type_allows(demaq: Asked):
    assert [message["queue"] for message in demaq.json("slices", "orderMsgs", "017")] == ["orders", "orders"]
    for condition in (["--slice", "orderMsgs", "017"], ["--property", "orderID=017"]):
        assert len(demaq.json("search", "--queue", "orders", *condition)) == 2
    assert demaq("slices", "orderMsgs", "many") == 1
    assert demaq.err == "demaq: many is no key of slicing orderMsgs: its keys are xs:integer\n"


# --- sending ---------------------------------------------------------------------------------------------------------


def test_ids_of_messages_in_front_of_a_refused_one_are_printed(demaq: Asked):
    Path("good.xml").write_text(ORDER.format(21))
    Path("bad.xml").write_text("<order")
    assert demaq("send", "orders", "good.xml", "good.xml", "bad.xml", "good.xml") == 1
    first, second = demaq.out.split()
    assert int(first) < int(second)
    assert demaq.err.startswith("demaq: bad.xml: refused (notWellFormed): line 1, column ")
    assert demaq("send", "orders", "good.xml", "bad.xml", "--json") == 1
    assert len(json.loads(demaq.out)["ids"]) == 1


def test_nothing_is_sent_when_a_file_cannot_be_read(demaq: Asked):
    Path("good.xml").write_text(ORDER.format(21))
    before = demaq.json("messages", "orders")
    assert demaq("send", "orders", "good.xml", "missing.xml") == 1
    assert demaq.err == "demaq: missing.xml: No such file or directory\n"
    assert demaq.json("messages", "orders") == before


def test_a_message_is_read_from_standard_input(demaq: Asked, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"<order id='30' euros='1'/>")))
    assert demaq("send", "orders", "-", "--with", "express=true", "--request", "once") == 0
    [sent] = demaq.json("slices", "orderMsgs", "30")
    assert (sent["id"], sent["properties"]["express"]) == (sent["origin"], "true")


def test_a_request_key_stands_for_one_message_and_another_one_is_refused(demaq: Asked):
    Path("one.xml").write_text(ORDER.format(31))
    Path("two.xml").write_text(ORDER.format(32))
    assert demaq("send", "orders", "one.xml", "--request", "k31") == 0
    first = demaq.out
    assert demaq("send", "orders", "one.xml", "--request", "k31") == 0
    assert demaq.out == first
    assert demaq("send", "orders", "two.xml", "--request", "k31") == 1
    assert "another message was sent under this name before" in demaq.err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--with", "express"], "--with takes NAME=VALUE, not express"),
        (["--with", "=1"], "--with takes NAME=VALUE, not =1"),
        (["--with", "express=\udcff"], "--with express: the value is not UTF-8"),
        (["--with", "express=1", "--with", "express=0"], "--with sets express twice"),
        (["--request", ""], "--request takes a key that is not empty"),
        (["more.xml", "--request", "k"], "--request names one message, so give one file"),
    ],
)
def test_wrong_usage_of_send_is_an_error(demaq: Asked, options: list[str], said: str):
    assert demaq("send", "orders", "good.xml", *options) == 2
    assert demaq.err.endswith(f"Error: {said}\n")


def test_a_property_that_is_not_there_is_refused_with_the_one_that_was_meant(demaq: Asked):
    Path("good.xml").write_text(ORDER.format(21))
    assert demaq("send", "orders", "good.xml", "--with", "expres=true") == 1
    assert demaq.err.endswith("queue orders has no property expres; did you mean express?\n")


# --- collections and garbage -----------------------------------------------------------------------------------------


def test_a_collection_that_is_not_declared_is_refused_with_the_one_that_was_meant(demaq: Asked):
    Path("p.xml").write_text("<p/>")
    assert demaq("collections", "load", "price", "p.xml") == 1
    assert demaq.err == "demaq: there is no collection price; did you mean prices?\n"


def test_a_malformed_document_is_named_with_line_and_column_and_nothing_is_loaded(demaq: Asked):
    Path("p.xml").write_text("<p/>")
    Path("q.xml").write_text("<p>\n  <q</p>")
    assert demaq("collections", "load", "prices", "p.xml", "q.xml") == 1
    assert demaq.err.startswith("demaq: q.xml: line 2, column ")
    assert demaq("collections", "list") == 0
    assert demaq.out == "prices: not loaded\n"
    assert demaq("collections", "load", "prices", "p.xml") == 0
    assert demaq.json("collections", "list") == [{"collection": "prices", "version": 1, "documents": 1}]


def test_garbage_of_an_offline_store_may_be_kept_for_a_while(demaq: Asked):
    done = [message for message in demaq.json("messages", "orders", "--all") if not message["visible"]]
    assert done
    assert demaq("gc", "--keep", "52000w") == 0
    assert demaq.out == "0 messages removed\n"
    assert demaq("gc") == 0
    assert not [message for message in demaq.json("messages", "orders", "--all") if not message["visible"]]
    assert demaq("gc", "--keep", "soon") == 2


# --- one message -----------------------------------------------------------------------------------------------------


def test_a_message_is_shown_with_the_way_back_to_its_origin(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    program = """
    create queue a create queue out
    create rule grow for a if (number(/n) < 30) then do enqueue <n>{number(/n) + 1}</n> into a
    create rule fan for a if (/n = 30) then for $i in 1 to 70 return do enqueue <x>{$i}</x> into out
    """
    with Lab(program, tmp_path) as lab:
        first = lab.enqueue("a", "<n>1</n>")
        lab.run_until_idle()
        last = lab.read_created("out")[-1].id
        wide = lab.read_created("a")[-1].id
    demaq = Asked(tmp_path, capsys)

    shown = demaq.json("show", last)
    assert [len(shown["causes"]), shown["causes"][-1]] == [30, {"id": first, "queue": "a", "rule": None}]
    assert demaq("show", last) == 0
    lines = demaq.out.splitlines()
    chain = lines[lines.index("caused by") + 1 : lines.index("caused nothing that is still there")]
    assert chain[0] == f"  message {wide} in queue a, rule fan"
    assert chain[-2:] == ["  … and 10 messages between …", f"  message {first} in queue a, rule grow"]
    assert len(chain) == 21
    assert lines[-1] == "<x>70</x>"

    assert demaq("show", wide) == 0
    assert "caused 70 messages" in demaq.out
    assert demaq.out.count("in queue out, rule fan") == 50
    page = demaq.json("show", wide, "--after", demaq.err.split()[-1])["caused"]
    assert [len(page), page[-1]] == [20, {"id": last, "queue": "out", "rule": "fan"}]

    with Lab(program, tmp_path) as lab:
        lab.advance(1)
        lab.collect_garbage()
    assert demaq("show", last) == 0
    assert f"caused by\n  message {wide}, rule fan, which was removed; it began with {first}\n" in demaq.out


@pytest.mark.parametrize("number", ["0", "999999", "9" * 5000])
def test_a_message_that_is_not_there_is_one_line(demaq: Asked, number: str):
    assert demaq("show", number) == 1
    assert demaq.err == f"demaq: there is no message {number}: it never was, or it was removed\n"


# --- stores that are none --------------------------------------------------------------------------------------------

COMMANDS = [
    ["messages", "q"],
    ["show", "1"],
    ["queues"],
    ["slices", "s"],
    ["errors"],
    ["timers"],
    ["collections", "list"],
    ["take", "q"],
    ["gc"],
    ["send", "q", "a.xml"],
    ["collections", "load", "c", "a.xml"],
]


@pytest.mark.parametrize("command", COMMANDS)
def test_what_is_no_store_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: list[str]
):
    monkeypatch.chdir(tmp_path)
    Path("a.xml").write_text("<a/>")
    Path("other").mkdir()
    Path("other", "store.db").write_text("no database at all")
    for folder, said in (("missing", "there is no store in missing"), ("a.xml", "there is no store in a.xml")):
        demaq = Asked(Path(folder), capsys)
        assert demaq(*command) == 1
        assert (demaq.out, demaq.err.startswith(f"demaq: {said}"), demaq.err.count("\n")) == ("", True, 1)
    demaq = Asked(Path("other"), capsys)
    assert demaq(*command) == 1
    assert "it is not a store of Demaq" in demaq.err
    assert len(demaq.err.splitlines()) == 1


def test_a_program_is_read_from_standard_input(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    def given(text: bytes) -> None:
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(text)))

    given(b"create queue q create rule r for q if (/x) then do enqueue <y/> into qq")
    assert cli.run(cli.demaq, ["check", "-"]) == 1
    assert "<stdin>:1:70" in capsys.readouterr().err
    given(b"create queue \xff")
    assert cli.run(cli.demaq, ["check", "-"]) == 1
    assert "is not UTF-8" in capsys.readouterr().err
    assert cli.run(cli.demaq, ["check", "-", "other.dmq"]) == 2
    assert cli.run(cli.demaq, ["try", "-", "-", "--queue", "q"]) == 2


def test_standard_input_that_is_closed_is_one_line(demaq: Asked, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "stdin", None)
    assert demaq("send", "orders", "-") == 1
    assert demaq.err == "demaq: standard input is closed\n"


@pytest.mark.parametrize("words", [["messages", "\udcff"], ["slices", "orderMsgs", "\udcff"], ["slices", "\udcff"]])
def test_names_that_are_no_characters_are_one_line(demaq: Asked, words: list[str]):
    assert demaq(*words) == 1
    assert demaq.err == "demaq: '\\udcff' is not UTF-8\n"


@pytest.mark.parametrize(
    "command", [["messages", "orders"], ["take", "parcels"], ["timers"], ["errors"], ["deliveries"], ["search"]]
)
def test_more_than_a_store_can_count_is_wrong_usage(demaq: Asked, command: list[str]):
    assert demaq(*command, "--limit", str(2**63)) == 2
    assert demaq.err.splitlines()[-1].startswith("Error: Invalid value for '--limit': 9223372036854775808 is not in")
