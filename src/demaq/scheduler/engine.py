"""Process messages: pick the next ones, evaluate their rules, commit what they do, in the order of a serial run."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from demaq.compiler.plan import Plan
from demaq.documents import parse_document
from demaq.errors import AlreadyProcessed, EvaluatorUnavailable, MessageError, StoreError, SystemFault
from demaq.messages import PropertyValue
from demaq.rounds.evaluator import Evaluator
from demaq.rounds.outcomes import Enqueued, Outcome, SliceReset
from demaq.scheduler.conflicts import Changes
from demaq.scheduler.error_messages import Failure
from demaq.scheduler.intake import Arrivals, expect_queue
from demaq.scheduler.making import Maker
from demaq.scheduler.reading import Documents, SnapshotReader
from demaq.store.protocol import Committed, NewMessage, Step, Store, StoredMessage

ROUND_MESSAGES_FIRST = 50
ROUND_MESSAGES_MAX = 500
ROUND_SECONDS = 1.0
"""Rounds are made as large as can be evaluated in about this time."""
AGAIN_MESSAGES_MAX = 50
"""So many outcomes that no longer hold are evaluated again at once: the next one of them will hold for sure."""
LOSSES_MAX = 2
"""After so many evaluations in vain nobody may change anything while a message is evaluated."""
TIMERS_MAX = 500
HOPS_MAX = 10_000
ATTEMPTS_MAX = 5
"""A message whose processing fails so often for reasons of the system is parked."""


class _View:
    """A snapshot that messages were evaluated on, by what has changed since: by rules, and by senders and clients."""

    def __init__(self, plan: Plan) -> None:
        self.inside = Changes(plan)
        self.outside = Changes(plan)


@dataclass(slots=True)
class _Evaluated:
    """A message, what its rules would do, and what they have seen."""

    message: StoredMessage
    outcome: Outcome
    view: _View
    losses: int = 0
    """How often it was evaluated in vain before."""

    def is_stale(self) -> bool:
        if self.view.inside.invalidate(self.message, self.outcome.reads):
            return True
        # A reset is about all messages of a slice: those that arrived meanwhile must have been seen.
        resets = [(action.slicing, action.key) for action in self.outcome.actions if isinstance(action, SliceReset)]
        return bool(resets) and self.view.outside.touch_slices(resets)


class Engine:
    """One program on one store. Whoever calls it decides when; it decides what.

    Rounds and timers are one caller's; senders and clients may call at any time from other threads.
    """

    def __init__(
        self,
        plan: Plan,
        evaluator: Evaluator,
        store: Store,
        clock: Callable[[], datetime],
        hops_max: int = HOPS_MAX,
        observe: Callable[[Sequence[Step], Sequence[Committed]], None] | None = None,
        receiver: Evaluator | None = None,
    ) -> None:
        """`receiver` checks what arrives; without one the evaluator of the rounds does it, and senders wait for it."""
        self.plan = plan
        self.program = plan.program
        self.evaluator = evaluator
        self.store = store
        self.clock = clock
        self.hops_max = hops_max
        self.maker = Maker(plan, evaluator)
        self.round_messages_max = ROUND_MESSAGES_MAX
        self._round_messages = ROUND_MESSAGES_FIRST
        self._receiver = receiver or evaluator
        self._observe = observe
        self._documents = Documents()
        self._arrivals = Arrivals(self._append)
        self._changing = threading.RLock()
        """Held by whoever changes what rules may see, and while it is looked whether outcomes still hold."""
        self._views: list[_View] = []
        """Of the current round: one for each time messages were evaluated."""
        self._attempts: dict[int, int] = {}
        """Messages that were there when a round failed, with how often they have failed alone."""
        self._rules = {rule.name: rule for rule in self.program.rules}

    # from outside

    def enqueue(
        self,
        queue: str,
        body: bytes | str,
        properties: Mapping[str, PropertyValue] | None = None,
        request: str | None = None,
    ) -> int:
        """Store a message from outside. Raises a MessageError where it must be refused; durable on return."""
        return self._arrivals.append(self.received(queue, body, properties, request))

    def received(
        self,
        queue: str,
        body: bytes | str,
        properties: Mapping[str, PropertyValue] | None = None,
        request: str | None = None,
    ) -> NewMessage:
        """A message from outside, checked and ready to be stored. Raises a MessageError where it must be refused."""
        expect_queue(self.program, queue)
        now = self.clock()
        received = self._receiver.receive(queue, parse_document(body), properties or {}, now)
        return self.maker.new(queue, received.document, received.properties, received.entries, now, request=request)

    def _append(self, messages: Sequence[NewMessage]) -> list[int]:
        with self._changing:
            numbers = self.store.append(messages)
            for view in self._views:
                view.outside.add_messages(messages)
        return numbers

    def take(self, queue: str, limit: int = 1) -> list[StoredMessage]:
        """Hand the oldest messages of a mailbox to a client: in one transaction they are his and processed."""
        expect_queue(self.program, queue)
        declared = self.program.queues[queue]
        if self.maker.priority(queue) is not None:
            raise MessageError("enqueueError", f"queue {queue} has rules, which process its messages")
        if declared.kind in ("echo", "outgoingGateway"):
            raise MessageError("enqueueError", f"queue {queue} is no mailbox: the system itself takes its messages")
        with self._changing:
            waiting = self.store.waiting(queue, limit)
            steps = [Step(processed=message.seq) for message in waiting]
            self._commit(steps)
            for view in self._views:
                for message, step in zip(waiting, steps, strict=True):
                    view.outside.add(message, step)
        return waiting

    # rounds

    def run_round(self) -> int:
        """Process the next messages; the answer is how many. None are left when it is 0.

        What is the system's fault and no message's is raised as it is. Otherwise the messages of a round that fails
        are tried one at a time; each failure raises a SystemFault, for the caller to wait before he tries again, until
        a message has failed too often and is parked.
        """
        batch = self._next_batch()
        try:
            return self._process(batch) if batch else 0
        except AlreadyProcessed as fault:
            return self._one_by_one(batch, fault)
        except (StoreError, EvaluatorUnavailable):
            raise
        except Exception as fault:
            return self._one_by_one(batch, fault)
        finally:
            self._views.clear()

    def _next_batch(self) -> list[StoredMessage]:
        """The next messages of one priority; one that was there when a round failed comes alone."""
        batch: list[StoredMessage] = []
        for message in self.store.pending(min(self._round_messages, self.round_messages_max)):
            if message.queue not in self.program.queues:
                continue  # of another program: nobody here knows what to do with it
            if batch and self.maker.priority(message.queue) != self.maker.priority(batch[0].queue):
                break
            if message.seq in self._attempts:
                return batch or [message]
            batch.append(message)
        return batch

    def _process(self, batch: Sequence[StoredMessage]) -> int:
        """Commit outcomes in order. One that no longer holds is evaluated again, with its neighbours that do not."""
        done = 0
        started = time.perf_counter()
        waiting = deque(self._evaluated(batch))
        self._adapt(len(batch), time.perf_counter() - started)
        priority = self.maker.priority(batch[0].queue) or 0
        while True:
            with self._changing:
                if waiting[0].losses >= LOSSES_MAX:
                    waiting.extendleft(self._evaluated_again(waiting, limit=1))
                steps, urgent = self._steps_that_hold(waiting, priority)
                self._commit(steps)
            done += len(steps)
            if urgent or not waiting:
                return done
            if waiting[0].losses < LOSSES_MAX:
                waiting.extendleft(reversed(self._evaluated_again(waiting, AGAIN_MESSAGES_MAX)))

    def _evaluated(self, batch: Sequence[StoredMessage]) -> list[_Evaluated]:
        """Messages with their outcomes on the newest snapshot."""
        with self._changing:
            snapshot = self.store.snapshot()
            for view in self._views:
                view.inside.include(view.outside)  # others will have seen it
            view = _View(self.plan)
            self._views.append(view)
        reader = SnapshotReader(self.store, snapshot, self._documents)
        messages = [self._documents.message(message) for message in batch]
        outcomes = self.evaluator.evaluate(messages, reader, self.clock())
        return [_Evaluated(message, outcome, view) for message, outcome in zip(batch, outcomes, strict=True)]

    def _adapt(self, messages: int, seconds: float) -> None:
        """Slow rules make small rounds, so that nobody waits long for the end of one; quick rules make large ones."""
        fitting = int(messages * ROUND_SECONDS / max(seconds, 1e-6))
        self._round_messages = max(1, min(fitting, 2 * self._round_messages, ROUND_MESSAGES_MAX))

    def _steps_that_hold(self, waiting: deque[_Evaluated], priority: int) -> tuple[list[Step], bool]:
        """The steps from the front up to an outcome that no longer holds, or up to where something is more urgent."""
        steps: list[Step] = []
        while waiting and not waiting[0].is_stale():
            head = waiting.popleft()
            while self._views and (not waiting or self._views[-1] is not waiting[0].view):
                self._views.pop()  # nobody evaluated then is still waiting
            step = self._step(head.message, head.outcome, self.clock())
            steps.append(step)
            self._attempts.pop(head.message.seq, None)
            for view in self._views:
                view.inside.add(head.message, step)
            if any([created.priority is not None and created.priority > priority for created in step.created]):
                return steps, True
        return steps, False

    def _evaluated_again(self, waiting: deque[_Evaluated], limit: int) -> list[_Evaluated]:
        """Take outcomes that no longer hold off the front, and ask again as things are now."""
        stale = [waiting.popleft()]
        while waiting and len(stale) < limit and waiting[0].is_stale():
            stale.append(waiting.popleft())
        current: list[StoredMessage] = []
        for item in stale:
            message = self.store.message(item.message.seq)
            assert message is not None, "an unprocessed message is never removed"
            current.append(message)
        again = self._evaluated(current)
        for item, before in zip(again, stale, strict=True):
            item.losses = before.losses + 1
        return again

    def _commit(self, steps: Sequence[Step]) -> None:
        if not steps:
            return
        committed = self.store.commit(steps)
        if self._observe is not None:
            self._observe(steps, committed)

    def _step(self, message: StoredMessage, outcome: Outcome, now: datetime) -> Step:
        failures = [
            Failure(kind=e.kind, code=e.code, description=e.description, rule=self._rules[e.rule], at=e.at)
            for e in outcome.errors
        ]
        if outcome.lost is not None:
            lost = Failure(kind="systemError", code="demaq:notEvaluated", description=outcome.lost, rule=None)
            return Step(processed=message.seq, created=tuple(self.maker.errors(lost, message, now)))
        if message.hops >= self.hops_max:
            failures += self._too_many_hops(outcome)
        failed = {failure.rule.name for failure in failures if failure.rule is not None}
        created: list[NewMessage] = []
        resets: dict[tuple[str, str], None] = {}
        for action in outcome.actions:
            if action.rule in failed:
                continue
            if isinstance(action, SliceReset):
                resets[(action.slicing, action.key)] = None
            else:
                created.append(self.maker.enqueued(action, message, now))
        for failure in failures:
            created += self.maker.errors(failure, message, now)
        return Step(processed=message.seq, resets=tuple(resets), created=tuple(created))

    def _too_many_hops(self, outcome: Outcome) -> list[Failure]:
        rules = dict.fromkeys([action.rule for action in outcome.actions if isinstance(action, Enqueued)])
        description = f"the message is {self.hops_max:,} hops from the one that caused it"
        return [
            Failure(kind="systemError", code="demaq:hops", description=description, rule=self._rules[name])
            for name in rules
        ]

    # faults of the system

    def _one_by_one(self, batch: Sequence[StoredMessage], fault: Exception) -> int:
        """A round has failed: what is left of it is tried one message at a time, and given up after some attempts."""
        left = [message for message in batch if not self._is_processed(message.seq)]
        if not left:
            raise fault
        for message in left:
            self._attempts.setdefault(message.seq, 0)
        if len(batch) > 1:
            return len(batch) - len(left) or self.run_round()
        message = batch[0]
        attempt = self._attempts[message.seq] = self._attempts[message.seq] + 1
        description = f"{type(fault).__name__}: {fault}"
        if attempt < ATTEMPTS_MAX:
            raise SystemFault(f"processing message {message.seq} failed, attempt {attempt}: {description}") from fault
        failure = Failure(kind="systemError", code="demaq:parked", description=description, rule=None, attempt=attempt)
        with self._changing:
            parked = self.maker.parked(failure, message, self.clock())
            self._commit([Step(processed=message.seq, created=tuple(parked))])
        del self._attempts[message.seq]
        return 1

    def _is_processed(self, seq: int) -> bool:
        stored = self.store.message(seq)
        return stored is None or stored.processed is not None

    # timers

    def fire_timers(self) -> int:
        """Bring back the messages whose time has come; the answer is how many."""
        now = self.clock()
        due = self.store.due_timers(now, TIMERS_MAX)
        steps = [
            Step(fired=message.seq, created=tuple(self.maker.echoed(message, self._documents.of(message), now)))
            for message in due
        ]
        with self._changing:
            self._commit(steps)
        return len(due)

    # garbage

    def collect_garbage(self, keep: timedelta = timedelta(0), limit: int = 1000) -> int:
        """Remove some of the messages that retired longer ago than the audit period; the answer is how many."""
        return self.store.collect_garbage(self.clock() - keep, limit)
