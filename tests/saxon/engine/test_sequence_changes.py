"""Changes of sequences are part of the transaction of the messages and deliveries that they came with."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from demaq.engine.delivery import Ended
from demaq.engine.engine import Engine
from demaq.errors import AlreadyProcessed
from demaq.evaluation.saxon.compiled import compile_program
from demaq.evaluation.saxon.saxon_evaluator import SaxonEvaluator
from demaq.store import MemoryStore
from demaq.store.protocol import Committed, Step
from demaq.testing.lab import load_text
from tests.support.engines import local_engine
from tests.support.store.contract import MORNING, attempt, new
from tests.support.store.sequence_contract import FIRST, NEXT, everything

PROGRAM = 'create queue orders create queue out kind outgoingGateway endpoint "http://there.invalid/"'
NOTHING: tuple[object, ...] = ([], [], frozenset())


class Observed:
    """An engine, and the steps that were observed."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.steps: list[Step] = []
        evaluator = SaxonEvaluator(compile_program(load_text(PROGRAM)))
        self.engine: Engine = local_engine(evaluator, self.store, lambda: MORNING, observe=self.note)

    def note(self, steps: Sequence[Step], committed: Sequence[Committed]) -> None:
        assert len(steps) == len(committed) > 0
        self.steps += steps

    def end(self, seq: int) -> Ended:
        message = self.store.message(seq)
        assert message is not None
        return Ended(message=message, attempt=attempt(seq, 1, "sent"))


def test_messages_are_appended_with_changes_of_sequences() -> None:
    observed = Observed()
    heard: list[int] = []
    engine = observed.engine
    assert engine.append_numbered([new(), new()], heard.extend, FIRST) == [(1, True), (2, True)]
    assert everything(observed.store)[0] == list(FIRST.sequences)
    assert engine.append_numbered([], heard.extend, changes=NEXT) == []
    assert len(observed.store.sequences()) == 3
    assert heard == [1, 2]
    assert observed.store.snapshot() == 2


def test_a_delivery_ends_with_changes_of_sequences() -> None:
    observed = Observed()
    [seq] = observed.store.append([new("out", undelivered=True, priority=None)])
    observed.engine.deliver([observed.end(seq)], FIRST)
    assert everything(observed.store)[0] == list(FIRST.sequences)
    assert [step.delivered for step in observed.steps] == [seq]


def test_a_delivery_that_was_ended_before_changes_no_sequence() -> None:
    observed = Observed()
    [seq] = observed.store.append([new("out", undelivered=True, slices=(("s", "k"),))])
    ended = observed.end(seq)
    observed.engine.deliver([ended])
    with pytest.raises(AlreadyProcessed):
        observed.engine.deliver([ended], FIRST)
    assert everything(observed.store) == NOTHING


def test_changes_without_a_delivery_take_no_number_and_are_not_observed() -> None:
    observed = Observed()
    observed.engine.deliver([], FIRST)
    assert everything(observed.store)[0] == list(FIRST.sequences)
    observed.engine.deliver([])
    assert (observed.store.snapshot(), observed.steps) == (0, [])
