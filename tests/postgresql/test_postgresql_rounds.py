"""Rounds on a store on PostgreSQL: the node and its evaluator are two processes with connections of their own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from demaq.bulk.message_search import Filters
from demaq.bulk.message_sink import BulkReport
from demaq.bulk.replay import LocalBackend, Replay
from demaq.engine.engine import Engine
from demaq.engine.replay import copies_of
from demaq.errors import StoreError
from demaq.evaluation.saxon.compiled import compile_program
from demaq.evaluation.workers.process import ProcessEvaluator
from demaq.store.postgresql import PostgresqlStore
from demaq.store.protocol import NewMessage
from tests.support.programs import program
from tests.support.store.server import Server

PROGRAM = """
create queue a create queue b
create property k as xs:string queue a, b value //k
create slicing s on k
create rule count for a if (//k) then do enqueue <y>{//k, count(qs:queue("b"))}</y> into b
"""
NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def engine(server: Server, tmp_path: Path) -> Iterator[Engine]:
    loaded = program(tmp_path, PROGRAM)
    address = server.address(server.new_schema())
    store = PostgresqlStore(address, now=lambda: NOW)
    evaluator = ProcessEvaluator(loaded.files(), address)
    yield Engine(compile_program(loaded).plan, evaluator, store, lambda: NOW, receiver=evaluator)
    evaluator.close()
    store.close()


def drain(engine: Engine) -> None:
    while engine.run_round():
        pass


def bodies(engine: Engine, queue: str) -> list[str]:
    return [message.body for message in engine.store.stored(queue, 0, 100)]


def test_rules_are_evaluated_in_the_other_process_on_the_same_store(engine: Engine):
    engine.enqueue("a", "<m><k>1</k></m>")
    engine.enqueue("a", "<m><k>1</k></m>")
    drain(engine)
    assert bodies(engine, "b") == ["<y><k>1</k>0</y>", "<y><k>1</k>1</y>"]


def test_nothing_is_lost_or_doubled_when_all_connections_are(server: Server, engine: Engine):
    engine.enqueue("a", "<m><k>1</k></m>")
    drain(engine)
    engine.enqueue("a", "<m><k>2</k></m>")
    server.run("SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name LIKE 'demaq%'")
    with pytest.raises(StoreError, match="connection was lost"):
        drain(engine)  # the node's
    with pytest.raises(StoreError, match="connection was lost"):
        drain(engine)  # the evaluator's
    drain(engine)
    assert bodies(engine, "b") == ["<y><k>1</k>0</y>", "<y><k>2</k>1</y>"]


def test_messages_are_run_again_once(engine: Engine):
    engine.enqueue("a", "<m><k>1</k></m>")
    drain(engine)
    backend = LocalBackend(engine.plan, engine.store, engine.receiver)

    class Target:
        def append(self, messages: Sequence[NewMessage], digest: str, watch: str | None = None) -> list[bool]:
            return engine.append_checked(messages)

    for stored in (1, 0):
        found = backend.find(Filters(queues=("a",)), engine.store.snapshot(), lambda numbers: None).select_newest()
        report = BulkReport()
        Replay(store=engine.store, target=Target(), digest="", name="").run(backend, found, report)
        assert (report.stored, report.known) == (stored, 1 - stored)
        drain(engine)
    assert bodies(engine, "b") == ["<y><k>1</k>0</y>", "<y><k>1</k>1</y>"]
    [original, copy] = engine.store.stored("a", 0, 9)
    assert copies_of(engine.store, original.seq) == [copy.seq]
    assert copy.slices == original.slices == (("s", "1"),)
