"""Changed applications on old stores, filled in on Spark and ahead of the next run."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import demaq
from demaq.bulk import migrate
from demaq.bulk.executors import ProgramOnStore, open_program
from demaq.bulk.migrate import SparkMigrator
from demaq.cli import main as cli
from demaq.cli import shared_options
from demaq.engine.migration.backfill import LocalMigrator
from demaq.engine.migration.migrate_store import Migration, migrate_store
from demaq.evaluation.saxon.saxon_evaluator import SaxonEvaluator
from demaq.server.control_server import ControlServer
from demaq.server.node import Node
from demaq.spark.session import RunningSpark
from demaq.store.sqlite import SqliteStore
from demaq.store.sqlite_database import FILE_NAME
from demaq.testing.lab import START, Lab
from tests.saxon.engine.test_evolution import VERSIONS, compiled
from tests.support.engines import local_engine

KILL_SECONDS_MAX = 120.0
OLD = "create queue orders create queue bills create rule note for orders if (/order/@bill) then do enqueue <bill/> into bills\n"
NEW = (
    OLD
    + """create property customer as xs:string inherited queue orders value /order/@customer queue bills
create property euros as xs:decimal queue orders value /order/@euros
create slicing byCustomer on customer
"""
)
ORDER = '<order customer="c{}" euros="{}" bill=""/>'
TABLES = ("messages", "bodies", "slice_members", "index_entries", "queue_counts", "complete_indexes")


def change(folder: Path, text: str, spark: RunningSpark | None, keys: Sequence[int] = ()) -> None:
    """Bring a store under a program, here or on Spark, and let messages be processed."""
    program, evaluator = compiled(text), SaxonEvaluator(compiled(text))
    store = SqliteStore(folder, now=lambda: START)

    def migrator(beside: LocalMigrator, migration: Migration) -> LocalMigrator | SparkMigrator:
        active = store.program()
        if spark is None or active is None:
            return beside
        place = ProgramOnStore.of(program.plan.program.files(), folder)
        return SparkMigrator(spark.session, place, active[2], store.former_slicings(), beside)

    migrate_store(program.plan, evaluator, store, lambda: START, choose_migrator=migrator)
    engine = local_engine(evaluator, store, lambda: START)
    for key in keys:
        engine.enqueue("a", f"<m k='{key:02}'/>")
        engine.run_round()
    store.close()


def tables(folder: Path) -> dict[str, list[tuple[object, ...]]]:
    """All that the store has to say of messages."""
    connection = sqlite3.connect(folder / FILE_NAME)
    found = {name: sorted(connection.execute(f"SELECT * FROM {name}"), key=repr) for name in TABLES}
    connection.close()
    return found


@settings(max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    st.lists(st.sampled_from(VERSIONS), min_size=2, max_size=3, unique=True),
    st.lists(st.integers(0, 6), min_size=4, max_size=8),
)
@pytest.mark.slow
def test_a_store_is_the_same_whether_it_is_filled_in_here_or_on_spark(
    spark: RunningSpark, versions: list[str], keys: list[int]
):
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(migrate, "TASK_MESSAGES", 2)
        here, there = Path(folder, "here"), Path(folder, "there")
        change(here, versions[0], None, keys)
        shutil.copytree(here, there)
        for version in versions[1:]:
            change(here, version, None)
            change(there, version, spark)
        assert tables(here) == tables(there)


class Shop:
    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.application = folder / "shop.dmq"
        self.store = folder / "store"
        self._capsys = capsys
        self.out = self.err = ""

    def run(self, count: int) -> None:
        """Let the old application process some orders, then change it."""
        self.application.write_text(OLD)
        with Lab(self.application, store=self.store) as lab:
            for number in range(count):
                lab.enqueue("orders", ORDER.format(number % 7, number))
            lab.run_until_idle()
        self.application.write_text(NEW)

    def __call__(self, *words: str) -> int:
        code = cli.run(cli.demaq, [*words, "--store", str(self.store)])
        self.out, self.err = self._capsys.readouterr()
        return code


@pytest.fixture
def shop(tmp_path: Path, monkeypatch, capsys) -> Shop:
    monkeypatch.chdir(tmp_path)
    return Shop(tmp_path, capsys)


CHANGES = "property customer: new\nproperty euros: new\nslicing byCustomer: new\n"


@pytest.mark.slow
def test_the_command_fills_in_on_spark_and_the_next_run_has_nothing_left_to_do(
    shop: Shop, spark: RunningSpark, monkeypatch
):
    monkeypatch.setattr(shared_options, "start_spark", lambda *_, **__: contextlib.nullcontext(spark))
    monkeypatch.setattr(migrate, "TASK_MESSAGES", 10)
    monkeypatch.setattr(migrate, "migrate_batch", migrate_mortally)
    shop.run(30)
    assert shop("backfill", "shop.dmq", "--pipeline", "spark") == 0
    assert shop.err == f"{CHANGES}filling in 30 messages\n"
    assert shop.out == "60 messages looked at, 60 with other properties\n"
    assert shop("backfill", "shop.dmq", "--json") == 0
    assert json.loads(shop.out) == {"messages": 0, "changed": 0, "failed": 0}
    with Lab(shop.application, store=shop.store) as lab:
        assert [m.properties["customer"] for m in lab.read_queue("bills")] == [f"c{number % 7}" for number in range(30)]
        assert len(lab.store.slice("byCustomer", "c3", lab.store.snapshot())) == 4


def migrate_mortally(assignment: bytes) -> bytes:
    """As the real one, but that one message ends the process."""
    import os
    import pickle

    from demaq.bulk.migrate import migrate_batch

    if 5 in pickle.loads(assignment)[3]:
        os._exit(3)
    return migrate_batch(assignment)


@pytest.mark.slow
def test_a_backfill_that_was_killed_continues_where_it_was(shop: Shop, tmp_path: Path):
    shop.run(3000)
    calm = tmp_path / "calm"
    shutil.copytree(shop.store, calm)
    child = subprocess.Popen(
        [sys.executable, "-m", "demaq.cli", "backfill", "shop.dmq", "--store", str(shop.store), "--pipeline", "inline"],
        env={**os.environ, "PYTHONPATH": str(Path(demaq.__file__).parents[1])},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    reader = SqliteStore.open_readonly(shop.store)
    last = time.monotonic() + KILL_SECONDS_MAX
    while not reader._database.rows("SELECT 1 FROM restated LIMIT 1"):
        assert child.poll() is None, "it must not end before it is killed"
        assert time.monotonic() < last
        time.sleep(0.005)
    child.send_signal(signal.SIGKILL)
    child.wait()
    program = reader.program()
    assert program is not None
    assert program[0] == 1, "the old version counts until the new one is complete"
    reader.close()

    assert shop("backfill", "shop.dmq", "--pipeline", "inline", "--json") == 0
    assert 0 < json.loads(shop.out)["messages"] < 6000
    assert cli.run(cli.demaq, ["backfill", "shop.dmq", "--store", str(calm), "--pipeline", "inline"]) == 0
    assert timeless(tables(shop.store)) == timeless(tables(calm))


def timeless(found: dict[str, list[tuple[object, ...]]]) -> dict[str, list[tuple[object, ...]]]:
    return {name: rows for name, rows in found.items() if name != "messages"}


@pytest.mark.slow
def test_what_cannot_be_filled_in_is_one_line(shop: Shop):
    assert shop("backfill", "nowhere.dmq") == 1
    assert "nowhere.dmq" in shop.err
    shop.application.write_text(NEW)
    assert shop("backfill", "shop.dmq") == 1
    assert shop.err == f"demaq: there is no store in {shop.store}\n"
    shop.run(2)
    shop.application.write_text("create queue orders\n")
    assert shop("backfill", "shop.dmq") == 1
    assert shop.err.startswith(
        "demaq: queue bills is not in the program any more, but holds 2 messages (2 unprocessed)"
    )
    shop.application.write_text(OLD)
    node = Node(shop.application, shop.store)
    control = ControlServer(node)
    try:
        assert shop("backfill", "shop.dmq") == 1
        assert shop.err.startswith("demaq: a node runs on the store; stop it first")
    finally:
        control.close()
        node.stop()


def test_an_executor_opens_a_store_again_whose_file_was_replaced(tmp_path: Path):
    program = tmp_path / "app.dmq"
    program.write_text("create queue a kind basic create rule r for a if (/m) then do enqueue . into a")
    for name in ("one", "other"):
        with Lab(str(program), tmp_path / name) as lab:
            lab.enqueue("a", f"<{name}/>")
    place = ProgramOnStore.of({str(program): program.read_text()}, tmp_path / "one")
    first = open_program(place)
    assert open_program(place) is first
    os.replace(tmp_path / "other" / FILE_NAME, tmp_path / "one" / FILE_NAME)
    assert [message.body for message in open_program(place).store.stored("a", 0, 9)] == ["<other/>"]
