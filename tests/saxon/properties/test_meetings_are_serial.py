"""Whatever rounds assume, fold and evaluate ahead: what they commit is what one message at a time does.

Every run draws new applications. `DEMAQ_TEST_SEED` repeats a run that failed, `SERIAL_PROGRAMS` is how many are drawn:

    SERIAL_PROGRAMS=20000 ./test tests/saxon/properties/test_meetings_are_serial.py -s
"""

from __future__ import annotations

import itertools
import pickle
import random
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest

from demaq.engine.arrivals import _Passing
from demaq.engine.engine import Engine
from demaq.engine.round import RoundPolicy
from demaq.engine.validation import Candidate, Validator, members_of
from demaq.errors import MessageError, ProgramError
from demaq.evaluation.arrival_request import ArrivalRequest, ArrivalResult
from demaq.evaluation.cascade import cascade
from demaq.evaluation.cascade.conversations import Conversation
from demaq.evaluation.local_evaluator import LocalEvaluator
from demaq.evaluation.outcomes import Outcome
from demaq.evaluation.round_request import RoundRequest, RoundResult
from demaq.evaluation.saxon.compiled import compile_program
from demaq.evaluation.saxon.saxon_evaluator import SaxonEvaluator
from demaq.evaluation.state.snapshot_reader import SnapshotReader
from demaq.spark.partition import partition
from demaq.store import MemoryStore
from demaq.store.protocol import Committed, NewMessage, Step
from demaq.testing.lab import load_text
from tests.support.drawing import draw_until, example_count, run_seed
from tests.support.properties.meetings import History, Meeting, draw_meeting
from tests.support.properties.model_evaluator import ModelEvaluator
from tests.support.reference.eager_engine import EagerEngine
from tests.support.reference.serial_engine import SerialEngine

START = datetime(2026, 3, 1, tzinfo=UTC)
HOPS_MAX = 8
PROGRAMS = example_count(60, "SERIAL_PROGRAMS")
STEPS_MAX = 300
"""An application that makes more of them is not looked at any further."""
SAXON_EVERY = 20
"""One application in so many is run by Saxon and followed by the model, so that the model is known to be right."""


class Interrupted(LocalEvaluator):
    """Divides rounds into tasks as Spark does, and lets senders and clients act while it evaluates."""

    tasks = 1
    interrupt: Callable[[], None] | None = None

    def run(self, request: RoundRequest) -> RoundResult:
        if self.tasks == 1:
            result = super().run(request)
        else:
            result = RoundResult([None] * len(request.batch))
            for share in partition([message.slices for message in request.batch], self.tasks):
                found = super().run(request.select(share))
                result.insert(share, pickle.loads(pickle.dumps(found)))
        if self.interrupt is not None:
            self.interrupt()
        return result

    def run_arrivals(
        self,
        divide: Callable[[int], Sequence[ArrivalRequest]],
        workers_max: int,
        meanwhile: Callable[[], None] = lambda: None,
    ) -> list[ArrivalResult]:
        results: list[ArrivalResult] = []
        requests = divide(self.tasks)
        if self.interrupt is not None:
            self.interrupt()
        meanwhile()
        for request in requests:
            reader = SnapshotReader(self._store, request.snapshot, self._documents)
            results.append(pickle.loads(pickle.dumps(self._arrivals.run(request, reader))))
            if self.interrupt is not None:
                self.interrupt()
        return results


class Run:
    """An engine that runs a meeting in rounds, and the one that follows it."""

    def __init__(
        self, model: SaxonEvaluator, rules: SaxonEvaluator, history: History, rng: random.Random, counts: Counter[str]
    ) -> None:
        self.now = START
        self.counts = counts
        self._bursts = history.bursts
        self._meanwhile = list(history.meanwhile)
        self._rng = rng
        self.store = MemoryStore(now=lambda: self.now)
        evaluator = Interrupted(rules, self.store)
        evaluator.tasks = rng.choice((1, 1, 2, 3))
        evaluator.messages_max = size = rng.choice((2, 3, 5, 50, 50, 50))
        evaluator.rounds_max = rng.choice((1, 1, 2, 3))
        evaluator.interrupt = self.interrupt
        elide = rng.random() < 0.7
        fold, exact = elide and rng.random() < 0.8, rng.random() < 0.3
        kind: type[Engine] = EagerEngine if rng.random() < 0.7 else Engine
        self._fuses = rng.random() < 0.6
        policy = RoundPolicy(elide=elide, fold=fold, exact=exact, ahead=kind is EagerEngine, fuse=self._fuses)
        self.settings = {"policy": policy, "size": size, "tasks": evaluator.tasks, "kind": kind.__name__}
        self.engine = kind(
            *(model.plan, evaluator, self.store, lambda: self.now, HOPS_MAX, self._observe),
            receiver=model,
            policy=policy,
            arrivals=evaluator,
        )
        self._follow_arrivals()
        self.engine._round_messages = size
        self.engine.round_messages_least = 1
        self.serial = SerialEngine(model, lambda: self.now, HOPS_MAX)
        self._is_taking = False
        self._passing: dict[int, tuple[Step, Sequence[_Passing]]] = {}
        """Messages of which only effects are stored, by the identity of the step that does so."""
        self._fused = 0
        self.steps = 0
        self._happened: list[Callable[[], None]] = []
        """What is still to be followed. An engine takes an error that is raised in a commit for one of its own."""

    def run(self) -> None:
        if self._rng.random() < 0.7:
            self._until_idle()  # so that it is known that nothing waits
        for burst in self._bursts:
            for queue, sent in itertools.groupby(burst, key=lambda each: each[0]):
                bodies = [body for _, body in sent]
                size = self._rng.choice((1, 1, 2, len(bodies)))
                for start in range(0, len(bodies), size):
                    self._arrive(queue, bodies[start : start + size])
                    if self._rng.random() < 0.3:
                        self._until_idle()
            self._until_idle()
            self.now += timedelta(seconds=self._rng.choice((0, 1, 10)))
            self._until_idle()
        if isinstance(self.engine, EagerEngine):
            self.counts["ahead"] += self.engine.begun_ahead

    def _until_idle(self) -> None:
        while self.steps < STEPS_MAX and (self.engine.run_round() or self.engine.fire_timers()):
            self.counts["evaluated again"] += self.engine._rounds.evaluated_again
            if self._rng.random() < 0.2:
                self.engine.fire_timers()
            self._follow()
        self._follow()
        if self.steps < STEPS_MAX:
            self.serial.assert_same_state(self.store)
        else:
            self.counts["cut"] += 1

    def _follow(self) -> None:
        for happened in self._happened:
            happened()
        self._happened.clear()

    def interrupt(self) -> None:
        """Something happens while messages are evaluated, unless nothing may."""
        if not self._meanwhile or self.engine._rounds.changing._is_owned():  # type: ignore[attr-defined]
            return
        event = self._meanwhile.pop(0)
        if event[0] == "arrive":
            self.counts["arrivals meanwhile"] += 1
            self._arrive(event[1], [event[2]])
        elif event[0] == "take":
            self._take(event[1], int(event[2]))

    def _arrive(self, queue: str, bodies: Sequence[str]) -> None:
        before = self._fused
        with suppress(MessageError):
            numbers = self.engine.enqueue_all(queue, bodies)
            if self._fused == before:  # otherwise they were followed when they were committed
                self._happened += [partial(self.serial.arrive, *each, {}) for each in _named(numbers, queue, bodies)]

    def _follow_arrivals(self) -> None:
        """What is stored and processed at once arrives before its steps."""
        arrivals = self.engine.arrivals
        commit, make_step, store_first = arrivals._commit_steps, arrivals._pass, arrivals._store_first

        def note_passing(passing: Sequence[_Passing], last: int, now: datetime) -> Step:
            step = make_step(passing, last, now)
            self._passing[id(step)] = (step, passing)
            return step

        def follow(first: Sequence[Step], messages: Sequence[NewMessage], steps: Sequence[Step]) -> list[int]:
            place = len(self._happened)
            numbers = commit(first, messages, steps)
            self._fused += 1
            gone = sum([len(self._passing[id(step)][1]) for step in first])
            stored = [(number, message.queue, message.body) for number, message in zip(numbers, messages, strict=True)]
            place += gone + len(first)  # what has passed comes before the others
            self._happened[place:place] = [partial(self.serial.arrive, *each, {}) for each in stored]
            self.counts["passed before others"] += bool(gone and stored)
            waited = self.engine._rounds.has_backlog
            self.counts["fused"] += len(steps)
            self.counts["fused while others waited"] += len(steps) if waited else 0
            self.counts["fused with descendants"] += len(steps) > len(messages) or any([step.elided for step in steps])
            self.counts["stored, not processed"] += len(messages) > len(steps)
            return numbers

        def note_changed(result: Any, now: datetime) -> Any:
            found = store_first(result, now)
            self.counts["effects that did not hold"] += found is not result
            return found

        arrivals._commit_steps = follow
        arrivals._store_first = note_changed  # type: ignore[method-assign]
        arrivals._pass = note_passing  # type: ignore[method-assign]

    def _take(self, queue: str, limit: int) -> None:
        if self.engine.factory.priority(queue) is not None:
            return  # it has rules
        self._is_taking = True
        taken = [message.seq for message in self.engine.take(queue, limit)]
        self._is_taking = False
        self.counts["taken meanwhile"] += bool(taken)
        self._happened.append(lambda: self.serial.take(queue, limit, taken))

    def _observe(self, steps: Sequence[Step], committed: Sequence[Committed]) -> None:
        if self._is_taking:
            return
        if any([step.fired is not None for step in steps]):
            self._happened.append(lambda: self.serial.fire_timers(steps, committed))
            self.counts["timers"] += len(steps)
            return
        for step, done in zip(steps, committed, strict=True):
            self.steps += 1
            if step.processed is None:
                passing = self._passing[id(step)][1]
                self.counts["passed"] += len(passing)
                self.counts["conversations that passed"] += sum([each.processed > 1 for each in passing])
                arrived = [(each.seq, each.queue, str(each.incoming.body)) for each in passing]
                self._happened += [partial(self.serial.arrive, *each, {}) for each in arrived]
                self._happened.append(partial(self.serial.follow_passed, step, done))
                continue
            self.counts["folded"] += step.elided > 0
            self.counts["resets"] += bool(step.resets)
            self.counts["errors"] += any(["<error" in new.body for new in step.created])
            self._happened.append(partial(self.serial.follow, step, done))
        self.counts["steps"] += len(steps)


def _named(numbers: Sequence[int], queue: str, bodies: Sequence[str]) -> list[tuple[int, str, str]]:
    return [(number, queue, body) for number, body in zip(numbers, bodies, strict=True)]


def by_saxon(meeting: Meeting) -> SaxonEvaluator:
    return SaxonEvaluator(compile_program(load_text(meeting.text)))


def count_reasons(counts: Counter[str], monkeypatch: Any) -> None:
    """Count why outcomes are refused: each must be seen to make a difference."""
    is_stale = Validator.is_stale

    def counted(self: Validator, candidate: Candidate) -> bool:
        stale = is_stale(self, candidate)
        outcome, view = candidate.outcome, candidate.view
        if stale and outcome is not None and candidate.parts is not None:
            if view.inside.agree(candidate.parts, outcome.seen):
                if outcome.members is not None and outcome.members != members_of(candidate):
                    counts["refused for members"] += 1
                elif outcome.order and view.inside.order(candidate.parts, candidate.creation) != outcome.order:
                    counts["refused for order"] += 1
                else:
                    counts["refused for arrivals"] += 1
            else:
                counts["refused for versions"] += 1
        return stale

    monkeypatch.setattr(Validator, "is_stale", counted)


def count_conversations(counts: Counter[str], monkeypatch: Any) -> None:
    """Count what becomes of conversations: each way to run and to commit them must be tried."""
    start, is_known, fold, merge = Conversation.__init__, Conversation._is_known, Conversation.fold, cascade._merge

    def started(self: Conversation, settings: Any, messages: Any) -> None:
        start(self, settings, messages)
        counts["conversations of several messages"] += len(messages) > 1
        counts["messages in several slices"] += any([len(member.slices) > 1 for _, member in self._line])

    def known(self: Conversation, *args: Any) -> bool:
        found = is_known(self, *args)
        counts["outcomes on unknown state"] += not found
        return found

    def folded(self: Conversation) -> Outcome | None:
        outcome = fold(self)
        counts["folded conversations" if outcome else "conversations that cannot be folded"] += 1
        return outcome

    def merged(*args: Any) -> Any:
        found = merge(*args)
        counts["dependent conversations"] += found is not None
        return found

    monkeypatch.setattr(Conversation, "__init__", started)
    monkeypatch.setattr(Conversation, "_is_known", known)
    monkeypatch.setattr(Conversation, "fold", folded)
    monkeypatch.setattr(cascade, "_merge", merged)


@pytest.mark.draws
def test_rounds_of_any_kind_commit_what_one_message_at_a_time_does(monkeypatch: Any) -> None:
    seed = run_seed()
    print(f"DEMAQ_TEST_SEED={seed}")
    counts: Counter[str] = Counter()
    count_reasons(counts, monkeypatch)
    count_conversations(counts, monkeypatch)
    needed = (*NEEDED, *(NEEDED_AMONG_MANY if PROGRAMS >= MANY else ()))
    for number, _ in enumerate(draw_until(lambda: all([counts[each] for each in needed]), 60, "SERIAL_PROGRAMS")):
        if number % 1000 == 999:
            print(number + 1, dict(counts), flush=True)
        rng = random.Random(f"{seed} {number}")
        meeting = draw_meeting(rng)
        try:
            rules = by_saxon(meeting) if number % SAXON_EVERY == 0 else ModelEvaluator(meeting)
        except ProgramError:
            counts["not compiled"] += 1
            continue
        counts["programs"] += 1
        counts.update([f"with {feature}" for feature in meeting.features])
        model = ModelEvaluator(meeting)
        for history in meeting.histories:
            run = Run(model, rules, history, rng, counts)
            try:
                run.run()
            except AssertionError as error:
                repeat = f"DEMAQ_TEST_SEED={seed}, program {number}"
                shown = f"{meeting.text}\n{history}\n{run.settings}"
                raise AssertionError(f"{repeat}: {error}\n{shown}") from error
    print(dict(counts))
    assert counts["programs"] > PROGRAMS * 0.9
    for each in needed:
        assert counts[each] > 0, f"no {each} among {dict(counts)}"


NEEDED = (
    "evaluated again",
    "ahead",
    "arrivals meanwhile",
    "timers",
    "resets",
    "errors",
    "with several slicings",
    "with resets by name",
    "with priorities",
    "with transient queues",
    "with document order",
    "with outgoing gateways",
    "with rules that ask for numbers",
    "refused for versions",
    "conversations of several messages",
    "messages in several slices",
    "dependent conversations",
    "outcomes on unknown state",
    "folded conversations",
    "conversations that cannot be folded",
    "fused",
    "fused with descendants",
    "stored, not processed",
)
"""What must have happened for the run to say anything."""
NEEDED_AMONG_MANY = (
    "passed",
    "conversations that passed",
    "effects that did not hold",
    "folded",
    "taken meanwhile",
    "refused for members",
    "refused for order",
    "refused for arrivals",
)
MANY = 2000
"""These are seldom: only among so many applications they are sure to happen."""
