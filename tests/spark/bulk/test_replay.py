"""Messages run again: in a laboratory, by the command on offline stores and running nodes, and on a real Spark."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path

import pytest

import demaq
from demaq.bulk import replay
from demaq.bulk.executors import ProgramOnStore
from demaq.bulk.message_search import Filters, Finder, NothingToFind
from demaq.bulk.message_sink import BulkReport
from demaq.bulk.replay import LocalBackend, Replay, SparkBackend
from demaq.cli import main as cli
from demaq.cli import shared_options
from demaq.cli.replay import KEEP
from demaq.engine.error_routing import Failure
from demaq.evaluation.saxon.saxon_evaluator import SaxonEvaluator
from demaq.server.control_server import ControlServer
from demaq.server.node import Node
from demaq.spark.session import RunningSpark
from demaq.store.protocol import NewMessage, StoredMessage
from demaq.store.sqlite import SqliteStore
from demaq.testing.lab import START, Lab

KILL_SECONDS_MAX = 120.0
APPLICATION = """
module shop errorqueue troubles;
create queue orders
create queue bills
create queue parcels
create queue troubles
create property express as xs:boolean inherited queue orders, parcels value false()
create property euros as xs:decimal fixed queue bills value /bill/@euros
create property orderID as xs:string queue orders value /order/@id
create slicing byOrder on orderID
create rule bill for orders
  if (/order) then do enqueue <bill euros="{EUROS}" again="{qs:property("demaq:replayOf")}"/> into bills
create rule ship for byOrder
  if (/order/@ship) then do enqueue <parcel>{/order/@id}{qs:property("demaq:replayRule")}</parcel> into parcels
create rule forget for orders if (/order[not(@keep)]) then do reset byOrder key /order/@id
"""
BROKEN = APPLICATION.replace("EUROS", "xs:decimal(/order/@euros)")
REPAIRED = APPLICATION.replace("EUROS", 'xs:decimal(translate(/order/@euros, ",", "."))')
GOOD = '<order id="{}" euros="{}" ship=""/>'


class Again:
    """Replays in a laboratory, without processes."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab

    def append(self, messages: Sequence[NewMessage], digest: str, watch: str | None = None) -> list[bool]:
        return self.lab._engine.append_checked(messages)

    def __call__(self, name: str = "", **filters: object) -> BulkReport:
        """Run again what the filters ask for, and process it."""
        plan, store = self.lab._compiled.plan, self.lab.store
        asked = Filters(**filters)  # type: ignore[arg-type]
        Finder(plan, asked).check()
        backend = LocalBackend(plan, store, SaxonEvaluator(self.lab._compiled))
        found = backend.find(asked, store.snapshot(), lambda numbers: None)
        report = BulkReport()
        Replay(store=store, target=self, digest="", name=name).run(backend, found.select_newest(), report)
        self.lab.run_until_idle()
        return report

    def found(self, **filters: object) -> list[int]:
        backend = LocalBackend(self.lab._compiled.plan, self.lab.store, SaxonEvaluator(self.lab._compiled))
        asked = Filters(**filters)  # type: ignore[arg-type]
        return [
            item.first for item in backend.find(asked, self.lab.store.snapshot(), lambda numbers: None).select_newest()
        ]


def run(folder: Path, program: str, *bodies: str, **properties: str) -> None:
    with Lab(program, store=folder) as lab:
        for body in bodies:
            lab.enqueue("orders", body, properties)
        lab.run_until_idle()


def bodies(lab: Lab, queue: str) -> list[str]:
    return [message.body for message in lab.store.visible(queue, 0, 10_000)]


# in a laboratory


def test_only_the_rule_that_failed_acts_again_and_sees_why(tmp_path: Path):
    run(tmp_path, BROKEN, GOOD.format(1, "2,5"), express="true")
    with Lab(REPAIRED, store=tmp_path) as lab:
        before = lab.store.stored("orders", 0, 9)[0]
        assert Again(lab)(codes=("FORG*",)).stored == 1
        assert bodies(lab, "bills") == ['<bill euros="2.5" again="1"/>']
        assert bodies(lab, "parcels") == ['<parcel id="1"/>']
        copy = lab.store.stored("orders", 1, 9)[0]
        assert (copy.body, copy.rule, copy.trigger, copy.origin) == (before.body, None, None, 1)
        kept = {name: value.text for name, value in copy.properties.items()}
        assert kept == {"express": "true", "orderID": "1", "demaq:replayOf": "1", "demaq:replayRule": "bill"}


def test_a_message_that_is_gone_is_run_again_from_its_error_with_all_that_was_set(tmp_path: Path):
    run(tmp_path, BROKEN, GOOD.format(1, "2,5"), express="true")
    store = SqliteStore(tmp_path)
    store.collect_garbage(START + KEEP, 100)
    assert store.message(1) is None
    store.close()
    with Lab(REPAIRED, store=tmp_path) as lab:
        assert Again(lab)(codes=("err:FORG0001",)).stored == 1
        assert bodies(lab, "bills") == ['<bill euros="2.5" again="1"/>']
        [copy] = lab.store.stored("orders", 0, 9)
        assert copy.properties["express"].text == "true"
        assert (copy.origin, copy.slices) == (1, (("byOrder", "1"),))


def test_each_error_is_run_again_once_and_a_new_failure_is_a_new_error(tmp_path: Path):
    run(tmp_path, BROKEN, GOOD.format(1, "2,5"), GOOD.format(2, "3"))
    with Lab(BROKEN, store=tmp_path) as lab:
        again = Again(lab)
        assert again(codes=("*",)).stored == 1
        failed = lab.store.visible("troubles", 0, 9)
        assert [message.properties.get("demaq:failedReplayOf") is not None for message in failed] == [False, True]
        assert again(codes=("*",)).stored == 1  # what failed again
        assert again.found(codes=("*",)) == [1]
    with Lab(REPAIRED, store=tmp_path) as lab:
        again = Again(lab)
        assert again(codes=("*",)).stored == 1
        assert again(codes=("*",)) == BulkReport(known=1)
        assert bodies(lab, "bills") == ['<bill euros="3" again=""/>', '<bill euros="2.5" again="1"/>']
        assert again(name="on purpose", codes=("*",)).stored == 1
        assert len(bodies(lab, "bills")) == 3


def test_stored_messages_of_a_queue_are_run_again_by_all_rules_or_by_one(tmp_path: Path):
    run(tmp_path, REPAIRED, '<order id="1" euros="1" ship="" keep=""/>', '<order id="2" euros="2" keep=""/>')
    with Lab(REPAIRED, store=tmp_path) as lab:
        again = Again(lab)
        assert again(queues=("orders",), rule="bill").stored == 2
        assert (len(bodies(lab, "bills")), len(bodies(lab, "parcels"))) == (4, 1)
        assert again(queues=("orders",)).stored == 2, "the copies are not run again themselves"
        assert (len(bodies(lab, "bills")), len(bodies(lab, "parcels"))) == (6, 2)
        assert again(queues=("orders",)).known == 2
        assert again(rule="ship", name="ship").stored == 2
        assert bodies(lab, "parcels")[-1] == '<parcel id="1">ship</parcel>'
        assert [key for key, _ in lab.store.slice_keys("byOrder", None, 9)] == ["1", "2"]


def test_a_copy_that_the_system_gives_up_is_run_again_by_its_only_rule(tmp_path: Path):
    run(tmp_path, BROKEN, GOOD.format(1, "2,5"))
    with Lab(BROKEN, store=tmp_path) as lab:
        Again(lab)(codes=("*",))
        copy = lab.store.stored("orders", 1, 9)[0]
        parked = Failure(kind="systemError", code="demaq:parked", description="it broke", rule=None)
        lab._engine.append(lab._engine.factory.make_parked(parked, copy, START))
    with Lab(REPAIRED, store=tmp_path) as lab:
        assert Again(lab)(codes=("demaq:parked",)).stored == 1
        assert bodies(lab, "bills") == ['<bill euros="2.5" again="1"/>']
        assert bodies(lab, "parcels") == ['<parcel id="1"/>']


def test_filters_combine(tmp_path: Path):
    wrong = "create queue checks create rule check for checks if (/order) then do enqueue <x>{1 + /order/@id}</x> into bills"
    with Lab(BROKEN + wrong, store=tmp_path) as lab:
        again = Again(lab)
        lab.enqueue("orders", GOOD.format(1, "a"))
        lab.run_until_idle()
        lab.advance(3600)
        lab.enqueue("checks", "<order id='b'/>")
        lab.run_until_idle()
        [first], [second] = [[m.seq for m in lab.store.stored(queue, 0, 9)] for queue in ("orders", "checks")]
        later = START + timedelta(minutes=30)
        assert again.found(codes=("*",)) == [first, second]
        assert again.found(codes=("dynamicError",), queues=("orders",)) == [first]
        assert again.found(codes=("dynamicError",), rule="check") == [second]
        assert again.found(codes=("err:FORG*",), since=later) == [second]
        assert again.found(codes=("FORG*",), until=later) == [first]
        assert again.found(codes=("XPTY*",)) == []
        assert again.found(queues=("checks",), since=later) == [second]
        assert again.found(queues=("checks",), until=later) == []


def test_what_cannot_be_run_again_is_counted_with_the_reason(tmp_path: Path):
    run(tmp_path, BROKEN, GOOD.format(1, "a"))
    renamed = REPAIRED.replace("rule bill", "rule invoice")
    with Lab(renamed, store=tmp_path) as lab:
        backend = LocalBackend(lab._compiled.plan, lab.store, SaxonEvaluator(lab._compiled))
        finding = backend.find(Filters(codes=("*",)), lab.store.snapshot(), lambda numbers: None)
        assert finding.found == []
        assert finding.impossible == {"rule bill does not pertain to queue orders any more": 1}


def test_a_copy_that_the_application_no_longer_takes_is_reported_and_not_stored(tmp_path: Path):
    run(tmp_path, REPAIRED, '<order id="1" euros="1" keep=""/>')
    stricter = REPAIRED + "create property weight as xs:integer fixed queue orders value 'heavy'"
    with Lab(stricter, store=tmp_path) as lab:
        report = Again(lab)(queues=("orders",))
        assert (report.stored, report.refused) == (0, {"propertyError": 1})
        assert report.examples[0].startswith("message 1 of orders: propertyError: ")


@pytest.mark.parametrize(
    ("filters", "said"),
    [
        ({"queues": ("ordres",)}, "there is no queue ordres; did you mean orders?"),
        ({"rule": "bil"}, "there is no rule bil; did you mean bill?"),
        ({"queues": ("bills",)}, "no rule pertains to queue bills: to run its messages again would do nothing"),
        (
            {"queues": ("bills",), "rule": "bill"},
            "rule bill does not pertain to queue bills; it does to orders",
        ),
        (
            {"queues": ("orders",), "since": START, "until": START},
            "--since is not before --until",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused(filters: dict[str, object], said: str):
    with Lab(REPAIRED) as lab:
        with pytest.raises(NothingToFind) as refusal:
            Finder(lab._compiled.plan, Filters(**filters)).check()  # type: ignore[arg-type]
        assert str(refusal.value) == said


# the command


class Shop:
    """A store in a folder, the application beside it, and commands on it."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.application = folder / "shop.dmq"
        self.store = folder / "store"
        self._capsys = capsys
        self.out = self.err = ""

    def run(self, program: str, *orders: str) -> None:
        """Let an application run on the store until it has nothing to do."""
        self.application.write_text(program)
        with Lab(self.application, store=self.store) as lab:
            for body in orders:
                lab.enqueue("orders", body)
            lab.run_until_idle()

    def __call__(self, *words: str) -> int:
        code = cli.run(cli.demaq, [*words, "--store", str(self.store)])
        self.out, self.err = self._capsys.readouterr()
        return code

    def stored(self, queue: str) -> list[StoredMessage]:
        store = SqliteStore.open_readonly(self.store)
        found = store.stored(queue, 0, 100_000)
        store.close()
        return found

    def bodies(self, queue: str) -> list[str]:
        return [message.body for message in self.stored(queue)]


@pytest.fixture
def shop(tmp_path: Path, monkeypatch, capsys) -> Shop:
    monkeypatch.chdir(tmp_path)
    return Shop(tmp_path, capsys)


def test_an_offline_store_is_repaired_and_what_failed_is_processed(shop: Shop):
    shop.run(BROKEN, GOOD.format(1, "2,5"), GOOD.format(2, "3"), GOOD.format(3, "x"))
    shop.application.write_text(REPAIRED)
    before = (shop.store / "store.db").read_bytes()

    assert shop("replay", "shop.dmq", "--error", "*", "--dry-run") == 0
    assert shop.out == "2 messages would be run again\n  2 of queue orders, rule bill, FORG0001\n  messages 1, 3\n"
    assert (shop.store / "store.db").read_bytes() == before

    assert shop("replay", "shop.dmq", "--error", "*") == 1
    assert shop.out == (
        "2 messages run again: 1 processed without errors, 1 failed again\n  1 error FORG0001 in rule bill\n"
    )
    assert shop.err.startswith("rule bill: changed\n")
    assert "FORG0001 in rule bill" in shop.err
    assert shop.bodies("bills") == ['<bill euros="3" again=""/>', '<bill euros="2.5" again="1"/>']
    assert len(shop.bodies("parcels")) == 3

    copy = shop.stored("orders")[-1].seq
    assert shop("show", str(copy)) == 0
    assert "runs message 3 again\n" in shop.out
    assert shop("show", "3", "--json") == 0
    assert json.loads(shop.out)["copies"] == [str(copy)]


@pytest.mark.slow
def test_a_running_node_processes_the_copies_and_tells_what_failed(shop: Shop):
    kept = '<order id="{}" euros="{}" ship="" keep=""/>'
    shop.run(BROKEN, kept.format(1, "2"), kept.format(2, "x"))
    node = Node(shop.application, shop.store)
    control = ControlServer(node)
    node.start()
    try:
        assert shop("replay", "--queue", "orders", "--json") == 1
        assert json.loads(shop.out) == {
            "found": 2,
            "stored": 2,
            "known": 0,
            "refused": {},
            "impossible": {},
            "processed": 2,
            "failed": 1,
            "errors": [{"code": "FORG0001", "rule": "bill", "messages": 1}],
        }
        assert shop("replay", "--queue", "orders") == 0
        assert shop.out == "0 messages run again, 2 run again before (--name NAME runs them once more)\n"
        assert shop("replay", "--queue", "orders", "--name", "twice", "--rule", "ship") == 0
        assert shop.out == "2 messages run again: 2 processed without errors\n"
        assert shop("replay", "shop.dmq", "--queue", "orders") == 1
        assert shop.err.startswith("demaq: a node runs on the store, under its own application")
    finally:
        control.close()
        node.stop(drain=True)
    assert (len(shop.bodies("bills")), len(shop.bodies("parcels"))) == (2, 6)


def test_wrong_options_are_one_line(shop: Shop):
    shop.run(BROKEN)
    assert shop("replay", "--rule", "bil") == 1
    assert (shop.out, shop.err) == ("", "demaq: there is no rule bil; did you mean bill?\n")
    assert shop("replay") == 2
    assert "say what to run again: --queue, --rule or --error" in shop.err
    assert shop("replay", "--error", "*", "--since", "yesterday") == 2
    assert "yesterday is neither a time such as 2026-11-16T08:30 nor an age such as 2h" in shop.err


@pytest.mark.slow
def test_a_replay_that_was_killed_continues_without_duplicates(shop: Shop):
    count = 1200
    shop.run(BROKEN, *[GOOD.format(number, "1,5") for number in range(count)])
    shop.run(REPAIRED)
    command = [sys.executable, "-m", "demaq.cli", "replay", "--error", "FORG*", "--pipeline", "inline"]
    for queue in ("orders", "bills"):  # while copies are stored, then while they are processed
        child = subprocess.Popen(
            [*command, "--store", str(shop.store)],
            env={**os.environ, "PYTHONPATH": str(Path(demaq.__file__).parents[1])},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        last = time.monotonic() + KILL_SECONDS_MAX
        there = len(shop.stored(queue))
        while len(shop.stored(queue)) == there:
            assert child.poll() is None, "it must not end before it is killed"
            assert time.monotonic() < last
            time.sleep(0.01)
        child.send_signal(signal.SIGKILL)
        child.wait()

    assert shop("replay", "--error", "FORG*", "--pipeline", "inline") == 0
    copies = [message for message in shop.stored("orders") if "demaq:replayOf" in message.properties]
    assert len(copies) == len({message.properties["demaq:replayOf"].text for message in copies}) == count
    assert len(shop.bodies("bills")) == len(set(shop.bodies("bills"))) == count
    assert len(shop.bodies("parcels")) == count


# on Spark


@pytest.fixture
def at_hand(tmp_path: Path) -> Iterator[tuple[Lab, ProgramOnStore]]:
    application = tmp_path / "shop.dmq"
    application.write_text(BROKEN)
    with Lab(application, store=tmp_path / "store") as lab:
        for number in range(300):
            lab.enqueue("orders", GOOD.format(number, "1,5" if number % 3 else "1"), {"express": "1"})
        lab.run_until_idle()
        yield lab, ProgramOnStore.of(lab.program.files(), tmp_path / "store")


@pytest.mark.slow
def test_executors_find_and_copy_the_same_messages(
    at_hand: tuple[Lab, ProgramOnStore], spark: RunningSpark, monkeypatch
):
    lab, place = at_hand
    monkeypatch.setattr(replay, "RANGE_NUMBERS", 333)
    monkeypatch.setattr(replay, "TASK_MESSAGES_MAX", 30)
    local = LocalBackend(lab._compiled.plan, lab.store, SaxonEvaluator(lab._compiled))
    on_spark = SparkBackend(spark.session, place)
    looked: list[int] = []
    for filters in (Filters(codes=("FORG*",)), Filters(queues=("orders",), rule="ship")):
        found = [backend.find(filters, lab.store.snapshot(), looked.append) for backend in (local, on_spark)]
        assert found[0].select_newest() == found[1].select_newest() != []
        copies = [
            [copy for wave in backend.make_copies(found[0].select_newest(), "n") for copy in wave]
            for backend in (local, on_spark)
        ]
        assert [_timeless(copy) for copy in copies[0]] == [_timeless(copy) for copy in copies[1]]
    assert sum(looked) == 4 * lab.store.snapshot()


def _timeless(copy: object) -> tuple[object, ...]:
    assert isinstance(copy, NewMessage)
    return (copy.queue, copy.body, copy.properties, copy.slices, copy.entries, copy.request, copy.trigger, copy.origin)


@pytest.mark.slow
def test_a_message_that_ends_its_worker_is_found_and_the_others_are_copied(
    at_hand: tuple[Lab, ProgramOnStore], spark: RunningSpark, monkeypatch
):
    _, place = at_hand
    monkeypatch.setattr(replay, "copy_batch", copy_mortally)
    backend = SparkBackend(spark.session, place)
    found = backend.find(Filters(queues=("orders",)), 4, lambda numbers: None).select_newest()
    answers = [copy for wave in backend.make_copies(found, "") for copy in wave]
    assert [number for number, answer in enumerate(answers) if not isinstance(answer, NewMessage)] == [1]


def copy_mortally(assignment: bytes) -> bytes:
    """As the real one, but that one message ends the process."""
    import os
    import pickle

    from demaq.bulk.replay import copy_batch

    _, found, _, _ = pickle.loads(assignment)
    if any([item.seq == 2 for item in found]):
        os._exit(3)
    return copy_batch(assignment)


def test_the_command_uses_spark_if_it_is_asked_to(shop: Shop, spark: RunningSpark, monkeypatch):
    monkeypatch.setattr(shared_options, "start_spark", lambda *_, **__: contextlib.nullcontext(spark))
    shop.run(BROKEN, GOOD.format(1, "2,5"), GOOD.format(2, "3"))
    shop.run(REPAIRED)
    assert shop("replay", "--error", "FORG0001", "--pipeline", "spark", "--dry-run", "--json") == 0
    assert json.loads(shop.out)["messages"] == ["1"]
