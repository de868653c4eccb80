"""What is said of messages that are not processed yet: only those wait that will be processed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from demaq.cli import main as cli
from demaq.testing.lab import Lab

APPLICATION = """
create queue orders
create queue customer kind outgoingGateway endpoint "http://customer.invalid/"
create queue reminders kind echo
create queue parcels kind mailbox
create queue never
create property id as xs:string queue orders, parcels value /*/@id
create slicing byId on id
create rule confirm for orders if (/order) then (
  do enqueue <confirmation/> into customer,
  do enqueue <parcel id="{/order/@id}"/> into parcels,
  do enqueue <late/> into reminders with timeout value "P1D" with target value "parcels")
create rule close for byId if (/order/@close) then do reset
create rule nobody for never if (false()) then do enqueue <x/> into parcels
"""


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("shop.dmq").write_text(APPLICATION)
    with Lab("shop.dmq", "shop") as lab:
        lab.enqueue("orders", "<order id='1'/>")
        lab.run_until_idle()
        lab.enqueue("orders", "<order id='2'/>")
        lab.enqueue("never", "<n/>")


def ask(capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    assert cli.run(cli.demaq, [*words, "--store", "shop"]) == 0
    return capsys.readouterr().out.splitlines()


@pytest.mark.usefixtures("shop")
def test_only_what_rules_or_a_gateway_will_process_waits(capsys: pytest.CaptureFixture[str]):
    said = {
        queue: [line.split()[1] for line in ask(capsys, "messages", queue)]
        for queue in ("orders", "customer", "reminders", "parcels", "never")
    }
    # A message of parcels is in a slice, to which a rule pertains: it was processed, and stays there.
    assert said == {
        "orders": ["done", "waits"],
        "customer": ["waits"],
        "reminders": ["timer"],
        "parcels": ["done"],
        "never": ["new"],
    }


@pytest.mark.usefixtures("shop")
def test_a_queue_that_is_not_processed_has_no_messages_that_wait(capsys: pytest.CaptureFixture[str]):
    assert ask(capsys, "queues") == [
        "customer: 1 message, 1 waiting",
        "never: 1 message",
        "orders: 2 messages, 1 waiting",
        "parcels: 1 message, 0 waiting",
        "reminders: 1 message",
    ]
    found = {each["queue"]: each["waiting"] for each in json.loads("\n".join(ask(capsys, "queues", "--json")))}
    assert found == {"customer": 1, "never": 0, "orders": 1, "parcels": 0, "reminders": 0}


@pytest.mark.usefixtures("shop")
def test_a_message_is_shown_with_its_state(capsys: pytest.CaptureFixture[str]):
    shown = {}
    for queue in ("orders", "reminders", "never"):
        last = ask(capsys, "messages", queue)[-1].split()[0]
        shown[queue] = ask(capsys, "show", last)[0].partition(": ")[2]
    assert shown == {"orders": "waits", "reminders": "timer", "never": "not taken yet"}
    assert [line.split()[1] for line in ask(capsys, "slices", "byId", "2")] == ["waits"]
