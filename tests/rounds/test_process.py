"""Evaluation in another process, and what happens when it does not come back."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from demaq.errors import MessageError
from demaq.rounds.compiled import compile_program
from demaq.rounds.process import ProcessEvaluator
from demaq.scheduler.engine import Engine
from demaq.store.sqlite import SqliteStore
from tests.programs import program

PROGRAM = """
declare function local:forever($n) { if ($n < 0) then $n else local:forever($n + 1) };
create queue a create queue b create queue e
create property k as xs:integer queue a value //k
create rule endless for a errorqueue e if (//endless) then do enqueue <x>{local:forever(1)}</x> into b
create rule fine for a if (//k) then do enqueue <y>{//k, count(qs:queue("b"))}</y> into b
"""
NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    loaded = program(tmp_path, PROGRAM)
    store = SqliteStore(tmp_path / "store", now=lambda: NOW)
    evaluator = ProcessEvaluator(loaded.files(), tmp_path / "store", rule_timeout_seconds=2)
    engine = Engine(compile_program(loaded).plan, evaluator, store, lambda: NOW)
    yield engine
    evaluator.close()
    store.close()


def drain(engine: Engine) -> None:
    while engine.run_round():
        pass


def bodies(engine: Engine, queue: str) -> list[str]:
    return [message.body for message in engine.store.stored(queue, 0, 100)]


def test_rules_are_evaluated_in_the_other_process_on_the_same_store(engine: Engine) -> None:
    engine.enqueue("a", "<m><k>1</k></m>")
    engine.enqueue("a", "<m><k>2</k></m>")
    drain(engine)
    assert bodies(engine, "b") == ["<y><k>1</k>0</y>", "<y><k>2</k>1</y>"]


def test_what_intake_refuses_is_refused_through_the_other_process(engine: Engine) -> None:
    with pytest.raises(MessageError) as refusal:
        engine.enqueue("a", "<m><k>one</k></m>")
    assert refusal.value.kind == "propertyError"


def test_a_rule_that_never_ends_costs_its_own_message_and_nobody_elses(engine: Engine) -> None:
    for n in (1, 2):
        engine.enqueue("a", f"<m><k>{n}</k></m>")
    engine.enqueue("a", "<m><endless/><k>3</k></m>")
    for n in (4, 5):
        engine.enqueue("a", f"<m><k>{n}</k></m>")
    drain(engine)
    assert [body[:10] for body in bodies(engine, "b")] == [f"<y><k>{n}</k>"[:10] for n in (1, 2, 4, 5)]
    (error,) = bodies(engine, "demaq:errors")
    assert "<systemError/>" in error
    assert "did not end" in error
    assert isinstance(engine.evaluator, ProcessEvaluator)
    assert engine.evaluator.replaced >= 1
