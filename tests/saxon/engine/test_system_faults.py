"""Faults of the system: tried again, message by message, and given up for the one that never works."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import pytest
from lxml import etree

from demaq.engine.engine import ATTEMPTS_MAX, Engine
from demaq.errors import EvaluatorUnavailable, StoreError, SystemFault
from demaq.evaluation.outcomes import Outcome, StateReader
from demaq.evaluation.saxon.compiled import compile_program
from demaq.evaluation.saxon.saxon_evaluator import SaxonEvaluator
from demaq.messages import Message
from demaq.store import MemoryStore
from demaq.store.protocol import Committed, Elision, SequenceChanges, Step
from demaq.testing.lab import load_text
from tests.support.engines import local_engine

PROGRAM = """
create queue in create queue out
create rule copy for in if (true()) then do enqueue . into out
"""


class Failing(SaxonEvaluator):
    """Fails on some messages, for reasons that are not theirs; each so often."""

    def __init__(self, times: dict[str, int], fault: Exception) -> None:
        super().__init__(compile_program(load_text(PROGRAM)))
        self.times = times
        self.fault = fault

    def outcomes(
        self,
        messages: Sequence[Message],
        reader: StateReader,
        now: datetime,
        states: Sequence[StateReader] | None = None,
    ) -> list[Outcome]:
        for message in messages:
            if self.times.get(message.document.text, 0) > 0:
                self.times[message.document.text] -= 1
                raise self.fault
        return super().outcomes(messages, reader, now, states)


def engine_with(evaluator: SaxonEvaluator, store: MemoryStore | None = None) -> Engine:
    engine = local_engine(evaluator, store or MemoryStore(), lambda: datetime(2026, 1, 1, tzinfo=UTC))
    for n in range(4):
        engine.enqueue("in", f"<m{n}/>")
    return engine


def run(engine: Engine) -> int:
    """Run until nothing is left. Return how often the caller would have waited."""
    faults = 0
    while True:
        try:
            if not engine.run_round():
                return faults
        except SystemFault:
            faults += 1


def bodies(engine: Engine, queue: str) -> list[str]:
    return [message.body for message in engine.store.queue(queue, engine.store.snapshot())]


def test_a_fault_that_passes_costs_nothing() -> None:
    engine = engine_with(Failing({"<m1/>": 3}, RuntimeError("the moon is full")))
    assert run(engine) == 2
    assert bodies(engine, "out") == ["<m0/>", "<m1/>", "<m2/>", "<m3/>"]
    assert bodies(engine, "demaq:errors") == []


def test_a_message_that_always_fails_is_parked_and_its_queue_is_processed_further() -> None:
    engine = engine_with(Failing({"<m1/>": 1000}, RuntimeError("the moon is full")))
    assert run(engine) == ATTEMPTS_MAX - 1
    assert bodies(engine, "out") == ["<m0/>", "<m2/>", "<m3/>"]
    (error,) = [etree.fromstring(body) for body in bodies(engine, "demaq:errors")]
    assert error.find("systemError") is not None
    assert error.findtext("attempt") == str(ATTEMPTS_MAX)
    assert "the moon is full" in str(error.findtext("description"))
    assert error.find("initialMessage/m1") is not None
    assert bodies(engine, "in") == []


def test_a_round_that_failed_once_is_a_round_again_later() -> None:
    failing = Failing({"<m1/>": 1}, RuntimeError("the moon is full"))
    engine = engine_with(failing)
    run(engine)
    for n in range(4):
        engine.enqueue("in", f"<n{n}/>")
    assert engine.run_round() == 4


@pytest.mark.parametrize("fault", [StoreError("the disk is full"), EvaluatorUnavailable("no process")])
def test_what_is_no_messages_fault_parks_none(fault: Exception) -> None:
    engine = engine_with(Failing({"<m1/>": 20}, fault))
    for _ in range(20):
        with pytest.raises(type(fault)):
            engine.run_round()
    assert run(engine) == 0
    assert bodies(engine, "out") == ["<m0/>", "<m1/>", "<m2/>", "<m3/>"]


class FullNowAndThen(MemoryStore):
    """A store that cannot write every second time."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def commit(
        self, steps: Sequence[Step], elide: Elision = False, changes: SequenceChanges | None = None
    ) -> list[Committed]:
        self.calls += 1
        if self.calls % 2:
            raise StoreError("the disk is full")
        return super().commit(steps, elide, changes)


def test_a_commit_that_fails_is_done_again_and_only_once() -> None:
    engine = engine_with(SaxonEvaluator(compile_program(load_text(PROGRAM))), FullNowAndThen())
    with pytest.raises(StoreError):
        engine.run_round()
    assert engine.run_round() == 4
    assert bodies(engine, "out") == ["<m0/>", "<m1/>", "<m2/>", "<m3/>"]
