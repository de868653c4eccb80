"""Messages that take long to evaluate, outside of rounds: everything that shares no slice with them goes on.

A round defers the messages that its worker process is busy with for unusually long. From then on messages of their
queues are suspected and come here without being tried in a round, until some of them were quick. One lane sifts: it
evaluates messages one by one for a short time each, to find those that are really slow. The other lanes evaluate slow
ones with the whole of the limits. Members of a slice stay in order: later members of the slices of a message that is
here wait in the store (`Validator.held`).

Outcomes are validated and committed between two rounds as usual, so the result is that of a serial execution. A message
whose outcome did not hold is evaluated again. After LOSSES_MAX times rounds wait for it, after SENDERS_WAIT_LOSSES also
senders, so that it cannot lose for ever.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from demaq.compiler.plan import Plan
from demaq.engine.round import Evaluation, Rounds
from demaq.engine.validation import Order
from demaq.errors import EvaluatorUnavailable, StoreError
from demaq.evaluation.cascade.versions import SliceKey
from demaq.evaluation.outcomes import NOT_EVALUATED, Deferral, Outcome
from demaq.evaluation.round_request import RoundRequest, RoundResult
from demaq.evaluation.workers.progress import PATIENCE_SECONDS
from demaq.store.protocol import StoredMessage

MESSAGES_MAX = 500
"""Messages of suspected queues that are here at once; more of them wait in the store."""
SIFTED_MAX = 100
"""Messages in one request to sift."""
QUICK_MAX = 10
"""After so many quick messages in a row a queue is no longer suspected."""
LONG_MAX = 3
"""After so many messages in a row that took long and ended, those of a queue are no longer sifted."""
LONG_SECONDS = 5.0
"""Messages of such a queue are evaluated together, so many that they take about this time."""
LOSSES_MAX = 2
SENDERS_WAIT_LOSSES = 5
PAUSE_SECONDS = 1.0
"""Pause after a worker process did not start."""

_log = logging.getLogger("demaq.node")


class SlowLane(Protocol):
    """An evaluator of messages that take long."""

    def sift(self, request: RoundRequest) -> RoundResult:
        """Evaluate messages one by one until one takes long, which is deferred; no outcome for those not reached."""

    def evaluate_alone(self, request: RoundRequest) -> RoundResult:
        """Evaluate messages with the whole of the limits, one of them rule by rule."""


@dataclass(slots=True)
class _Entry:
    message: StoredMessage
    order: Order
    is_tried: bool = False
    """Whether it was in a round."""
    is_slow: bool = False
    is_running: bool = False
    losses: int = 0


@dataclass(slots=True)
class _Suspicion:
    """What is known about the messages of a queue."""

    quick: int = 0
    long: int = 0
    """How many in a row were quick, and how many took long and ended."""
    at_once: int = 1
    """How many slow ones are evaluated in one request."""


@dataclass(slots=True)
class _SlowRun:
    """Messages that a lane evaluates."""

    entries: list[_Entry]
    evaluation: Evaluation
    is_sifting: bool
    is_void: bool = False
    """Whether something has changed that validation does not see."""


@dataclass(slots=True)
class EvaluationFault:
    """An error of an evaluation, with its messages."""

    batch: list[StoredMessage]
    error: Exception


@dataclass
class SlowMessages:
    """The slow messages of one engine. All methods are called by the engine's thread."""

    rounds: Rounds
    lanes: Sequence[SlowLane]
    """The first one sifts, the others evaluate slow messages."""
    plan: Plan
    wake: Callable[[], None] = lambda: None
    """Called from other threads when an evaluation has ended."""
    suspected: dict[str, _Suspicion] = field(default_factory=dict)
    """Suspected queues."""
    _entries: dict[int, _Entry] = field(default_factory=dict)
    _blocked: set[int] = field(default_factory=set)
    """Messages in the store that wait for one that is here."""
    _runs: dict[int, _SlowRun] = field(default_factory=dict)
    """By the number of the lane."""
    _not_before: float = 0.0
    _turns: int = 0
    """Alternates between tried and untried messages."""

    def __bool__(self) -> bool:
        """Return whether anything is here."""
        return bool(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    # messages come

    def defer(self, deferred: Sequence[tuple[StoredMessage, Deferral]]) -> None:
        """Take messages that a round has deferred, each with the reason."""
        tried = [message.seq for message, deferral in deferred if deferral.was_tried]
        for message, deferral in deferred:
            if message.queue not in self.suspected:
                _log.info(
                    "messages of queue %s are evaluated apart, as message %d: %s",
                    message.queue,
                    message.seq,
                    deferral.reason,
                )
            self._suspect(message.queue)
            # One by itself in the call that took long need not be sifted. One that was not tried may be quick.
            self._add(message, is_tried=deferral.was_tried, is_slow=tried == [message.seq])
        self._hold()

    def admit(self, pending: Sequence[StoredMessage]) -> list[StoredMessage]:
        """Return those of the next messages that a round may process. The others come here, or wait."""
        if not self._entries and not self.suspected:
            return list(pending)
        found: list[StoredMessage] = []
        for message in pending:
            if message.queue in self.suspected:
                self._add(message)
            elif self.rounds.validator.is_held(self.rounds.order(message), message.slices):
                self._blocked.add(message.seq)
            else:
                found.append(message)
        if len(found) < len(pending):
            self._hold()
        return found

    def left_out(self) -> list[int]:
        """Return the seqs of messages that no round may process now."""
        return [*self._entries, *self._blocked]

    def queues_left_out(self) -> list[str]:
        """Return the queues whose messages are not to be read now, because enough of them are here."""
        return list(self.suspected) if len(self._entries) >= MESSAGES_MAX else []

    def _add(self, message: StoredMessage, is_tried: bool = False, is_slow: bool = False) -> None:
        assert message.seq not in self._entries, "a message is deferred once, and left out of rounds from then on"
        self._entries[message.seq] = _Entry(message, self.rounds.order(message), is_tried, is_slow)

    def _suspect(self, queue: str) -> _Suspicion:
        return self.suspected.setdefault(queue, _Suspicion())

    # evaluation

    def start(self) -> None:
        """Start evaluations in free lanes."""
        if not self._entries or time.monotonic() < self._not_before:
            return
        free = [entry for entry in self._first_in_their_slices() if not entry.is_running]
        for lane in range(len(self.lanes)):
            if lane not in self._runs:
                chosen = self._still_waiting(self._to_sift(free) if lane == 0 else self._next_slow(free))
                if chosen:
                    self._runs[lane] = self._begin(chosen, lane)
                    self._runs[lane].evaluation.start(self.wake)

    def _first_in_their_slices(self) -> list[_Entry]:
        """Return the messages with no other one before them in one of their slices, in order."""
        found: list[_Entry] = []
        taken: set[SliceKey] = set()
        for entry in sorted(self._entries.values(), key=lambda entry: entry.order):
            if taken.isdisjoint(entry.message.slices):
                found.append(entry)
            taken.update(entry.message.slices)
        return found

    def _to_sift(self, free: Sequence[_Entry]) -> list[_Entry]:
        """Return messages to be sifted, beginning in turn with untried ones and with those that were in a round.

        One that does not end takes as long as many others and costs its process, so neither kind may starve the other.
        """
        found = [entry for entry in free if not self._is_slow(entry) and not entry.is_running]
        tried = [entry for entry in found if entry.is_tried]
        untried = [entry for entry in found if not entry.is_tried]
        self._turns += bool(tried and untried)
        return (untried + tried if self._turns % 2 else tried + untried)[:SIFTED_MAX]

    def _is_slow(self, entry: _Entry) -> bool:
        """Return whether a message was found slow, or need not be sifted because the ones before it all took long."""
        suspicion = self.suspected.get(entry.message.queue)
        return entry.is_slow or (suspicion is not None and suspicion.long >= LONG_MAX)

    def _next_slow(self, free: Sequence[_Entry]) -> list[_Entry]:
        """Return the next slow message, with others of its queue if slow ones of that queue have ended before."""
        slow = [entry for entry in free if self._is_slow(entry) and not entry.is_running]
        if not slow:
            return []
        queue = slow[0].message.queue
        alike = [entry for entry in slow if entry.message.queue == queue and entry.losses == slow[0].losses]
        return alike[: self._suspect(queue).at_once]

    def _still_waiting(self, chosen: list[_Entry]) -> list[_Entry]:
        """Return the messages that are to be processed, as they are now, and drop the others.

        A commit that failed may have taken place, and then its messages are processed and perhaps removed.
        """
        if not chosen:
            return []
        current = {message.seq: message for message in self.rounds.read([entry.message.seq for entry in chosen])}
        waiting: list[_Entry] = []
        for entry in chosen:
            message = current.get(entry.message.seq)
            if message is not None and message.processed is None:
                entry.message = message  # it may have left a slice
                waiting.append(entry)
        if len(waiting) < len(chosen):
            self._remove([entry for entry in chosen if entry not in waiting])
        return waiting

    def _begin(self, chosen: list[_Entry], lane: int) -> _SlowRun:
        evaluator = self.lanes[lane]
        evaluate = evaluator.sift if lane == 0 else evaluator.evaluate_alone
        evaluation = self.rounds.begin_slow([entry.message for entry in chosen], evaluate)
        for entry in chosen:  # not before: one that is running and has no run would never be chosen again
            entry.is_running = True
        return _SlowRun(chosen, evaluation, lane == 0)

    def finish(self) -> tuple[int, list[EvaluationFault]]:
        """Commit the outcomes that hold. Return how many messages, and the errors of evaluations. Raises StoreError."""
        done = 0
        faults: list[EvaluationFault] = []
        for lane, run in list(self._runs.items()):
            if run.evaluation.is_done():
                del self._runs[lane]
                done += self._end(run, faults)
        stubborn = [entry for entry in self._entries.values() if entry.losses >= LOSSES_MAX and not entry.is_running]
        if stubborn and 1 not in self._runs:
            done += self._end_while_others_wait(stubborn[0], faults)
        return done, faults

    def _end_while_others_wait(self, entry: _Entry, faults: list[EvaluationFault]) -> int:
        """Evaluate and commit a message that has lost too often, while no round runs."""
        last = self.rounds.changing if entry.losses >= SENDERS_WAIT_LOSSES else contextlib.nullcontext()
        with last:
            waiting = self._still_waiting([entry])
            return self._end(self._begin(waiting, 1), faults) if waiting else 0

    def _end(self, run: _SlowRun, faults: list[EvaluationFault]) -> int:
        for entry in run.entries:
            entry.is_running = False
        try:
            if run.is_void:
                run.evaluation.leave()
                self.rounds.forget(run.evaluation)
                return 0
            committed = self.rounds.end_slow(run.evaluation)
        except StoreError:
            raise
        except EvaluatorUnavailable as error:
            _log.warning("%s; %d messages wait for it", error, len(self._entries))
            self._not_before = time.monotonic() + PAUSE_SECONDS
            return 0
        except Exception as error:
            faults.append(EvaluationFault([entry.message for entry in run.entries], error))
            self._remove(run.entries)
            return 0
        for entry, outcome in zip(run.entries, run.evaluation.outcomes, strict=True):
            self._learn(entry, outcome, run)
            if outcome is not None and outcome.deferred is None and entry.message.seq not in committed:
                entry.losses += 1
        self._remove([entry for entry in run.entries if entry.message.seq in committed])
        return len(committed)

    def _learn(self, entry: _Entry, outcome: Outcome | None, run: _SlowRun) -> None:
        """Adapt what is known about the queue of a message to how long it took."""
        if outcome is None:
            return
        queue, seconds = entry.message.queue, run.evaluation.seconds
        failed = {error.rule for error in outcome.errors if error.code == NOT_EVALUATED and error.kind == "systemError"}
        if outcome.deferred is not None:
            entry.is_slow = True
            self.suspected[queue] = _Suspicion(long=self._suspect(queue).long)
        elif outcome.lost is not None or failed:
            self.suspected[queue] = _Suspicion()
            for name, plan in self.plan.queues.items():  # a rule may be for many queues
                if not failed.isdisjoint([rule.rule.name for rule in plan.rules]):
                    self._suspect(name)
        elif run.is_sifting or seconds < PATIENCE_SECONDS:
            self._note_quick(entry)
        else:
            fitting = int(len(run.entries) * LONG_SECONDS / seconds)
            at_once = max(1, min(fitting, 2 * len(run.entries)))
            self.suspected[queue] = _Suspicion(long=self._suspect(queue).long + 1, at_once=at_once)

    def _note_quick(self, entry: _Entry) -> None:
        queue = entry.message.queue
        suspicion = self.suspected.get(queue)
        if suspicion is None:
            return
        suspicion.long = 0
        suspicion.quick += 1
        if suspicion.quick >= QUICK_MAX and not self._has_slow(queue, but=entry):
            del self.suspected[queue]

    def _has_slow(self, queue: str, but: _Entry) -> bool:
        return any([e.is_slow and e is not but and e.message.queue == queue for e in self._entries.values()])

    def _remove(self, entries: Sequence[_Entry]) -> None:
        for entry in entries:
            del self._entries[entry.message.seq]
        self._blocked.clear()  # those that waited for others are found again
        self._hold()

    def _hold(self) -> None:
        held: dict[SliceKey, Order] = {}
        for entry in self._entries.values():
            for key in entry.message.slices:
                held[key] = min(held.get(key, entry.order), entry.order)
        self.rounds.validator.held = held

    # the end

    def start_anew(self) -> None:
        """Discard the evaluations that are running: something has changed that validation does not see."""
        for run in self._runs.values():
            run.is_void = True

    def drop(self, is_gone: Callable[[StoredMessage], bool]) -> None:
        """Forget some messages: they stay in the store, or were removed. What is running is discarded."""
        self.start_anew()
        for seq in [seq for seq, entry in self._entries.items() if is_gone(entry.message)]:
            del self._entries[seq]
        self._blocked.clear()
        self._hold()

    def leave(self) -> None:
        """Forget all messages after the lanes have ended: they are in the store."""
        for run in self._runs.values():
            self.rounds.forget(run.evaluation)
        self._runs.clear()
        self._entries.clear()

    def __iter__(self) -> Iterator[StoredMessage]:
        """Yield the messages that are here, in the serial order."""
        yield from [e.message for e in sorted(self._entries.values(), key=lambda entry: entry.order)]
