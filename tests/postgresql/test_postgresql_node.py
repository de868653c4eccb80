"""A node on a store on PostgreSQL, from the command line: commands while it runs and offline, and a standby."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
from pyspark.sql import Row
from pyspark.sql.types import StringType, StructField, StructType

import demaq
from demaq.bulk.datasource.data_source import DemaqSource
from demaq.cli import main as cli
from demaq.control.client import running_node
from demaq.errors import OperatorError
from demaq.server.node import Node
from demaq.store.location import place_of
from demaq.store.opening import address_for_executors
from demaq.store.postgresql import PostgresqlStore
from tests.support.store.server import Server

PROGRAM = """
create queue orders
create queue parcels kind mailbox
create queue reminders kind echo
create collection prices
create property orderID as xs:string queue orders, parcels value /*/@id
create slicing orderMsgs on orderID
create rule ship for orders if (/order) then do enqueue <parcel id="{/order/@id}"/> into parcels
"""
SECRET = "s3cr3t"
SECONDS_MAX = 60.0
OPTIONS = ("--pipeline", "inline")


class Shop:
    """An application, an address with a password in it, and the command line."""

    def __init__(self, folder: Path, address: str) -> None:
        self.folder = folder
        self.address = address
        (folder / "shop.dmq").write_text(PROGRAM)
        (folder / "order.xml").write_text('<order id="17"/>')
        self.nodes: list[subprocess.Popen[str]] = []

    def demaq(self, *words: str) -> tuple[int, str]:
        """The exit code of a command, and all it says."""
        said = io.StringIO()
        with redirect_stdout(said), redirect_stderr(said):
            code = cli.run(cli.demaq, [*words, "--store", self.address])
        assert SECRET not in said.getvalue()
        return code, said.getvalue().strip()

    def start(self, *options: str) -> subprocess.Popen[str]:
        node = subprocess.Popen(
            [sys.executable, "-m", "demaq.cli", "run", "shop.dmq", "--store", self.address, *OPTIONS, *options],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(Path(demaq.__file__).parents[1])},
            stderr=subprocess.PIPE,
            text=True,
        )
        self.nodes.append(node)
        return node

    def wait_for(self, node: subprocess.Popen[str], beginning: str) -> str:
        """The line of a node that begins like this."""
        assert node.stderr is not None
        said = []
        for line in node.stderr:
            said.append(line)
            if line.startswith(beginning):
                return line.strip()
        raise AssertionError(f"the node does not say {beginning!r}, but {said}")

    def end(self) -> None:
        for node in self.nodes:
            node.kill()
            node.communicate()


@pytest.fixture
def shop(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    shop = Shop(tmp_path, server.address(server.new_schema(), password=SECRET))
    yield shop
    shop.end()


def until(what: Callable[[], bool]) -> None:
    end = time.monotonic() + SECONDS_MAX
    while not what():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.mark.slow
def test_all_commands_work_on_a_running_node_and_offline(shop: Shop):
    assert shop.demaq("queues")[1].startswith("demaq: there is no store in postgresql://postgres@")
    code, said = shop.demaq("send", "orders", "order.xml")
    assert (code, said.partition("postgresql")[0]) == (1, "demaq: there is no store in ")
    node = shop.start()
    assert shop.wait_for(node, "running on").startswith("running on postgresql://postgres@")
    children = _children(node.pid)
    assert children
    assert not [pid for pid in children if SECRET in Path(f"/proc/{pid}/cmdline").read_text()]
    assert shop.demaq("send", "orders", "order.xml") == (0, "1")
    remote = running_node(shop.address)
    assert remote is not None
    until(lambda: remote.status()["processed"] == 1)
    assert f"process {node.pid}" in shop.demaq("status")[1]
    assert shop.demaq("queues") == (0, "orders: 1 message, 0 waiting\nparcels: 1 message")
    code, said = shop.demaq("run", "shop.dmq")
    assert (code, f"is held by demaq, process {node.pid} on" in said) == (1, True)
    node.terminate()
    node.wait(SECONDS_MAX)

    code, said = shop.demaq("status")
    assert (code, said.endswith("on this machine")) == (1, True)
    for words, expected in {
        ("send", "orders", "order.xml"): "4",
        ("slices", "orderMsgs"): "17: 3 messages",
        ("collections", "load", "prices", "order.xml"): "collection prices: 1 document, version 1",
        ("collections", "list"): "prices: 1 document, version 1",
        ("take", "parcels"): '<parcel id="17"/>',
        ("timers",): "no timers",
        ("errors",): "no messages in demaq:errors",
        ("gc",): "0 messages removed",
        ("export", "orders", "out", "--to", "xml"): "2 messages of queue orders in out",
    }.items():
        assert shop.demaq(*words) == (0, expected)
    assert "message 4 in queue orders: waits" in shop.demaq("show", "4")[1]
    assert '<order id="17"/>' in shop.demaq("messages", "orders")[1]


def test_queues_are_tables_for_spark_and_columns_for_an_export(shop: Shop):
    node = Node("shop.dmq", shop.address)
    node.start()
    node.enqueue("orders", '<order id="17"/>')
    node.stop(drain=True)
    source = DemaqSource({"store": shop.address, "queue": "orders"})
    rows = StructType([StructField("body", StringType())])
    writer = source.writer(rows, overwrite=False)
    writer.commit([writer.write(iter([Row(body='<order id="18"/>')]))])
    reader = source.reader(source.schema())
    found = [tuple(row) for part in reader.partitions() for row in reader.read(part)]
    assert [(row[2], row[7], row[8]) for row in found] == [
        ('<order id="17"/>', True, "17"),
        ('<order id="18"/>', False, "18"),
    ]
    for options in ({"queue": "nowhere"}, {"queue": "orders", "snapshot": "99"}):
        wrong = DemaqSource({"store": shop.address, **options})
        with pytest.raises(OperatorError) as caught:
            wrong.reader(wrong.schema()).partitions()
        assert SECRET not in str(caught.value)


def test_the_address_for_executors_leads_to_the_store_without_our_variables(
    server: Server, monkeypatch: pytest.MonkeyPatch
):
    schema = server.new_schema()
    monkeypatch.setenv("PGHOST", str(server.folder))
    monkeypatch.setenv("PGUSER", "postgres")
    monkeypatch.setenv("PGPASSWORD", SECRET)
    PostgresqlStore(f"postgresql:///postgres?options=-csearch_path%3D{schema}").close()
    address = address_for_executors(f"postgresql:///postgres?options=-csearch_path%3D{schema}")
    for name in ("PGHOST", "PGUSER", "PGPASSWORD"):
        monkeypatch.delenv(name)
    PostgresqlStore.open_readonly(address).close()
    assert f"password={SECRET}" in address


@pytest.mark.slow
def test_a_standby_takes_over_from_a_node_that_was_killed(shop: Shop):
    writer = shop.start()
    shop.wait_for(writer, "running on")
    standby = shop.start("--standby")
    assert shop.wait_for(standby, "standing by").endswith("from this machine)")
    remote = running_node(shop.address)
    assert remote is not None
    sent = 0
    while sent < 300:
        if sent == 150:
            writer.kill()
        try:
            remote.enqueue("orders", f'<order id="{sent}"/>'.encode(), {}, f"order {sent}")
            sent += 1
        except OperatorError:  # perhaps it is stored: the same again, at the node that is there then
            writer.wait()
            shop.wait_for(standby, "running on")
            remote = running_node(shop.address)
            assert remote is not None
    assert writer.returncode == -9
    until(lambda: remote.status()["waiting"] == 0)
    standby.terminate()
    assert standby.wait(SECONDS_MAX) == 0
    store = PostgresqlStore.open_readonly(shop.address)
    made = sorted([message.properties["orderID"].text for message in store.stored("parcels", 0, 1000)], key=int)
    assert made == [str(number) for number in range(300)]
    assert not [message for message in store.stored("orders", 0, 1000) if message.processed is None]
    store.close()


@pytest.mark.slow
def test_a_node_that_was_replaced_ends_and_leaves_the_other_alone(server: Server, shop: Shop):
    first = shop.start()
    shop.wait_for(first, "running on")
    remote = running_node(shop.address)
    assert remote is not None
    second = shop.start("--standby")
    shop.wait_for(second, "standing by")
    # The first one is stopped so that it is away while the server ends its connection and the second one takes over.
    first.send_signal(signal.SIGSTOP)
    server.run(
        f"SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
        f"WHERE application_name LIKE 'demaq, process {first.pid} %'"
    )
    shop.wait_for(second, "running on")
    first.send_signal(signal.SIGCONT)
    with pytest.raises(OperatorError, match=r"connection was lost|another writer has taken over"):
        remote.enqueue("orders", b"<order/>", {}, None)
    assert first.wait(SECONDS_MAX) == 1
    assert first.stderr is not None
    assert "the node has stopped: another writer has taken over the store postgresql://" in first.stderr.read()
    remote = running_node(shop.address)
    assert remote is not None
    assert remote.status()["pid"] == second.pid
    assert shop.demaq("send", "orders", "order.xml") == (0, "1")


def test_a_folder_has_no_standby(tmp_path: Path):
    (tmp_path / "shop.dmq").write_text(PROGRAM)
    with pytest.raises(OperatorError, match="a standby needs a store on PostgreSQL"):
        Node(tmp_path / "shop.dmq", tmp_path / "store", standby=True)


def test_a_store_has_one_folder_whatever_the_password(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with_secret = place_of("postgresql://me:s3cr3t@db.example/shop?connect_timeout=3")
    assert with_secret.folder == place_of("postgresql://me@db.example:5432/shop").folder
    assert with_secret.folder.parent == tmp_path / "demaq"
    assert with_secret.folder.name.startswith("me-db-example-shop-")
    assert "s3cr3t" not in f"{with_secret} {with_secret!r}"
    others = [
        "postgresql://me@db.example/shop2",
        "postgresql://me@db.example/shop?options=-csearch_path%3Da",
        "postgresql://me@db2.example/shop",
    ]
    assert len({with_secret.folder, *[place_of(other).folder for other in others]}) == 4
    monkeypatch.setenv("PGHOST", "db.example")
    assert place_of("postgresql://me@/shop").folder.name.split("-")[-1] == with_secret.folder.name.split("-")[-1]


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
