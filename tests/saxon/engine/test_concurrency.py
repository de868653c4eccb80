"""Senders and clients at work in the middle of a round: the outcome still equals a serial execution."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime

import pytest

from demaq.engine.engine import Engine
from demaq.engine.round import RoundPolicy
from demaq.evaluation.outcomes import Outcome, StateReader
from demaq.evaluation.saxon.compiled import CompiledProgram, compile_program
from demaq.evaluation.saxon.saxon_evaluator import SaxonEvaluator
from demaq.messages import Message
from demaq.store import MemoryStore
from demaq.store.protocol import StoredMessage
from demaq.testing.lab import load_text
from tests.support.engines import local_engine

NOW = datetime(2026, 3, 1, tzinfo=UTC)


class Interrupted(SaxonEvaluator):
    """Lets something happen while messages are evaluated: after they were, and before it is known."""

    def __init__(self, compiled: CompiledProgram) -> None:
        super().__init__(compiled)
        self.meanwhile: list[Callable[[], object]] = []
        self.evaluations = 0

    def outcomes(
        self,
        messages: Sequence[Message],
        reader: StateReader,
        now: datetime,
        states: Sequence[StateReader] | None = None,
    ) -> list[Outcome]:
        outcomes = super().outcomes(messages, reader, now, states)
        self.evaluations += 1
        if self.meanwhile:
            self.meanwhile.pop(0)()
        return outcomes


def engine_for(program: str, keeps: bool = True) -> tuple[Engine, Interrupted]:
    """Without `keeps` what is done with is removed at once, as by a node that runs without --keep."""
    compiled = compile_program(load_text(program))
    evaluator = Interrupted(compiled)
    receiver = SaxonEvaluator(compiled)
    policy = RoundPolicy(elide=not keeps, fold=not keeps)
    return local_engine(evaluator, MemoryStore(), lambda: NOW, receiver=receiver, policy=policy), evaluator


def bodies(engine: Engine, queue: str) -> list[str]:
    return [message.body for message in engine.store.queue(queue, engine.store.snapshot())]


COUNTING = """
create queue in create queue seen create queue out
create rule count for in if (true()) then do enqueue <n>{count(qs:queue("seen"))}</n> into out
"""


def test_what_a_client_takes_between_two_reads_of_a_round_is_missed_by_none_or_by_all() -> None:
    program = f"{COUNTING} create queue too create rule also for too if (true()) then do enqueue <n>{{count(qs:queue('seen'))}}</n> into out"
    engine, evaluator = engine_for(program, keeps=False)
    engine.enqueue("seen", "<m/>")
    for queue in ("in", "too", "in"):  # each queue reads for itself
        engine.enqueue(queue, "<m/>")
    read = engine.store.queue

    def read_and_taken(name: str, snapshot: int) -> list[StoredMessage]:
        found = read(name, snapshot)
        engine.take("seen")
        return found

    engine.store.queue = read_and_taken  # type: ignore[method-assign]
    while engine.run_round():
        pass
    engine.store.queue = read  # type: ignore[method-assign]
    assert bodies(engine, "out") == ["<n>0</n>"] * 3
    assert evaluator.evaluations > 1


def test_what_arrives_in_a_round_counts_as_coming_after_it() -> None:
    engine, evaluator = engine_for(COUNTING)
    for _ in range(3):
        engine.enqueue("in", "<m/>")
    evaluator.meanwhile.append(lambda: engine.enqueue("seen", "<s/>"))
    assert engine.run_round() == 3
    assert evaluator.evaluations == 1
    assert bodies(engine, "out") == ["<n>0</n>"] * 3


def test_what_one_message_of_a_round_has_seen_all_later_ones_have_seen() -> None:
    program = """
    create queue in create queue arriving create queue log
    create property k as xs:string queue arriving value //k
    create slicing s on k
    create rule writes for in if (//write) then do enqueue <w/> into log
    create rule reads for in if (//read and count(qs:queue("log")) ge 0) then
      do enqueue <r n="{count(qs:queue("log"))}" a="{count(qs:queue("arriving"))}"/> into log
    create rule only for in if (//only) then do enqueue <o a="{count(qs:queue("arriving"))}"/> into log
    """
    engine, evaluator = engine_for(program)
    engine.enqueue("in", "<write/>")
    engine.enqueue("in", "<read/>")
    engine.enqueue("in", "<only/>")
    evaluator.meanwhile.append(lambda: engine.enqueue("arriving", "<a><k>1</k></a>"))
    while engine.run_round():
        pass
    # The reader was evaluated again because of the first message, and saw the arrival. So must the last one have.
    assert bodies(engine, "log") == ["<w/>", '<r n="1" a="1"/>', '<o a="1"/>']


@pytest.mark.parametrize("keeps", [True, False])
def test_what_a_client_takes_in_the_middle_of_a_round_is_gone_for_all_that_is_committed_after_it(keeps: bool) -> None:
    engine, evaluator = engine_for(COUNTING, keeps)
    engine.enqueue("seen", "<s/>")
    engine.enqueue("in", "<m/>")
    evaluator.meanwhile.append(lambda: engine.take("seen"))
    while engine.run_round():
        pass
    assert bodies(engine, "out") == ["<n>0</n>"]


@pytest.mark.parametrize("keeps", [True, False])
def test_a_client_who_has_emptied_a_mailbox_gets_the_bell_of_what_is_put_into_it_later(keeps: bool) -> None:
    program = """
    create queue in create queue todo create queue bell
    create rule put for in if (true()) then
      (do enqueue <job/> into todo, if (empty(qs:queue("todo"))) then do enqueue <ring/> into bell)
    """
    engine, evaluator = engine_for(program, keeps)
    engine.enqueue("todo", "<job/>")
    engine.enqueue("in", "<m/>")
    taken: list[StoredMessage] = []
    evaluator.meanwhile.append(lambda: taken.extend(engine.take("todo", 10)))
    while engine.run_round():
        pass
    assert len(taken) == 1
    assert bodies(engine, "todo") == ["<job/>"]
    assert bodies(engine, "bell") == ["<ring/>"]


def test_what_is_created_without_having_seen_an_arrival_is_not_found_after_it() -> None:
    program = """
    create queue in create queue old create queue new create queue asks create queue out
    create rule put for in if (count(qs:queue("old")) = 0) then do enqueue <x/> into new
    create rule ask for asks if (true()) then
      do enqueue <last>{(qs:queue("old") | qs:queue("new"))[last()]/*/name()}</last> into out
    """
    engine, evaluator = engine_for(program)
    engine.enqueue("in", "<m/>")
    evaluator.meanwhile.append(lambda: engine.enqueue("old", "<a/>"))
    engine.run_round()
    engine.enqueue("asks", "<ask/>")
    engine.run_round()
    # Created before the arrival, it would not be the last one; after it, it is not created at all.
    assert bodies(engine, "out") == ["<last>a</last>"]
