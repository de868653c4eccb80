"""What operators do to a node that runs: find messages, let them wait, remove them, put them into their queues again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from demaq.cli.main import demaq
from demaq.control.client import running_node
from demaq.gateways.settings import IncomingSettings, OutgoingSettings, Settings
from demaq.server.control_server import ControlServer
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
