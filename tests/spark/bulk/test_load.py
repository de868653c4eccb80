"""Loads on a real Spark, into offline stores and into a running node."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lxml import etree

import demaq
from demaq.bulk import load
from demaq.cli import main as cli
from demaq.cli import shared_options
from demaq.schemas import schema_text
from demaq.server.control_server import ControlServer
from demaq.server.node import Node
from demaq.spark.session import RunningSpark
from demaq.store.sqlite import SqliteStore
from demaq.testing.lab import Lab

KILL_SECONDS_MAX = 120.0
APPLICATION = """
module shop errorqueue troubles;
create queue orders
create queue checked schema "order.xsd" errorqueue refusals
create queue troubles
create queue refusals
create queue parcels
create property orderID as xs:integer queue orders, checked value /*/@id
create property express as xs:boolean queue orders value false()
create property kind as xs:string queue troubles value name(/error/*[1])
create slicing orderMsgs on orderID
create rule ship for orders if (/order/@ship) then do enqueue <parcel>{/order/@id}</parcel> into parcels
"""
SCHEMA = """<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema">
<xs:element name="order"><xs:complexType><xs:attribute name="id"/></xs:complexType></xs:element></xs:schema>"""


class Shop:
    """An offline store on which the application has run, and commands on it."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.application = folder / "shop.dmq"
        self.store = folder / "store"
        self.application.write_text(APPLICATION)
        (folder / "order.xsd").write_text(SCHEMA)
        self._capsys = capsys
        self.out = self.err = ""
        with Lab(self.application, self.store):
            pass

    def __call__(self, *words: str) -> int:
        code = cli.run(cli.demaq, [*words, "--store", str(self.store)])
        self.out, self.err = self._capsys.readouterr()
        return code

    def load(self, *words: str) -> dict[str, object]:
        assert self("load", *words, "--json") == 0, self.err
        found: dict[str, object] = json.loads(self.out)
        return found

    def messages(self, queue: str):
        store = SqliteStore.open_readonly(self.store)
        found = store.queue(queue, store.snapshot())
        store.close()
        return found

    def holds(self, queue: str) -> bool:
        store = SqliteStore.open_readonly(self.store)
        found = bool(store.visible(queue, 0, 1))
        store.close()
        return found

    def bodies(self, queue: str) -> list[str]:
        return [message.body for message in self.messages(queue)]


@pytest.fixture
def shop(tmp_path: Path, spark: RunningSpark, monkeypatch, capsys) -> Shop:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(shared_options, "start_spark", lambda *_, **__: contextlib.nullcontext(spark))
    return Shop(tmp_path, capsys)


def write_orders(folder: Path, count: int, form: str = '<order id="{}"/>') -> Path:
    folder.mkdir(exist_ok=True)
    for number in range(count):
        (folder / f"{number:06}.xml").write_text(form.format(number))
    return folder


def test_documents_are_stored_with_properties_and_slices_in_order(shop: Shop, tmp_path: Path):
    write_orders(tmp_path / "in", 30, '<?xml version="1.0"?>\n<order id="0{}"/>')

    assert shop("load", "orders", "in") == 0
    assert shop.out == "queue orders: 30 messages stored\n"
    found = shop.messages("orders")
    assert [message.body for message in found] == [f'<order id="0{number}"/>' for number in range(30)]
    assert found[7].properties["orderID"].text == "7"
    assert found[7].properties["express"].text == "false"
    assert found[7].slices == (("orderMsgs", "7"),)
    assert (found[7].rule, found[7].trigger, found[7].origin) == (None, None, found[7].seq)


def test_a_second_run_makes_no_doubles_and_takes_what_is_new(shop: Shop, tmp_path: Path):
    write_orders(tmp_path / "in", 5)
    (tmp_path / "in" / "bad.xml").write_text("<order")
    first = shop.load("orders", "in")
    (tmp_path / "in" / "x.xml").write_text('<order id="9"/>')
    (tmp_path / "in" / "000001.xml").write_text('<order id="1" changed=""/>')
    second = shop.load("orders", str(tmp_path / "in"))

    assert first == {"queue": "orders", "stored": 5, "known": 0, "refused": {"notWellFormed": 1}}
    assert second == {"queue": "orders", "stored": 2, "known": 5, "refused": {}}
    assert len(shop.bodies("orders")) == 7
    assert len(shop.bodies("troubles")) == 1


def test_the_next_run_processes_what_was_loaded(shop: Shop, tmp_path: Path):
    write_orders(tmp_path / "in", 3, '<order id="{}" ship=""/>')
    shop.load("orders", "in")
    with Lab(shop.application, shop.store) as lab:
        lab.run_until_idle()
        assert [message.body for message in lab.read_created("parcels")] == [f'<parcel id="{n}"/>' for n in range(3)]


BAD = {
    "text.xml": "no & XML \x01 at all",
    "open.xml": "<order>",
    "entity.xml": '<!DOCTYPE order [<!ENTITY e SYSTEM "/etc/passwd">]><order>&e;</order>',
    "deep.xml": "<a>" * 300 + "</a>" * 300,
    "property.xml": '<order id="seventeen"/>',
}


def test_bad_documents_become_error_messages_in_the_right_queue(shop: Shop, tmp_path: Path):
    write_orders(tmp_path / "in", 2)
    for name, text in BAD.items():
        (tmp_path / "in" / name).write_text(text)
    (tmp_path / "in" / "bytes.xml").write_bytes(b"<a>\xff</a>")

    assert shop("load", "orders", "in") == 0
    assert shop.out == ("queue orders: 2 messages stored\n6 documents refused: 5 notWellFormed, 1 propertyError\n")
    assert "  in/open.xml: notWellFormed: line 1" in shop.err
    schema = etree.XMLSchema(etree.fromstring(schema_text("error")))
    errors = {}
    for message in shop.messages("troubles"):
        tree = etree.fromstring(message.body)
        assert schema.validate(tree), schema.error_log
        errors[(tree.findtext("description") or "").split(":")[0]] = tree
        assert message.properties["kind"].text == tree[0].tag
        assert message.properties["demaq:errorLevel"].text == "2"
        assert message.trigger is None
    assert sorted(errors) == sorted([f"in/{name}" for name in (*BAD, "bytes.xml")])
    assert errors["in/text.xml"].findtext("initialText") == "no & XML \ufffd at all"
    assert errors["in/property.xml"].find("initialMessage/order[@id='seventeen']") is not None
    assert errors["in/entity.xml"].findtext("code") == "demaq:notWellFormed"
    assert errors["in/entity.xml"].find("messageId") is None


def test_a_document_against_the_schema_goes_to_the_error_queue_of_its_queue(shop: Shop, tmp_path: Path):
    write_orders(tmp_path / "in", 1)
    (tmp_path / "in" / "wrong.xml").write_text("<parcel/>")

    assert shop.load("checked", "in") == {
        "queue": "checked",
        "stored": 1,
        "known": 0,
        "refused": {"schemaViolation": 1},
    }
    [error] = shop.bodies("refusals")
    assert "<schemaViolation/>" in error
    assert "<initialMessage><parcel/></initialMessage>" in error


def test_a_strict_load_stops_at_the_first_bad_document(shop: Shop, tmp_path: Path):
    write_orders(tmp_path / "in", 4)
    (tmp_path / "in" / "000002.xml").write_text("<order")

    assert shop("load", "orders", "in", "--strict") == 1
    assert shop.out == "queue orders: 2 messages stored\n"
    assert shop.err.startswith("demaq: in/000002.xml: refused (notWellFormed): line 1")
    assert (len(shop.bodies("orders")), shop.bodies("troubles")) == (2, [])


@pytest.mark.slow
def test_rows_of_one_large_file_are_messages(shop: Shop):
    rows = "".join([f'<order id="{number}"/>' for number in range(3000)])
    Path("big.xml").write_text(f"<orders>{rows}</orders>")

    assert shop.load("orders", "big.xml", "--rows", "order")["stored"] == 3000
    assert shop.bodies("orders")[2999] == '<order id="2999"/>'
    assert shop.load("orders", "big.xml", "--rows", "order")["known"] == 3000


def test_lines_of_json_bring_properties(shop: Shop):
    lines = [{"xml": f'<order id="{n}"/>', "express": n == 1} for n in range(3)] + [
        {"xml": "<order/>", "express": "??"}
    ]
    Path("orders.jsonl").write_text("\n".join([json.dumps(line) for line in lines]))

    report = shop.load("orders", "orders.jsonl", "--body", "xml", "--properties", "express")
    assert (report["stored"], report["refused"]) == (3, {"propertyError": 1})
    assert [message.properties["express"].text for message in shop.messages("orders")] == ["false", "true", "false"]


@pytest.mark.slow
def test_what_was_exported_can_be_loaded_again(shop: Shop, tmp_path: Path):
    write_orders(tmp_path / "in", 25)
    shop.load("orders", "in")

    assert shop("export", "orders", "out", "--to", "parquet") == 0
    assert shop.out == "25 messages of queue orders in out\n"
    assert shop.load("checked", "out", "--properties", "orderID")["stored"] == 25
    assert shop.bodies("checked") == shop.bodies("orders")
    assert shop("export", "checked", "files", "--to", "xml") == 0
    assert shop.load("parcels", "files")["stored"] == 25
    assert sorted(shop.bodies("parcels")) == sorted(shop.bodies("orders"))


def test_a_running_node_is_handed_the_messages_and_processes_them(shop: Shop, tmp_path: Path):
    write_orders(tmp_path / "in", 20, '<order id="{}" ship=""/>')
    node = Node(shop.application, shop.store)
    control = ControlServer(node)
    node.start()
    try:
        assert shop.load("orders", "in")["stored"] == 20
        assert shop.load("orders", "in")["known"] == 20
    finally:
        control.close()
        node.stop(drain=True)

    assert len(shop.bodies("parcels")) == 20


@pytest.mark.slow
def test_a_document_that_ends_its_worker_is_found_and_the_others_are_stored(shop: Shop, tmp_path: Path, monkeypatch):
    write_orders(tmp_path / "in", 4)
    (tmp_path / "in" / "000002.xml").write_text('<order id="5" deadly=""/>')
    monkeypatch.setattr(load, "check", check_mortally)

    assert shop.load("orders", "in") == {
        "queue": "orders",
        "stored": 3,
        "known": 0,
        "refused": {"propertyError": 1},
    }
    assert "came to its end" in shop.bodies("troubles")[0]


def check_mortally(assignment: bytes) -> bytes:
    """As the real one, but that some documents end the process."""
    import os
    import pickle

    from demaq.bulk.document_checks import check

    items = pickle.loads(assignment).items
    if any([b"deadly" in item.body and item.problem is None for item in items]):
        os._exit(3)
    return check(assignment)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["ordres", "in"], "there is no queue ordres; did you mean orders?"),
        (["orders", "nowhere"], "nowhere: no such file or folder"),
        (["orders", "in", "--properties", "expres"], "queue orders has no property expres; did you mean express?"),
    ],
)
def test_mistakes_are_one_line(shop: Shop, tmp_path: Path, words: list[str], said: str):
    write_orders(tmp_path / "in", 1)

    assert shop("load", *words) == 1
    assert (shop.out, shop.err) == ("", f"demaq: {said}\n")


@pytest.mark.slow
def test_a_load_that_was_killed_continues_without_duplicates(shop: Shop, tmp_path: Path):
    count = 12_000
    rows = "".join([f'<order id="{number}"/>\n' for number in range(count)])
    Path("big.xml").write_text(f"<orders>{rows}</orders>")
    command = [sys.executable, "-m", "demaq.cli", "load", "orders", "big.xml", "--rows", "order"]
    child = subprocess.Popen(
        [*command, "--store", str(shop.store), "--master", "local[2]"],
        env={**os.environ, "PYTHONPATH": str(Path(demaq.__file__).parents[1])},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    last = time.monotonic() + KILL_SECONDS_MAX
    while not shop.holds("orders"):
        assert child.poll() is None, "it must not end before it is killed"
        assert time.monotonic() < last
        time.sleep(0.02)
    child.send_signal(signal.SIGKILL)
    child.wait()
    before = len(shop.messages("orders"))

    report = shop.load("orders", "big.xml", "--rows", "order")
    assert 0 < before < count
    assert (report["stored"], report["known"]) == (count - before, before)
    assert shop.bodies("orders") == [f'<order id="{number}"/>' for number in range(count)]


@pytest.mark.slow
def test_parquet_columns_have_the_types_of_the_properties(shop: Shop, tmp_path: Path):
    write_orders(tmp_path / "in", 2)
    shop.load("orders", "in")
    assert shop("export", "orders", "out", "--to", "parquet") == 0
    table = pq.read_table("out")

    assert table.schema.names == [
        *("id", "queue", "body", "created", "rule", "trigger", "origin", "processed"),
        *("orderID", "express"),
    ]
    assert table.schema.field("orderID").type == pa.int64()
    assert table.schema.field("express").type == pa.bool_()
    assert table.column("orderID").to_pylist() == [0, 1]
    assert table.column("processed").to_pylist() == [False, False]
