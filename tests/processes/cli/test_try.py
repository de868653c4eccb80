"""`demaq try`: it says what a node would do."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from demaq import Node
from demaq.cli import main as cli
from demaq.evaluation.native.native_settings import EvaluatorName
from demaq.system_properties import SYSTEM_PROPERTIES
from demaq.testing import Lab

WAIT_SECONDS_MAX = 60.0


def tell_all(names: list[str]) -> str:
    """The text of a program whose rules write down what they can read about a message, and the time."""
    queues = "create queue in create queue out\n"
    when = "create property when as xs:dateTime queue in value current-dateTime()\n"
    values = "".join([f'<p n="{name}">{{qs:property("{name}")}}</p>' for name in names])
    tell = f"create rule tell for in if (true()) then do enqueue <seen>{values}</seen> into out\n"
    time = "create rule time for in if (true()) then do enqueue <t>{current-dateTime(), qs:property('when')}</t> into out\n"
    slicings = [
        f"create slicing by{number} on {name}\n"
        f"create rule slice{number} for by{number} if (/m) then"
        "  do enqueue <key><n>{count(qs:slice())}</n>{qs:slicekey()}</key> into out\n"
        for number, name in enumerate(names)
    ]
    return queues + when + tell + time + "".join(slicings)


class Tried:
    """Runs `demaq try` in one folder; keeps what it said."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        self.out = self.err = ""

    def __call__(self, *words: str) -> int:
        self._capsys.readouterr()
        code = cli.run(cli.demaq, ["try", *words])
        self.out, self.err = self._capsys.readouterr()
        return code


@pytest.fixture
def tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Tried:
    monkeypatch.chdir(tmp_path)
    return Tried(capsys)


# --- the same as elsewhere -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("now", ["2026-05-01T12:30:00+02:00", "2026-05-01T12:30:00.250000Z", "2026-05-01T12:30:00"])
@pytest.mark.parametrize("evaluator", ["auto", "saxon"])
def test_the_system_says_the_same_about_a_message_here_in_a_laboratory_and_in_a_node(
    tried: Tried, evaluator: EvaluatorName, now: str
):
    Path("app.dmq").write_text(tell_all(list(SYSTEM_PROPERTIES)))
    body = '<?xml version="1.0" encoding="ISO-8859-1"?>\n<m>f\u00fcnf</m>\n'.encode("iso-8859-1")
    Path("m.xml").write_bytes(body)
    at = datetime.fromisoformat(now)
    at = at.astimezone(UTC) if at.tzinfo else at.replace(tzinfo=UTC)
    assert tried("app.dmq", "m.xml", "--queue", "in", "--now", now, "--json", "--evaluator", evaluator) == 0, tried.err
    by_try = [action["enqueue"] for action in json.loads(tried.out)["actions"]]
    with Lab("app.dmq", evaluator=evaluator) as lab:
        lab.now = at
        lab.enqueue("in", body)
        lab.run_until_idle()
        in_lab = [message.body for message in lab.read_created("out")]
    node = Node("app.dmq", "store", clock=lambda: at, evaluator=evaluator)
    node.start()
    try:
        node.enqueue("in", body)
        until = time.monotonic() + WAIT_SECONDS_MAX
        while not (found := node.store.stored("out", 0, 99)) and time.monotonic() < until:
            time.sleep(0.01)
    finally:
        node.stop()
    assert by_try == in_lab == [message.body for message in found]
    assert f'<p n="demaq:created">{at:%Y-%m-%dT%H:%M:%S}' in by_try[0]
    assert len(by_try) > 5, "it is in slices"


def test_a_time_before_the_first_year_of_utc_is_wrong_usage(tried: Tried) -> None:
    Path("app.dmq").write_text(
        "create queue in create queue out create rule r for in if (/x) then do enqueue /x into out"
    )
    Path("m.xml").write_text("<m/>")
    assert tried("app.dmq", "m.xml", "--queue", "in", "--now", "0001-01-01T00:00:00+14:00") == 2
    assert tried.err.splitlines()[-1] == (
        "Error: --now takes a time such as 2026-05-01T12:00:00Z, not 0001-01-01T00:00:00+14:00"
    )


# --- what it says ----------------------------------------------------------------------------------------------------

SHOP = """create queue orders create queue out kind mailbox
create property orderID as xs:string queue orders value /order/id
create rule confirm for orders if (/order/id) then do enqueue <confirmation>{string(/order/id)}</confirmation> into out
create rule complain for orders if (/complaint) then do enqueue <sorry/> into out
"""


def test_of_rules_that_do_not_fire_it_is_said_why(tried: Tried):
    Path("shop.dmq").write_text(SHOP)
    Path("order.xml").write_text("<order><id>7</id></order>")
    Path("letter.xml").write_text("<letter/>")
    assert tried("shop.dmq", "order.xml", "--queue", "orders") == 0
    assert "rule confirm fires" in tried.out
    complain = "rule complain does not fire (shop.dmq:4)\n  /complaint finds nothing: the root is"
    assert f"{complain} order\n" in tried.out
    assert tried("shop.dmq", "letter.xml", "--queue", "orders") == 0
    confirm = "rule confirm does not fire (shop.dmq:3)\n  /order/id finds nothing: the root is letter\n"
    assert tried.out == f"message of queue orders\nno rule fires\n{confirm}{complain} letter\n"
    assert tried("shop.dmq", "letter.xml", "--queue", "orders", "--json") == 0
    assert [
        (each["rule"], each["result"], [cause["expression"] for cause in each["causes"]])
        for each in json.loads(tried.out)["why"]
    ] == [("confirm", "not-fired", ["/order/id"]), ("complain", "not-fired", ["/complaint"])]


def test_of_many_rules_those_that_were_not_asked_are_left_out_unless_asked_for(tried: Tried):
    rules = [f"create rule r{n} for orders if (/other{n}) then do enqueue <sorry/> into out" for n in range(40)]
    Path("shop.dmq").write_text("\n".join([SHOP, *rules]))
    Path("order.xml").write_text("<order><id>7</id></order>")
    assert tried("shop.dmq", "order.xml", "--queue", "orders") == 0
    assert tried.out.splitlines()[-1] == "41 further rules do not fire: -v shows why"
    for option in ("-v", "--verbose"):
        assert tried(option, "shop.dmq", "order.xml", "--queue", "orders") == 0
        assert "rule r39 is not asked (shop.dmq:45): the message has no /other39\n" in tried.out


def test_a_name_in_another_namespace_is_reported_with_the_declaration_to_add(tried: Tried):
    Path("shop.dmq").write_text(SHOP)
    Path("order.xml").write_text('<order xmlns="urn:o"><id>7</id></order>')
    assert tried("shop.dmq", "order.xml", "--queue", "orders") == 0
    lines = tried.out.splitlines()
    assert lines[:2] == ["message of queue orders", "no rule fires"]
    at = lines.index("rule confirm does not fire (shop.dmq:3)")
    assert lines[at + 1] == "  /order/id finds nothing: the root is Q{urn:o}order"
    said = " ".join(" ".join(lines[at + 2 : at + 6]).split())
    assert said.startswith(
        'hint: order is in no namespace here, and in namespace "urn:o" in the document: '
        'declare default element namespace "urn:o";'
    )
    assert 'property orderID is absent: "id" is in no namespace here, and in namespace "urn:o" in the message' in lines
    at = lines.index("rule complain does not fire (shop.dmq:4)")
    assert "hint" not in lines[at + 2], "nothing in the message has that name"
    assert tried("shop.dmq", "order.xml", "--queue", "orders", "--json") == 0
    found = json.loads(tried.out)["namespaces"]
    assert {(each["about"], each["name"], each["in_message"]) for each in found} >= {
        ("rule confirm does not fire", "order", "urn:o"),
        ("property orderID is absent", "order", "urn:o"),
    }
    Path("shop.dmq").write_text('declare default element namespace "urn:o";\n' + SHOP)
    assert tried("shop.dmq", "order.xml", "--queue", "orders", "--json") == 0
    assert json.loads(tried.out)["namespaces"] == []
    assert json.loads(tried.out)["actions"][0]["enqueue"] == '<confirmation xmlns="urn:o">7</confirmation>'
    # And the mirror: the module has a default namespace, the message none.
    Path("order.xml").write_text("<order><id>7</id></order>")
    assert tried("shop.dmq", "order.xml", "--queue", "orders") == 0
    assert "Q{}order means the one in no namespace" in tried.out


# --- stored messages -------------------------------------------------------------------------------------------------

COUNTING = """create queue orders create queue out kind mailbox
create property customer as xs:string queue orders value /order/@customer
create property urgent as xs:boolean queue orders
create slicing customers on customer
create rule count for customers if (/order) then
  do enqueue <n of="{qs:slicekey()}" urgent="{qs:property("urgent")}" id="{qs:property("demaq:id")}">
    {count(qs:slice()), count(qs:queue("orders")[/order/@customer = qs:message()/order/@customer])}</n> into out
create rule finish for customers if (/order/@last) then do reset
"""


def test_a_stored_message_is_tried_on_what_was_there_and_changes_nothing(tried: Tried):
    Path("shop.dmq").write_text(COUNTING)
    with Lab("shop.dmq", "store") as lab:
        first = lab.enqueue("orders", "<order customer='a'/>", {"urgent": True})
        second = lab.enqueue("orders", "<order customer='a'/>", {"urgent": False})
        lab.run_until_idle()
        third = lab.enqueue("orders", "<order customer='a'/>")
        made = [message.body for message in lab.read_created("out")]
    before = Path("store/store.db").read_bytes()

    def enqueued(*words: str) -> str:
        assert tried("shop.dmq", *words, "--store", "store", "--json") == 0, tried.err
        return str(json.loads(tried.out)["actions"][0]["enqueue"])

    assert [enqueued(first), enqueued(second)] == made, "as it was processed"
    assert f'urgent="" id="{third}"' in enqueued(third)
    assert ">3 3<" in enqueued(third).replace("\n    ", "")
    assert 'urgent="true"' in enqueued(second, "--with", "urgent=true")
    assert Path("store/store.db").read_bytes() == before
    assert tried("shop.dmq", "99", "--store", "store") == 1
    assert tried.err == "demaq: there is no message 99 in store, and no such file\n"
    assert tried("shop.dmq", first, "--store", "store", "--queue", "orders") == 2
    assert tried("shop.dmq", first, "--store", "nowhere") == 1
    Path("order.xml").write_text("<order/>")
    assert tried("shop.dmq", "order.xml") == 2
    assert "--queue" in tried.err


def test_a_stored_message_is_tried_by_an_application_with_other_slices_and_indexes(tried: Tried):
    Path("old.dmq").write_text("create queue orders create rule r for orders if (/none) then do enqueue . into orders")
    with Lab("old.dmq", "store") as lab:
        for customer in ("a", "b", "a"):
            lab.enqueue("orders", f"<order customer='{customer}'/>")
        last = lab.enqueue("orders", "<order customer='a'/>")
    Path("shop.dmq").write_text(COUNTING)
    assert tried("shop.dmq", last, "--store", "store", "--json") == 0, tried.err
    assert ">3 3<" in json.loads(tried.out)["actions"][0]["enqueue"].replace("\n    ", "")
