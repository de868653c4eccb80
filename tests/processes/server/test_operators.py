"""What operators do to a node that runs: find messages, let them wait, remove them, put them into their queues again."""

from __future__ import annotations

import contextlib
import json
import signal
import smtplib
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from demaq.cli.main import demaq
from demaq.control.client import running_node
from demaq.evaluation.workers.process import ProcessEvaluator
from demaq.gateways.settings import IncomingSettings, OutgoingSettings, Settings
from demaq.operations.requeue import Requeuer
from demaq.operations.search import MessageSelection
from demaq.server.control_server import ControlServer
from demaq.store.opening import program_on
from demaq.store.operator_records import AuditRecord
from tests.support.gateways.nodes import Running, running, wait_until

SHOP = """
create queue inbox kind incomingGateway endpoint "http:/inbox"
create queue orders
create queue parcels
create queue supplier kind outgoingGateway endpoint "http://127.0.0.1:9/closed"
create property id as xs:string queue inbox, orders value //id
create slicing byId on id
create rule take for inbox if (/order) then do enqueue <o>{//id, //euros}</o> into orders
create rule ship for orders if (/o) then do enqueue <parcel>{100 idiv xs:integer(//euros)}</parcel> into parcels
create rule ask for orders if (//id = "s") then do enqueue <ask/> into supplier
"""
SETTINGS = Settings(
    incoming_default=IncomingSettings(gateway_rate_per_second=0.001, gateway_burst=6),
    outgoing_default=OutgoingSettings(attempts=1),
)


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Running]:
    with running(tmp_path, SHOP, SETTINGS) as shop:
        control = ControlServer(shop.node)
        try:
            assert running_node(shop.node.place) is not None
            yield shop
        finally:
            control.close()


def order(name: str, euros: str = "20") -> str:
    return f"<order><id>{name}</id><euros>{euros}</euros></order>"


def ask(shop: Running, *words: str, code: int = 0) -> Any:
    """The JSON that a command prints."""
    result = CliRunner().invoke(demaq, [*words, "--store", str(shop.node.folder), "--json"], catch_exceptions=False)
    assert result.exit_code == code, result.output
    return json.loads(result.stdout)


def found(shop: Running, *words: str) -> list[str]:
    return [message["id"] for message in ask(shop, "search", *words)]


@pytest.mark.slow
def test_an_operator_finds_stops_repairs_and_removes(shop: Running):
    assert shop.post("/inbox", order("a")).status_code == 202
    assert shop.node.wait_until_idle(30)
    # a gateway that is paused, at once
    assert ask(shop, "pause", "gateway", "inbox", "--why", "enough")["changed"]
    refused = shop.post("/inbox", order("b"))
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "10")
    assert ask(shop, "resume", "gateway", "inbox")["changed"]
    # a rule that is paused: its messages wait, and are found
    ask(shop, "pause", "rule", "ship")
    assert [shop.post("/inbox", order(name, euros)).status_code for name, euros in (("c", "5"), ("d", "0"))] == [
        202,
        202,
    ]
    assert shop.node.wait_until_idle(30)
    waiting = found(shop, "--queue", "orders", "--state", "waits")
    assert len(waiting) == 2
    assert found(shop, "--slice", "byId", "c", "--state", "waits") == waiting[:1]
    assert found(shop, "--xpath", "//euros[. < 1] and exists(/o)") == waiting[1:]
    assert found(shop, "--text", "<euros>5</euros>", "--property", "id=c", "--newest")[0] == waiting[0]
    [queue] = [each for each in ask(shop, "queues") if each["queue"] == "orders"]
    assert (queue["waiting"], queue["paused"]) == (2, ["rule ship"])
    ask(shop, "resume", "rule", "ship")
    wait_until(lambda: len(shop.stored("parcels")) == 2)
    # what has failed is repaired
    [error] = found(shop, "--error", "FOAR*", "--rule", "ship")
    repaired = shop.node.folder.parent / "repaired.xml"
    repaired.write_text("<o><id>e</id><euros>50</euros></o>")
    report = ask(shop, "requeue", error, "--body", str(repaired))
    assert (report["requeued"], report["failed"]) == (1, 0)
    [message] = found(shop, "--slice", "byId", "e")
    assert [each["message"] for each in report["messages"]] == [message]
    assert ask(shop, "requeue", error, "--body", str(repaired))["requeued"] == 0
    assert shop.bodies("parcels")[-1] == "<parcel>2</parcel>"
    # and what is not needed is removed
    assert ask(shop, "purge", "--queue", "parcels", "--dry-run")["messages"] == 3
    assert ask(shop, "purge", "--queue", "parcels", "--why", "test")["removed"] == 3
    assert shop.stored("parcels") == []
    actions = [record["action"] for record in ask(shop, "audit")]
    assert actions == ["purge", "requeue", "requeue", "resume", "pause", "resume", "pause"]
    # too many at once
    statuses = [shop.post("/inbox", order("z")).status_code for _ in range(5)]
    assert statuses[-1] == 429, statuses


@pytest.mark.slow
def test_an_outgoing_gateway_that_is_paused_sends_nothing_and_nothing_that_was_removed(shop: Running):
    ask(shop, "pause", "gateway", "supplier")
    shop.post("/inbox", order("s"))
    shop.post("/inbox", order("s"))
    shop.wait_for("supplier", 2)
    assert shop.node.wait_until_idle(30)
    first = found(shop, "--queue", "supplier", "--state", "waits")[0]
    assert ask(shop, "purge", first)["removed"] == 1
    assert shop.node.store.attempts(None, None, 9) == []
    ask(shop, "resume", "gateway", "supplier")
    wait_until(lambda: len(shop.node.store.attempts(None, None, 9)) == 1)
    assert shop.node.store.attempts(None, None, 9)[0].message != int(first)


@pytest.mark.slow
def test_many_errors_are_requeued_after_a_dry_run_and_reported(shop: Running):
    shop.node.enqueue_all("orders", [f"<o><id>{n}</id><euros>0</euros></o>" for n in range(5)])
    shop.node.enqueue_all("orders", ["<o><id>repaired</id><euros>0</euros></o>"])
    assert shop.node.wait_until_idle(30)
    errors = found(shop, "--error", "FOAR0001")
    assert len(errors) == 6
    repaired = shop.node.folder.parent / "repaired.xml"
    repaired.write_text("<o><id>repaired</id><euros>50</euros></o>")
    assert ask(shop, "requeue", errors[-1], "--body", str(repaired))["failed"] == 0

    plan = ask(shop, "requeue", "--error", "FOAR*", "--dry-run")
    assert [each["error"] for each in plan["errors"]] == errors
    assert len(shop.stored("orders")) == 7, "a dry run changes nothing"
    assert len(ask(shop, "audit")) == 1
    report = ask(shop, "requeue", "--error", "FOAR*", "--why", "better luck")
    assert (report["requeued"], report["processed"], report["failed"]) == (5, 5, 5), "what was repaired is left alone"
    assert [each["error"] for each in report["messages"]] == errors
    assert report["messages"][-1]["reason"] == "it was requeued before"
    assert [each["new"] for each in report["messages"]] == [True] * 5 + [False]
    record = ask(shop, "audit")[0]
    assert (record["number"], record["why"], record["result"]) == (
        report["audit"],
        "better luck",
        "5 messages requeued",
    )
    assert record["details"]["messages"] == [each["message"] for each in report["messages"] if each["new"]]

    # Each message has two errors now, and is requeued once for them.
    both = [each for each in found(shop, "--error", "FOAR0001") if each == errors[0] or each not in errors][:2]
    assert len(found(shop, "--error", "FOAR0001")) == 11
    command = ["requeue", *both, "--body", str(repaired), "--store", str(shop.node.folder)]
    refused = CliRunner().invoke(demaq, command)
    assert "a changed text is for one error, and these are 2" in str(refused.exception), "whichever is meant"
    again = ask(shop, "requeue", "--error", "FOAR*", "--again")
    assert (again["requeued"], again["failed"]) == (6, 6)
    originals = [each["original"] for each in again["messages"]]
    assert len(set(originals)) == len(originals) == 6


class Interrupted:
    """A node that ends after the first messages."""

    def __init__(self, shop: Running) -> None:
        self._node = shop.node

    def append(self, *given: Any) -> list[bool]:
        self._node.append(*given)
        raise KeyboardInterrupt

    def note_audit(self, entry: AuditRecord) -> int:
        return self._node.note_audit(entry)


@pytest.mark.slow
def test_what_an_operator_has_begun_to_requeue_is_an_audit_record(shop: Running):
    shop.node.enqueue_all("orders", ["<o><id>1</id><euros>0</euros></o>"])
    assert shop.node.wait_until_idle(30)
    store, place = shop.node.store, shop.node.place
    _, digest, files = program_on(store, place)
    with contextlib.closing(ProcessEvaluator(files, place.where)) as evaluator:
        requeuer = Requeuer(store, shop.node.engine.plan, digest, evaluator)
        everything = MessageSelection(errors=("*",))
        acting: Any = Interrupted(shop)
        with pytest.raises(KeyboardInterrupt):
            requeuer.requeue(acting, everything, *requeuer.find(everything), who="anna", now=shop.node.now)
    [record] = ask(shop, "audit")
    assert (record["action"], record["who"]) == ("requeue", "anna")
    assert record["result"] == "0 messages requeued, and more were to be"


class Following:
    """`demaq search --follow --json` in a process of its own."""

    def __init__(self, shop: Running, *words: str) -> None:
        command = [sys.executable, "-m", "demaq.cli", "search", "--follow", "--json", *words]
        store = ["--store", str(shop.node.folder)]
        self._process = subprocess.Popen([*command, *store], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def read(self, count: int) -> list[str]:
        assert self._process.stdout is not None
        return [json.loads(self._process.stdout.readline())["body"] for _ in range(count)]

    def interrupt(self) -> tuple[str, str, int]:
        self._process.send_signal(signal.SIGINT)
        rest, said = self._process.communicate(timeout=30)
        return rest, said, self._process.returncode

    def kill(self) -> None:
        with self._process:  # which closes its pipes
            self._process.kill()


@pytest.mark.slow
def test_a_search_follows_messages_as_they_come(shop: Running):
    first = shop.node.enqueue("parcels", "<old/>")
    following = Following(shop, "--queue", "parcels", "--text", "<p", "--after", str(first - 1))
    try:
        shop.node.enqueue_all("parcels", ["<p>0</p>", "<q/>"])
        assert following.read(1) == ["<p>0</p>"]
        shop.node.enqueue_all("orders", [f"<o><id>{n}</id><euros>1</euros></o>" for n in range(3)])
        assert following.read(3) == ["<parcel>100</parcel>"] * 3, "what rules create, too"
        many = [f"<p>{number}</p>" for number in range(130)]
        for start in range(0, 130, 13):
            shop.node.enqueue_all("parcels", many[start : start + 13])
        assert following.read(130) == many, "each once, in their order, over several pages"
        assert following.interrupt() == ("", "", 130)
    finally:
        following.kill()


@pytest.mark.slow
def test_a_search_that_follows_begins_with_what_comes_next(shop: Running):
    shop.node.enqueue_all("parcels", ["<old/>"] * 3)
    following = Following(shop)
    try:
        # When it has begun is not known, so messages come until one is found.
        with ThreadPoolExecutor(1) as reader:
            found = reader.submit(following.read, 1)
            wait_until(lambda: bool(shop.node.enqueue("parcels", "<new/>")) and found.done())
        assert found.result() == ["<new/>"]
    finally:
        following.kill()


MAIL = """
create queue orders kind incomingGateway endpoint "mailto:orders@example.org"
create queue bills kind incomingGateway endpoint "mailto:bills@example.org"
create queue seen
create rule see for orders if (/m) then do enqueue . into seen
"""


def mail(shop: Running, *names: str) -> tuple[int, str]:
    """Return what the listener answers to a mail to these queues."""
    address = shop.gateways.smtp_address
    assert address is not None
    text = "From: a@example.org\r\nContent-Type: application/xml\r\n\r\n<m/>\r\n"
    host, port = address.split(":")
    with smtplib.SMTP(host, int(port), local_hostname="client.example", timeout=30) as client:
        try:
            client.sendmail("a@example.org", [f"{name}@example.org" for name in names], text)
        except smtplib.SMTPDataError as error:
            said = error.smtp_error
            return error.smtp_code, said.decode() if isinstance(said, bytes) else said
    return 250, ""


@pytest.mark.slow
def test_a_mail_gateway_that_is_paused_or_has_taken_enough_puts_senders_off(tmp_path: Path):
    limited = IncomingSettings(gateway_rate_per_second=0.001, gateway_burst=2)
    settings = Settings(incoming_by_queue={"orders": limited})
    with running(tmp_path, MAIL, settings, smtp=("127.0.0.1", 0)) as shop:
        assert shop.node.pause("gateway", "bills", "anna")
        assert mail(shop, "orders", "bills") == (451, "4.3.2 gateway bills is paused; try again later")
        assert shop.stored("orders") == [], "for all of its recipients or for none"
        assert [mail(shop, "orders")[0] for _ in range(2)] == [250, 250], "a mail that was put off has used up nothing"
        assert mail(shop, "orders") == (
            451,
            "4.3.2 gateway orders takes no more messages in this time; try again later",
        )
        shop.wait_for("seen", 2)
        # A queue that is paused takes mails, which wait.
        assert shop.node.resume("gateway", "bills", "anna")
        assert shop.node.pause("queue", "bills", "anna")
        assert mail(shop, "bills")[0] == 250
        assert len(shop.stored("bills")) == 1


@pytest.mark.slow
def test_a_pause_holds_in_the_next_run(tmp_path: Path):
    with running(tmp_path, SHOP) as shop:
        assert shop.node.pause("queue", "orders", "anna", "wrong prices")
        assert not shop.node.pause("queue", "orders", "bob", "")
    with running(tmp_path, SHOP) as shop:
        shop.post("/inbox", order("a"))
        shop.wait_for("orders")
        assert shop.node.wait_until_idle(30)
        assert shop.node.store.pending(9)[0].queue == "orders"
        [paused] = shop.node.read_status()["paused"]
        assert (paused["who"], paused["why"], paused["waiting"]) == ("anna", "wrong prices", 1)
        assert shop.node.resume("queue", "orders", "anna", "")
        shop.wait_for("parcels")
