"""Process messages: pick the next ones, evaluate their rules, commit what they do, in the order of a serial run."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from demaq.compiler.plan import Plan
from demaq.documents import Document, parse_document
from demaq.errors import MessageError
from demaq.language.program import SYSTEM_ERRORS
from demaq.messages import PropertyValue
from demaq.rounds.evaluator import Evaluator
from demaq.rounds.outcomes import Enqueued, Outcome, SliceReset
from demaq.scheduler.conflicts import Changes
from demaq.scheduler.durations import due_at
from demaq.scheduler.error_messages import SYSTEM, Failure, error_body, level_property, route
from demaq.scheduler.reading import Documents, SnapshotReader, index_name
from demaq.store.protocol import Committed, NewMessage, Step, Store, StoredMessage, Timer

ROUND_MESSAGES_MAX = 500
AGAIN_MESSAGES_MAX = 50
"""So many outcomes that no longer hold are evaluated again at once: the next one of them will hold for sure."""
TIMERS_MAX = 500
HOPS_MAX = 10_000

_TRANSPORT = ("demaq:arrived", "demaq:sender", "demaq:connection", "demaq:contentType", "demaq:header.")


@dataclass(slots=True)
class _Evaluated:
    """A message, what its rules would do, and what has changed since they were asked."""

    message: StoredMessage
    outcome: Outcome
    since: Changes

    def is_stale(self) -> bool:
        return self.since.invalidate(self.message, self.outcome.reads)


class Engine:
    """One program on one store. Whoever calls it decides when; it decides what."""

    def __init__(
        self,
        plan: Plan,
        evaluator: Evaluator,
        store: Store,
        clock: Callable[[], datetime],
        hops_max: int = HOPS_MAX,
        observe: Callable[[Sequence[Step], Sequence[Committed]], None] | None = None,
    ) -> None:
        self.plan = plan
        self.program = plan.program
        self.evaluator = evaluator
        self.store = store
        self.clock = clock
        self.hops_max = hops_max
        self._observe = observe
        self.skipped_errors = 0
        """Errors about messages of the system's own error queue, which have nowhere left to go."""
        self._documents = Documents()
        self._open: list[Changes] = []
        """What has changed since the evaluations of the current round: one for each time messages were evaluated."""
        self._rules = {rule.name: rule for rule in self.program.rules}
        store.reprioritise({queue: self.priority(queue) for queue in self.program.queues})

    # from outside

    def enqueue(
        self,
        queue: str,
        body: bytes | str,
        properties: Mapping[str, PropertyValue] | None = None,
        request: str | None = None,
    ) -> int:
        """Store a message from outside. Raises a MessageError where it must be refused; durable on return."""
        return self.store.append([self.received(queue, body, properties, request)])[0]

    def received(
        self,
        queue: str,
        body: bytes | str,
        properties: Mapping[str, PropertyValue] | None = None,
        request: str | None = None,
    ) -> NewMessage:
        """A message from outside, checked and ready to be stored. Raises a MessageError where it must be refused."""
        if queue not in self.program.queues:
            raise MessageError("enqueueError", f"there is no queue {queue}")
        now = self.clock()
        received = self.evaluator.receive(queue, parse_document(body), properties or {}, now)
        return self._new(queue, received.document, received.properties, received.entries, now, request=request)

    # rounds

    def run_round(self) -> int:
        """Process the next messages; the answer is how many. None are left when it is 0."""
        pending = self.store.pending(ROUND_MESSAGES_MAX)
        if not pending:
            return 0
        priority = self.priority(pending[0].queue)
        batch = [message for message in pending if self.priority(message.queue) == priority]
        self._open.clear()
        return self._process(deque(self._evaluated(batch)), priority)

    def _evaluated(self, batch: Sequence[StoredMessage]) -> list[_Evaluated]:
        """Messages with their outcomes on the newest snapshot."""
        reader = SnapshotReader(self.store, self.store.snapshot(), self._documents)
        messages = [self._documents.message(message) for message in batch]
        outcomes = self.evaluator.evaluate(messages, reader, self.clock())
        since = Changes(self.plan)
        self._open.append(since)
        return [_Evaluated(m, outcome, since) for m, outcome in zip(batch, outcomes, strict=True)]

    def _process(self, waiting: deque[_Evaluated], priority: int | None) -> int:
        """Commit outcomes in order. One that no longer holds is evaluated again, with its neighbours that do not."""
        done = 0
        steps: list[Step] = []
        while waiting:
            if waiting[0].is_stale():
                self._commit(steps)
                steps = []
                waiting.extendleft(reversed(self._evaluated_again(waiting)))
            head = waiting.popleft()
            while self._open and (not waiting or self._open[-1] is not waiting[0].since):
                self._open.pop()  # nobody evaluated then is still waiting
            step = self._step(head.message, head.outcome, self.clock())
            steps.append(step)
            done += 1
            for since in self._open:
                since.add(head.message, step)
            if any([created.priority is not None and created.priority > (priority or 0) for created in step.created]):
                break  # what is more urgent comes before the rest of the round
        self._commit(steps)
        return done

    def _evaluated_again(self, waiting: deque[_Evaluated]) -> list[_Evaluated]:
        """Take the outcomes that no longer hold off the front, and ask again as things are now."""
        stale = [waiting.popleft()]
        while waiting and len(stale) < AGAIN_MESSAGES_MAX and waiting[0].is_stale():
            stale.append(waiting.popleft())
        current = [self.store.message(item.message.seq) for item in stale]
        return self._evaluated([message for message in current if message is not None])

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
            return Step(processed=message.seq, created=tuple(self.error_messages(lost, message, now)))
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
                created.append(self._made(action, message, now))
        for failure in failures:
            created += self.error_messages(failure, message, now)
        return Step(processed=message.seq, resets=tuple(resets), created=tuple(created))

    def _too_many_hops(self, outcome: Outcome) -> list[Failure]:
        rules = dict.fromkeys([action.rule for action in outcome.actions if isinstance(action, Enqueued)])
        description = f"the message is {self.hops_max:,} hops from the one that caused it"
        return [
            Failure(kind="systemError", code="demaq:hops", description=description, rule=self._rules[name])
            for name in rules
        ]

    def _made(self, action: Enqueued, trigger: StoredMessage, now: datetime) -> NewMessage:
        return self._new(
            action.queue, action.document, action.properties, action.entries, now, rule=action.rule, trigger=trigger
        )

    def error_messages(self, failure: Failure, message: StoredMessage, now: datetime) -> list[NewMessage]:
        """The message about a failure, if anybody may hear of it."""
        target = route(self.program, failure.rule, message)
        if target is None:
            self.skipped_errors += 1
            return []
        document = Document(error_body(failure, message, now))
        queue, level = target.queue, target.level
        properties: dict[str, PropertyValue] = {}
        entries: tuple[tuple[int, str], ...] = ()
        while True:
            try:
                received = self.evaluator.receive(queue, document, {}, now, inherited=message.properties)
                properties, entries = dict(received.properties), received.entries
            except MessageError:  # an error queue that does not take the error: the system's takes everything
                if queue != SYSTEM_ERRORS:
                    queue, level = SYSTEM_ERRORS, SYSTEM
                    continue
            break
        properties |= level_property(level)
        rule = failure.rule.name if failure.rule is not None else None
        return [self._new(queue, document, properties, entries, now, rule=rule, trigger=message)]

    # clients

    def take(self, queue: str, limit: int = 1) -> list[StoredMessage]:
        """Hand the oldest messages of a mailbox to a client: in one transaction they are his and processed."""
        declared = self.program.queues.get(queue)
        if declared is None:
            raise MessageError("enqueueError", f"there is no queue {queue}")
        if self.priority(queue) is not None:
            raise MessageError("enqueueError", f"queue {queue} has rules, which process its messages")
        if declared.kind in ("echo", "outgoingGateway"):
            raise MessageError("enqueueError", f"queue {queue} is no mailbox: the system itself takes its messages")
        waiting = [m for m in self.store.queue(queue, self.store.snapshot()) if m.processed is None][:limit]
        self._commit([Step(processed=message.seq) for message in waiting])
        return waiting

    # timers

    def fire_timers(self) -> int:
        """Bring back the messages whose time has come; the answer is how many."""
        now = self.clock()
        due = self.store.due_timers(now, TIMERS_MAX)
        self._commit([self._echo(message, now) for message in due])
        return len(due)

    def _echo(self, message: StoredMessage, now: datetime) -> Step:
        assert message.timer is not None, "only timers fire"
        document = self._documents.of(message)
        inherited = {k: v for k, v in message.properties.items() if k not in ("timeout", "target")}
        try:
            received = self.evaluator.receive(message.timer.target, document, {}, now, inherited=inherited)
        except MessageError as error:
            rule = self._rules.get(message.rule or "")
            failure = Failure(kind=error.kind, code=error.code, description=error.message, rule=rule)
            return Step(fired=message.seq, created=tuple(self.error_messages(failure, message, now)))
        created = self._new(message.timer.target, document, received.properties, received.entries, now, trigger=message)
        return Step(fired=message.seq, created=(created,))

    # messages in the making

    def priority(self, queue: str) -> int | None:
        """A queue's priority; None where nobody processes its messages: no rule pertains to it, or it is a timer."""
        declared = self.program.queues[queue]
        return declared.priority if self.plan.queues[queue].rules and declared.kind != "echo" else None

    def _new(
        self,
        queue: str,
        document: Document,
        properties: Mapping[str, PropertyValue],
        entries: Sequence[tuple[int, str]],
        now: datetime,
        rule: str | None = None,
        trigger: StoredMessage | None = None,
        request: str | None = None,
    ) -> NewMessage:
        declared = self.program.queues[queue]
        known = dict(properties)
        if trigger is not None:
            transport = {k: v for k, v in trigger.properties.items() if k.startswith(_TRANSPORT)}
            known = {**transport, **known}
        timer = None
        if declared.kind == "echo":
            timer = Timer(due=due_at(known["timeout"], now), target=known["target"].text)
        return NewMessage(
            queue=queue,
            body=document.text,
            properties=known,
            created=now,
            rule=rule,
            trigger=trigger.seq if trigger is not None else None,
            origin=trigger.origin if trigger is not None else None,
            hops=trigger.hops + 1 if trigger is not None else 0,
            priority=self.priority(queue),
            slices=self._slices(queue, known),
            entries=tuple([(index_name(self.plan.indexes[number - 1]), value) for number, value in entries]),
            timer=timer,
            transient=declared.mode == "transient",
            undelivered=declared.kind == "outgoingGateway",
            request=request,
        )

    def _slices(self, queue: str, properties: Mapping[str, PropertyValue]) -> tuple[tuple[str, str], ...]:
        found: list[tuple[str, str]] = []
        for slicing in self.program.slicings_of(queue):
            value = properties.get(slicing.property)
            if value is not None:
                found.append((slicing.name, value.key))
        return tuple(found)

    # garbage

    def collect_garbage(self, keep: timedelta = timedelta(0), limit: int = 1000) -> int:
        """Remove some of the messages that retired longer ago than the audit period; the answer is how many."""
        return self.store.collect_garbage(self.clock() - keep, limit)
