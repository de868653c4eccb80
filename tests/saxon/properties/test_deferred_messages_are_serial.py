"""Whatever takes long and is evaluated apart, and however long: what is committed is what a serial execution does."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any
from unittest.mock import patch

from hypothesis import given, note, settings
from hypothesis import strategies as st

from demaq.engine.round import THROUGHPUT, Evaluation
from demaq.errors import MessageError, ProgramError
from demaq.evaluation.cascade.cascade import Cascades
from demaq.evaluation.local_evaluator import LocalEvaluator
from demaq.evaluation.outcomes import Deferral, Outcome
from demaq.evaluation.round_request import RoundRequest, RoundResult
from demaq.evaluation.saxon.compiled import compile_program
from demaq.evaluation.saxon.saxon_evaluator import SaxonEvaluator
from demaq.store import MemoryStore
from demaq.store.protocol import Committed, Step
from demaq.testing.lab import load_text
from tests.saxon.properties.test_rounds_are_serial import bursts, conversations, requests
from tests.support.engines import read_request
from tests.support.properties.applications import HOPS_MAX, Application, applications, arrivals
from tests.support.reference.comparing import Event, TooMany
from tests.support.reference.eager_engine import EagerEngine
from tests.support.reference.serial_run import SerialRun

NOW = datetime(2026, 3, 1, tzinfo=UTC)
MESSAGES_MAX = 80
ROUNDS_MAX = 1000
RAN = {"programs": 0, "steps": 0, "deferred": 0, "alone": 0, "lost": 0}
"""What was tried: it shows that the interesting cases occur."""


class Deferring(LocalEvaluator):
    """Defers now and then a message; as a lane, evaluates what it is given or defers it once more."""

    def __init__(self, rules: SaxonEvaluator, store: MemoryStore, choices: random.Random) -> None:
        super().__init__(rules, store)
        self._choices = choices

    def run(self, request: RoundRequest) -> RoundResult:
        size = len(request.batch)
        result = RoundResult(
            [Outcome(deferred=Deferral("slow")) if self._choices.random() < 0.3 else None for _ in range(size)]
        )
        quick = [position for position, outcome in enumerate(result.outcomes) if outcome is None]
        RAN["deferred"] += size - len(quick)
        result.insert(quick, super().run(request.select(quick)))
        return result

    def sift(self, request: RoundRequest) -> RoundResult:
        reached = self._choices.randint(0, len(request.batch))
        found = self._evaluate(request.select(range(reached)))
        if reached < len(request.batch):
            found.append(Outcome(deferred=Deferral("slow")))
        return RoundResult([*found, *[None] * (len(request.batch) - len(found))])

    def evaluate_alone(self, request: RoundRequest) -> RoundResult:
        RAN["alone"] += len(request.batch)
        return RoundResult([*self._evaluate(request)])

    def _evaluate(self, request: RoundRequest) -> list[Outcome]:
        messages, reader = read_request(request, self._store)
        return self._rules.evaluate(messages, reader, request.now)


def follow(application: Application, events: list[list[Event]], size: int, at_once: int, seed: int) -> None:
    """Run bursts of messages in rounds of a size, and let the interpreter follow."""
    note(application.text)
    try:
        compiled = compile_program(load_text(application.text))
    except ProgramError:
        return
    RAN["programs"] += 1
    choices = random.Random(seed)
    rules = SaxonEvaluator(compiled)
    store = MemoryStore()
    evaluator = Deferring(rules, store, choices)
    evaluator.messages_max = size
    evaluator.rounds_max = at_once
    done: list[tuple[Sequence[Step], Sequence[Committed]]] = []
    engine = EagerEngine(
        compiled.plan,
        evaluator,
        store,
        lambda: NOW,
        HOPS_MAX,
        lambda steps, committed: done.append((steps, committed)),
        receiver=rules,
        policy=THROUGHPUT,
        lanes=[evaluator, evaluator, evaluator],
    )
    engine._round_messages = size
    engine.round_messages_least = 1
    comes_and_goes = Cascades(rules).is_possible
    serial = SerialRun(application.text, NOW, HOPS_MAX, application.failing_in_two_ways, comes_and_goes, MESSAGES_MAX)

    def start(evaluation: Evaluation, done: Callable[[], None] = lambda: None) -> None:
        found = evaluation._evaluate()  # on the snapshot of this moment
        evaluation._evaluate = lambda: found

    with (
        suppress(TooMany),
        patch.object(Evaluation, "start", start),
        patch.object(Evaluation, "is_done", lambda evaluation: choices.random() < 0.4),
    ):
        for burst in events:
            for event in burst:
                note(str(event))
                with suppress(MessageError):
                    number = engine.enqueue(event.queue, event.body, dict(event.properties))
                    serial.arrived(number, event.queue, event.body, dict(event.properties))
            for _ in range(ROUNDS_MAX):
                is_busy = engine.run_round() or engine.fire_timers() or engine.slow_messages
                RAN["lost"] += sum([entry.losses for entry in engine.slow_messages._entries.values()])
                for steps, committed in done:
                    RAN["steps"] += len(steps)
                    serial.follow(steps, committed)
                done.clear()
                if not is_busy:
                    break
            else:
                raise AssertionError("it does not come to an end")
            serial.assert_same_state(store)


sizes = st.integers(1, 8)
rounds_at_once = st.integers(1, 3)
seeds = st.integers(0, 1 << 30)
few = settings(max_examples=max(5, settings().max_examples // 10))


@few
@given(st.data())
def test_deferred_messages_are_processed_as_in_a_serial_execution(data: Any) -> None:
    application = data.draw(applications())
    events = data.draw(bursts(arrivals(application)))
    follow(application, events, data.draw(sizes), data.draw(rounds_at_once), data.draw(seeds))


@few
@given(st.data())
def test_deferred_messages_of_conversations_are_processed_as_in_a_serial_execution(data: Any) -> None:
    application = data.draw(conversations())
    follow(application, data.draw(bursts(requests())), data.draw(sizes), data.draw(rounds_at_once), data.draw(seeds))


def test_the_interesting_cases_have_occurred() -> None:
    if RAN["programs"] >= 10:  # the properties above have run
        assert RAN["deferred"] > 0
        assert RAN["alone"] > 0
        assert RAN["steps"] > 0
