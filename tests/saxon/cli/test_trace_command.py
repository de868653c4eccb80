"""`demaq trace`: what is printed about conversations of a store, in one store and across two."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from demaq.cli import main as cli
from demaq.store.opening import open_store_readonly
from demaq.store.protocol import Attempt, NewMessage, Postponed, Step
from demaq.testing.lab import Lab

URL = "http://user:secret@warehouse.invalid/parcels"
SHOP = """
create queue orders kind incomingGateway
create queue warehouse kind outgoingGateway endpoint "http://warehouse.invalid/parcels"
create queue later kind echo
create queue late kind mailbox
create queue failed kind mailbox
create rule ship for orders if (/order) then
  (do enqueue <parcel>{/order/@id}</parcel> into warehouse,
   do enqueue <late>{/order/@id}</late> into later
     with timeout value xs:dayTimeDuration("PT1H") with target value "late")
create rule broken for orders errorqueue failed if (/order/@id = "13") then do enqueue <x>{1 div 0}</x> into late
"""
WAREHOUSE = """
create queue parcels kind incomingGateway
create queue packed kind mailbox
create rule pack for parcels if (/parcel) then do enqueue <packed>{/parcel/@id}</packed> into packed
"""


def run(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    code = cli.run(cli.demaq, [str(word) for word in words])
    out, err = capsys.readouterr()
    return code, out, err


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A store on which an order was processed, its timer came back, and its parcel was sent at the second attempt."""
    (tmp_path / "shop.dmq").write_text(SHOP)
    with Lab(tmp_path / "shop.dmq", tmp_path / "shop") as lab:
        lab.enqueue("orders", '<order id="13"/>')
        lab.run_until_idle()
        lab.advance(7200)
        (sent,) = [int(message.id) for message in lab.read_created("warehouse")]
        attempts = [
            Attempt(message=sent, queue="warehouse", number=n, at=lab.now, seconds=0.01, destination=URL, result="sent")
            for n in (1, 2)
        ]
        lab.store.postpone([Postponed(message=sent, due=lab.now, attempt=replace(attempts[0], result="again"))])
        lab.store.commit([Step(processed=sent, delivered=sent, attempt=attempts[1])])
    return tmp_path / "shop"


@pytest.fixture
def warehouse(shop: Path, tmp_path: Path) -> Path:
    """The store of another node, which has received the parcel under the name that it has at the shop."""
    with closing(open_store_readonly(str(shop))) as store:
        (seq,) = [message.seq for message in store.stored("warehouse", 0, 9)]
        name = store.epochs().message_name(seq)
    (tmp_path / "warehouse.dmq").write_text(WAREHOUSE)
    with Lab(tmp_path / "warehouse.dmq", tmp_path / "warehouse") as lab:
        message = NewMessage(
            queue="parcels",
            body='<parcel id="13"/>',
            properties={},
            created=lab.now,
            priority=0,
            request=f"node:parcels::{name}:abc",
        )
        lab.store.append([message])
        lab.run_until_idle()
    return tmp_path / "warehouse"


def test_a_conversation_is_printed_as_a_tree(shop: Path, capsys: pytest.CaptureFixture[str]):
    code, out, err = run(capsys, "trace", 1, "--store", shop)

    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "1 orders, from outside at 2026-01-01 00:00:00.000, processed  ◀",
        '│    <order id="13"/>',
        "├─ ship → 3 warehouse +0 ms, processed",
        '│       <parcel id="13"/>',
        "│       attempt 1 +120 min: failed, to be repeated, at http://…@warehouse.invalid/parcels, 10 ms",
        "│       attempt 2 +120 min: sent to http://…@warehouse.invalid/parcels, 10 ms",
        "├─ ship → 4 later +0 ms, processed",
        '│  │    <late id="13"/>',
        "│  │    came back in late at 2026-01-01 01:00:00",
        "│  └─ timer → 7 late +60 min, not taken yet",
        '│          <late id="13"/>',
        "└─ error of broken → 5 failed +0 ms, not taken yet",
        *[line for line in out.splitlines() if line.startswith("        <error><dynamicError/>")],
    ]


def test_what_is_left_out_is_said(shop: Path, capsys: pytest.CaptureFixture[str]):
    code, out, err = run(capsys, "trace", 5, "--store", shop, "--max", 2)

    assert code == 0
    assert "◀" in out
    assert out.splitlines()[-1] == "└─ … 1 more message"
    assert err == "2 messages left out: --max and --depth show more\n"


def test_the_tree_continues_in_the_store_of_the_other_node(
    shop: Path, warehouse: Path, capsys: pytest.CaptureFixture[str]
):
    here = run(capsys, "trace", 1, "--store", shop, "--also", warehouse)[1]
    there = run(capsys, "trace", 1, "--store", warehouse, "--also", shop)[1]

    assert here.replace("  ◀", "") == there.replace("  ◀", "")
    assert f"│  └─ node → 1 parcels of {warehouse} +0 ms, processed" in here
    assert "│     └─ pack → 3 packed +0 ms, not taken yet" in here


def test_where_the_other_store_is_not_given_the_message_is_named(warehouse: Path, capsys: pytest.CaptureFixture[str]):
    _, out, _ = run(capsys, "trace", 3, "--store", warehouse)
    found = json.loads(run(capsys, "trace", 3, "--store", warehouse, "--json")[1])

    name = found["messages"][0]["cameFrom"]
    assert name.endswith("/3")
    assert f"was message {name} of another node; --also STORE shows what led to it there" in out


def test_json_has_the_same_tree(shop: Path, capsys: pytest.CaptureFixture[str]):
    found = json.loads(run(capsys, "trace", 7, "--store", shop, "--json")[1])

    shown = [(m["id"], m["parent"], m["link"], m["rule"], m["asked"]) for m in found["messages"]]
    assert shown == [
        ("1", None, "outside", None, False),
        ("3", 0, "rule", "ship", False),
        ("4", 0, "rule", "ship", False),
        ("7", 2, "timer", None, True),
        ("5", 0, "error", "broken", False),
    ]
    assert [attempt["result"] for attempt in found["messages"][1]["attempts"]] == ["again", "sent"]
    assert "secret" not in json.dumps(found)
    assert (found["leftOut"], found["examinedWhole"]) == (0, True)


@pytest.mark.parametrize("words", [("trace", "99"), ("trace", "x"), ("trace", "1", "--also", "nowhere")])
def test_mistakes_are_one_line(shop: Path, words: tuple[str, ...], capsys: pytest.CaptureFixture[str]):
    code, out, err = run(capsys, *words, "--store", shop)

    assert code in (1, 2)
    assert out == ""
    assert "Traceback" not in err


# --- record ----------------------------------------------------------------------------------------------------------


def test_what_is_recorded_of_a_store_passes(shop: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    code, out, err = run(capsys, "record", "--message", 7, "--store", shop)

    assert (code, err) == (0, "1 message from outside\n")
    (tmp_path / "scenario.yaml").write_text(out)
    assert run(capsys, "test", tmp_path / "shop.dmq", tmp_path / "scenario.yaml")[0] == 0


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("--message", "99"),
        ("--message", "x"),
        ("--message", "1", "--slice", "s", "k"),
        ("--slice", "nothing", "k"),
        ("--message", "1", "--mask", "a[1]"),
    ],
)
def test_what_cannot_be_recorded_is_one_line(shop: Path, words: tuple[str, ...], capsys: pytest.CaptureFixture[str]):
    code, out, err = run(capsys, "record", *words, "--store", shop)

    assert code in (1, 2)
    assert out == ""
    assert "Traceback" not in err
