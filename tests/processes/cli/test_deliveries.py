"""What operators hear of messages that were sent, were not, or wait; and how they send them again."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from demaq.cli import main as cli
from demaq.gateways.settings import OutgoingSettings, Settings
from demaq.server.control_server import ControlServer
from demaq.store.protocol import Attempt, Postponed, Step
from demaq.store.sqlite import SqliteStore
from demaq.testing.lab import Lab
from tests.support.gateways.nodes import Running, running, wait_until
from tests.support.gateways.peers import Answer, Got, OtherSide, other_side
from tests.support.store.contract import new

APPLICATION = """
create queue orders
create queue supplier kind outgoingGateway endpoint "{address}/s"
create queue patient kind outgoingGateway endpoint "{address}/p"
create queue silent kind outgoingGateway endpoint "{address}/n"
create rule ask for orders if (/order) then do enqueue . into supplier
create rule wait for orders if (/wish) then do enqueue . into patient
"""
SETTINGS = Settings(
    outgoing_by_queue={
        "supplier": OutgoingSettings(attempts=2, retry_first_seconds=0.01, breaker_failures=100),
        "patient": OutgoingSettings(retry_first_seconds=3600, retry_seconds_max=3600),
    }
)
TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d")


class Asked:
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
def demaq(here: Running, capsys: pytest.CaptureFixture[str]) -> Asked:
    return Asked(here.node.folder, capsys)


@pytest.fixture(scope="module")
def supplier() -> Iterator[OtherSide]:
    with other_side() as found:
        yield found


@pytest.fixture(scope="module")
def here(supplier: OtherSide, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with node(tmp_path_factory.mktemp("deliveries"), supplier) as found:
        yield found


@contextmanager
def node(folder: Path, supplier: OtherSide) -> Iterator[Running]:
    with running(folder, APPLICATION.replace("{address}", supplier.address), SETTINGS) as found:
        control = ControlServer(found.node)
        try:
            yield found
        finally:
            control.close()


def unavailable(got: Got) -> Answer:
    return 503, {}, b""


def accepted(got: Got) -> Answer:
    return 202, {}, b""


def send(here: Running, body: str, attempts: int) -> str:
    """The number of what a gateway has to send because of this message, after so many attempts."""
    order = here.node.enqueue("orders", body)
    wait_until(lambda: bool(here.node.store.caused_by(order)))
    [message] = here.node.store.caused_by(order)
    wait_until(lambda: len(results(here, str(message))) == attempts)
    return str(message)


def results(here: Running, message: str) -> list[tuple[int, str]]:
    """Number and result of every attempt, in order."""
    return [(a.number, a.result) for a in here.node.store.attempts(None, int(message), 99)[::-1]]


def expect_results(here: Running, message: str, expected: list[tuple[int, str]]) -> None:
    wait_until(lambda: results(here, message) == expected)


def test_attempts_are_listed_in_the_order_of_time_with_what_went_wrong(
    here: Running, supplier: OtherSide, demaq: Asked
):
    supplier.answer = unavailable
    message = send(here, "<order/>", attempts=2)
    assert demaq("deliveries", "--message", message) == 0
    lines = [TIME.sub("TIME", line) for line in demaq.out.splitlines()]
    assert lines[0].startswith(f"{message:>8}  TIME  supplier: attempt 1 failed 503")
    assert lines[2].startswith(f"{message:>8}  TIME  supplier: attempt 2 failed, given up 503")
    assert lines[1] == lines[3]
    assert lines[1].startswith("          ")
    assert demaq.err == ""
    found = demaq.json("deliveries", "supplier", "--message", message)
    assert [(a["attempt"], a["result"]) for a in found["attempts"]] == [(1, "again"), (2, "failed")]
    assert found["attempts"][0]["destination"] == f"{supplier.address}/s"
    assert found["waiting"] == []


def test_what_waits_is_listed_after_the_attempts_with_when_it_is_due(here: Running, supplier: OtherSide, demaq: Asked):
    supplier.answer = unavailable
    message = send(here, "<wish/>", attempts=1)
    assert demaq("deliveries", "patient") == 0
    assert TIME.sub("TIME", demaq.out.splitlines()[-1]) == f"{message:>8}  TIME  patient: waits for attempt 2"
    [waiting] = demaq.json("deliveries")["waiting"]
    assert (waiting["id"], waiting["attempts"]) == (message, 1)
    assert waiting["due"] > waiting["created"]
    supplier.answer = accepted
    assert demaq("redeliver", message) == 0
    assert demaq.out == "1 message will be sent again now\n"
    expect_results(here, message, [(1, "again"), (1, "sent")])


def test_a_limit_keeps_the_newest_attempts(here: Running, supplier: OtherSide, demaq: Asked):
    supplier.answer = accepted
    for number in range(3):
        send(here, f"<wish n='{number}'/>", attempts=1)
    found = demaq.json("deliveries", "patient", "--limit", "2")["attempts"]
    assert demaq.err == "there are more attempts: --limit 4\n"
    assert found == demaq.json("deliveries", "patient")["attempts"][-2:]


def test_a_gateway_of_which_nothing_is_known_is_empty_and_no_gateway_an_error(demaq: Asked):
    assert demaq("deliveries", "silent") == 0
    assert (demaq.out, demaq.err) == ("", "nothing waits to be sent, and no attempt is remembered\n")
    for command in (["deliveries"], ["redeliver", "--failed"]):
        assert demaq(*command, "orders") == 1
        assert demaq.err == "demaq: queue orders is no outgoing gateway: nothing is sent from it\n"
        assert demaq(*command, "suplier") == 1
        assert demaq.err == "demaq: there is no queue suplier; did you mean supplier?\n"
    assert demaq("redeliver", "--failed", "silent") == 0
    assert (demaq.out, demaq.err) == ("", "nothing that silent has given up is still stored\n")


def test_what_was_given_up_is_sent_again_once(here: Running, supplier: OtherSide, demaq: Asked):
    supplier.answer = unavailable
    messages = [send(here, f"<order n='{number}'/>", attempts=2) for number in range(2)]
    supplier.answer = accepted
    assert demaq("redeliver", "--failed", "supplier") == 0
    assert demaq.out.endswith("messages will be sent again now\n")
    for message in messages:
        expect_results(here, message, [(1, "again"), (2, "failed"), (1, "sent")])
        sent = [got for got in supplier.got if got.headers["idempotency-key"].endswith(f"/{message}")]
        assert len(sent) == 3
    assert demaq("redeliver", "--failed", "supplier") == 0
    assert demaq.err == "nothing that supplier has given up is still stored\n"


def test_what_cannot_be_sent_again_is_one_line_and_nothing_is(here: Running, supplier: OtherSide, demaq: Asked):
    supplier.answer = accepted
    message = send(here, "<order/>", attempts=1)
    order = here.stored("orders")[0].seq
    assert demaq("redeliver", message, str(order)) == 1
    assert demaq.err == f"demaq: message {order} is in queue orders, which is no outgoing gateway\n"
    assert demaq("redeliver", message, "99999") == 1
    assert demaq.err == "demaq: there is no message 99999, or it has been removed\n"
    assert results(here, message) == [(1, "sent")]


def test_without_a_node_a_message_waits_for_the_next_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    demaq = Asked(tmp_path / "store", capsys)
    with Lab(APPLICATION.replace("{address}", "http://127.0.0.1:1"), demaq.store) as lab:
        lab.enqueue("orders", "<order/>")
        lab.run_until_idle()
    [waiting] = demaq.json("deliveries", "supplier")["waiting"]
    message = waiting["id"]
    give_up(demaq.store, int(message))
    assert demaq.json("deliveries")["waiting"] == []
    assert demaq("redeliver", "--failed", "supplier") == 0
    assert demaq.out == "1 message will be sent again when a node runs\n"
    assert [(each["id"], each["attempts"]) for each in demaq.json("deliveries")["waiting"]] == [(message, 0)]
    give_up(demaq.store, int(message), is_garbage=True)
    assert demaq("redeliver", message) == 1
    assert demaq.err == (
        f"demaq: message {message} has been removed; from its error message, if that is still stored, it is run again "
        "by demaq replay --error timeout --queue supplier\n"
    )


def test_of_very_many_messages_none_is_sent_again_where_the_last_one_cannot_be(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    demaq = Asked(tmp_path / "store", capsys)
    with Lab(APPLICATION.replace("{address}", "http://127.0.0.1:1"), demaq.store) as lab:
        order = lab.enqueue("orders", "<other/>")
        many = [new("supplier", undelivered=True, priority=None) for _ in range(1500)]
        numbers = [str(number) for number in lab.store.append(many)]
        later = datetime.now(UTC) + timedelta(days=1)
        lab.store.postpone([Postponed(message=int(number), due=later) for number in numbers])
    assert demaq("redeliver", *numbers, str(order)) == 1
    assert demaq.err == f"demaq: message {order} is in queue orders, which is no outgoing gateway\n"
    assert {each["due"] for each in demaq.json("deliveries", "--limit", "9999")["waiting"]} == {later.isoformat()}
    assert demaq("redeliver", *numbers) == 0
    assert demaq.out == "1,500 messages will be sent again when a node runs\n"
    assert all(each["due"] < later.isoformat() for each in demaq.json("deliveries", "--limit", "9999")["waiting"])


def give_up(folder: Path, message: int, is_garbage: bool = False) -> None:
    """What a node does after the last attempt."""
    now = datetime.now(UTC)
    attempt = Attempt(
        message=message,
        queue="supplier",
        number=2,
        at=now,
        seconds=0.5,
        destination="http://127.0.0.1:1/s",
        result="failed",
        kind="timeout",
        reason="no answer",
    )
    store = SqliteStore(folder)
    stored = store.message(message)
    assert stored is not None
    processed = message if stored.processed is None else None
    store.commit([Step(processed=processed, delivered=message, attempt=attempt)])
    if is_garbage:
        store.collect_garbage(now + timedelta(days=1), 99)
    store.close()


@pytest.mark.parametrize("words", [[], ["1", "--failed", "supplier"], ["one"]])
def test_which_messages_is_said_in_one_way(words: list[str]):
    assert cli.run(cli.demaq, ["redeliver", *words]) == 2


# what a gateway has given up whose messages are in slices

SLICED = """
create queue orders
create queue box
create queue out kind outgoingGateway endpoint "{address}/s"
create property id as xs:string queue orders, out value string(/*/@id)
create slicing byId on id
create rule ask for {maker} if (/order) then do enqueue <ask id="{{/order/@id}}"/> into out with Recipient value "{address}/named"
create rule note for byId if (/ask) then do enqueue <noted>{{qs:slicekey()}}</noted> into box
create rule end for byId if (/end) then do reset
"""


def refused(got: Got) -> Answer:
    return 400, {}, b""


@pytest.mark.parametrize("maker", ["orders", "byId"])
def test_what_is_advised_about_a_refused_message_in_a_slice_sends_it_and_no_rule_acts_again(
    tmp_path: Path, supplier: OtherSide, capsys: pytest.CaptureFixture[str], maker: str
):
    supplier.got.clear()
    with running(tmp_path, SLICED.format(address=supplier.address, maker=maker)) as here:
        control = ControlServer(here.node)
        demaq = Asked(here.node.folder, capsys)
        supplier.answer = refused
        message = send(here, "<order id='1'/>", attempts=1)
        expect_results(here, message, [(1, "failed")])
        here.wait_for("demaq:errors")

        assert demaq("replay", "--error", "refused") == 0
        assert demaq.out == (
            "0 messages run again\n1 message cannot be run again: gateway out has given it up, and it is still stored: "
            "demaq redeliver --failed out sends it again\n"
        )
        supplier.answer = accepted
        assert demaq("redeliver", "--failed", "out") == 0
        expect_results(here, message, [(1, "failed"), (1, "sent")])
        assert demaq("replay", "--error", "refused") == 0
        assert "1 message cannot be run again: gateway out has sent it since\n" in demaq.out

        supplier.answer = refused
        message = send(here, "<order id='2'/>", attempts=1)
        here.node.enqueue("orders", "<end id='2'/>")
        here.wait_for("demaq:errors", 2)
        here.node._thread.keep = timedelta(0)
        wait_until(lambda: bool(here.node.collect_garbage()) or here.node.store.message(int(message)) is None)

        assert demaq("redeliver", message) == 1
        advice = demaq.err.rpartition("demaq replay ")[2].split()
        supplier.answer = accepted
        assert demaq("replay", *advice) == 0
        assert demaq.out.startswith("1 message run again")
        wait_until(lambda: [got.body for got in supplier.got[-1:]] == [b'<ask id="2"/>'])
        assert {got.path for got in supplier.got} == {"/named"}
        wait_until(lambda: not here.node.store.unsent("out", None, 9))
        assert here.bodies("box") == ["<noted>1</noted>", "<noted>2</noted>"]
        control.close()
