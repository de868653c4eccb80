"""The engine: select the next messages, have their rules evaluated in rounds, commit the results in the serial order.

Invariants: a message is processed exactly once, since its step and everything the step creates are one transaction; all
of what a step creates is in the store, or nothing; errors of rules are messages, so a step is committed in any case.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TypeVar

from demaq.batching import ThreadBatcher
from demaq.compiler.plan import Plan
from demaq.engine.arrivals import Arrivals
from demaq.engine.delivery import Deliveries, Ended
from demaq.engine.error_routing import Failure, make_hops_failure
from demaq.engine.intake import (
    IncomingMessage,
    expect_all_repeated,
    expect_queue,
    expect_repeated,
    make_incoming,
    mark_new,
)
from demaq.engine.message_factory import MessageFactory
from demaq.engine.namespace_watch import NamespaceWatch
from demaq.engine.pauses import Pauses
from demaq.engine.pending_reader import PendingReader
from demaq.engine.round import SEQS_PER_MESSAGE, SERIAL, Evaluation, RoundPolicy, Rounds
from demaq.engine.rule_counts import RuleCounts
from demaq.engine.slow_messages import SlowLane, SlowMessages
from demaq.engine.step_spans import StepSpans
from demaq.errors import AlreadyProcessed, EvaluatorUnavailable, MessageError, StoreError, SystemFault
from demaq.evaluation.arrival_request import ArrivalPool
from demaq.evaluation.outcomes import Enqueued, Folded, Outcome, SliceReset
from demaq.evaluation.quick_evaluator import QuickEvaluator
from demaq.evaluation.round_request import PropertyEvaluator, RoundEvaluator
from demaq.evaluation.state.snapshot_reader import Documents
from demaq.evaluation.workers.receiver import Receiver
from demaq.span_recorder import SpanRecorder
from demaq.store.operator_records import AuditRecord, Pause
from demaq.store.protocol import Committed, NewMessage, SequenceChanges, Step, Store, StoredMessage
from demaq.store.request_names import digest_of, has_digest, make_request

T = TypeVar("T")

ROUND_MESSAGES_FIRST = 50
ROUND_MESSAGES_LEAST = 25
"""A round is not divided into smaller ones than this to evaluate several at once."""
ROUND_SECONDS = 1.0
"""The size of rounds adapts so that one takes about this long to evaluate."""
ROUND_CHARACTERS_MAX = 32_000_000
"""Limit of the total size of the bodies of a round; one message may exceed it."""
PENDING_MESSAGES_FIRST = 200
"""Messages in the first read of a round, before their average size is known."""
PAGES_MAX = 100
"""Reads for one round at most, since most messages may have to wait for slow ones."""
TIMERS_MAX = 500
HOPS_MAX = 10_000
TAKEN_MAX = 1_000_000_000
AGAIN_SHARE_MAX = 0.2
ROUNDS_ALONE = 10
"""If more than this share of a round had to be evaluated again, the next ROUNDS_ALONE rounds do not run ahead."""
ATTEMPTS_MAX = 5
"""A message whose processing fails so often because of a system fault is parked in an error queue."""


class Engine:
    """One program on one store.

    Rounds and timers are run by one thread; senders and clients may call from any thread at any time.
    """

    def __init__(
        self,
        plan: Plan,
        evaluator: RoundEvaluator,
        store: Store,
        clock: Callable[[], datetime],
        hops_max: int = HOPS_MAX,
        observe: Callable[[Sequence[Step], Sequence[Committed]], None] | None = None,
        *,
        receiver: PropertyEvaluator,
        policy: RoundPolicy = SERIAL,
        lanes: Sequence[SlowLane] = (),
        wake: Callable[[], None] = lambda: None,
        native: bool = True,
        arrivals: ArrivalPool | None = None,
        quick: QuickEvaluator | None = None,
        is_running: Callable[[], bool] = lambda: True,
    ) -> None:
        """`receiver` computes the properties of messages that no rule made. `observe` is called with each commit.

        `lanes` evaluate what the evaluator of the rounds defers, at least two if it does. `wake` is called, from other
        threads, when a round is to be run because of that, or timers are to be looked at, or a round is to be run,
        because of what a message has led to on arrival. Without `native` the receiver is asked about everything that
        arrives. `arrivals` evaluates messages before they are stored, if the policy says so and while `is_running`;
        `quick` does so without a worker where it can.
        """
        self.policy = policy
        self._begun: deque[Evaluation] = deque()
        """Rounds that were begun and have not ended, in order."""
        self._is_last = False
        """Whether no message waits after those of the rounds that were begun, as far as is known."""
        self._rounds_alone = 0
        """How many rounds still do not run ahead, after AGAIN_SHARE_MAX was exceeded."""
        self.plan = plan
        self.program = plan.program
        self.evaluator = evaluator
        self.store = store
        self.clock = clock
        self.hops_max = hops_max
        self.factory = MessageFactory(plan, receiver, native)
        self.round_messages_max: int | None = None
        """A lower limit for the messages of a round than the evaluator has."""
        self.round_messages_least = ROUND_MESSAGES_LEAST
        self._round_messages = ROUND_MESSAGES_FIRST
        self.receiver = receiver
        self.quick_receiver = receiver.quick if isinstance(receiver, Receiver) else self.receiver
        """The same for many senders at once: returns TakesLong for a message that would delay the others."""
        self._observe = observe
        self._documents = Documents()
        self._appends = ThreadBatcher(self._append)
        self._fusing = ThreadBatcher(self._receive_at_once)
        self._deliveries = Deliveries(self.factory)
        self._attempts: dict[int, int] = {}
        """Messages of rounds that failed, with how often each has failed alone."""
        self._rules = {rule.name: rule for rule in self.program.rules}
        self.namespaces = NamespaceWatch(plan)
        self.rule_counts = RuleCounts(self._rules)
        self._rounds = Rounds(evaluator, self.factory, store, clock, self._step, self._commit, hops_max)
        self.slow_messages = SlowMessages(self._rounds, lanes, plan, wake)
        """Messages that take long, which are not evaluated in rounds."""
        self.arrivals = Arrivals(
            self._rounds,
            self.factory,
            arrivals,
            store,
            lambda: self.policy,
            self._commit_arrived,
            lambda: is_running() and not self._attempts,
            self.namespaces,
            self.rule_counts,
            wake,
            quick,
        )
        self._wants_turn = True
        """Whether there is something new for the thread that runs rounds and timers."""
        self._wake = wake
        priorities = [self.factory.priority(queue) for queue in self.program.queues]
        self._pending_reader = PendingReader(store, [each for each in priorities if each is not None])
        self.pauses = Pauses(plan)
        """What operators have paused."""
        self.set_pauses(store.pauses())

    # senders and clients

    def enqueue(
        self,
        queue: str,
        body: bytes | str,
        properties: Mapping[str, str] | None = None,
        request: str | None = None,
    ) -> int:
        """Store a message from outside; durable on return. Raises a MessageError if it must be refused.

        A message under a known `request` is not stored again; it is refused if its content is different.
        """
        incoming = _name_request(queue, IncomingMessage(body, properties or {}, request))
        found = self._fusing.submit((queue, incoming)) if self.arrivals.is_possible else None
        if isinstance(found, MessageError):
            raise found
        if found is None:
            found = self._appends.submit(self.factory.receive(queue, incoming, self.clock()))
        expect_repeated(self.store, incoming.request)
        return found

    def _receive_at_once(self, sent: Sequence[tuple[str, IncomingMessage]]) -> list[int | MessageError | None]:
        """Store messages with the effects of their rules. Return their seqs; None for all if that is not possible."""
        evaluated = self.arrivals.evaluate(sent, self.clock(), may_share=True)
        if evaluated is None:
            return [None] * len(sent)
        numbers = evaluated.commit()
        return [
            each if isinstance(each, MessageError) else number
            for each, (number, _) in zip(evaluated.results, numbers, strict=True)
        ]

    def receive_all(self, queue: str, sent: Iterable[bytes | str | IncomingMessage]) -> list[NewMessage]:
        """Return messages ready to be stored. Raises a MessageError for the first one that must be refused."""
        messages: list[NewMessage] = []
        for result in self.factory.receive_all(queue, [make_incoming(each) for each in sent], self.clock()):
            if isinstance(result, MessageError):
                raise result
            messages.append(result)
        return messages

    def append(self, messages: Sequence[NewMessage]) -> list[int]:
        """Store messages, all or none. Return their seqs."""
        return self._append(messages)

    def append_checked(
        self, messages: Sequence[NewMessage], hear: Callable[[Sequence[int]], None] = lambda numbers: None
    ) -> list[bool]:
        """Store messages that were checked elsewhere, all or none. Return which are new.

        `hear` is called with their seqs before one can be processed.
        """
        sampler = self.factory.sampler
        chosen = messages if sampler is None else sampler.choose_checked(messages)
        return [is_new for _, is_new in self.append_numbered(chosen, hear)]

    def append_numbered(
        self,
        messages: Sequence[NewMessage],
        hear: Callable[[Sequence[int]], None] = lambda numbers: None,
        changes: SequenceChanges | None = None,
    ) -> list[tuple[int, bool]]:
        """Store messages that were checked elsewhere, all or none. Return the seq of each, and whether it is new.

        The changes of sequences are part of the same transaction, also if there are no messages.
        """
        with self._rounds.changing:
            last = self.store.snapshot()
            numbers = self._append(messages, changes)
            hear(numbers)
        return mark_new(numbers, last)

    def backlog(self, store: Store | None = None) -> int:
        """Return how many messages wait to be processed by rules: those of mailboxes and timers do not.

        With `store`, ask that one, which is the same store over another connection.
        """
        queues = self.program.queues
        counts = (store or self.store).counts().items()
        return sum([n for queue, (_, n) in counts if queue in queues and self.factory.priority(queue) is not None])

    def while_nothing_changes(self, act: Callable[[], T]) -> T:
        """Call a function while no message is stored or processed."""
        with self._rounds.changing:
            return act()

    def enqueue_all(self, queue: str, sent: Iterable[bytes | str | IncomingMessage]) -> list[int]:
        """Store messages from outside, all or none. Raises a MessageError for the first one that must be refused.

        A message under a known `request` is not stored again; it is refused if its content is different.
        """
        incoming = [_name_request(queue, make_incoming(each)) for each in sent]
        expect_all_repeated(self.store, [each.request for each in incoming])
        named = [(queue, each) for each in incoming]
        evaluated = self.arrivals.evaluate(named, self.clock(), may_share=True, in_order=True)
        if evaluated is None:
            return self._append(self.receive_all(queue, incoming))
        refusal = next((each for each in evaluated.results if isinstance(each, MessageError)), None)
        if refusal is not None:
            evaluated.drop()
            raise refusal
        return [number for number, _ in evaluated.commit()]

    def _append(self, messages: Sequence[NewMessage], changes: SequenceChanges | None = None) -> list[int]:
        with self._rounds.changing:
            try:
                return self.store.append(messages, changes)
            finally:
                self._rounds.note_arrived(messages)  # also where it is in doubt whether they were stored
                self._is_last = False
                self._wants_turn = True

    def take_wish(self) -> bool:
        """Return whether there may be something to do for the thread that runs rounds and timers, since the last call
        or because messages wait."""
        wanted, self._wants_turn = self._wants_turn, False
        return wanted or self._rounds.has_backlog

    def take(self, queue: str, limit: int = 1) -> list[StoredMessage]:
        """Process the oldest messages of a mailbox by handing them to a client, in one transaction. Return them."""
        expect_queue(self.program, queue)
        if not 0 <= limit <= TAKEN_MAX:
            raise ValueError(f"from 0 to {TAKEN_MAX} messages can be taken at once, not {limit}")
        pause = self.pauses.by_part.get(("queue", queue))
        if pause is not None:
            raise MessageError("enqueueError", f"queue {queue} is paused by {pause.who}: nothing is taken from it")
        declared = self.program.queues[queue]
        if self.factory.priority(queue) is not None:
            raise MessageError("enqueueError", f"queue {queue} has rules, which process its messages")
        if declared.kind in ("echo", "outgoingGateway"):
            raise MessageError("enqueueError", f"queue {queue} is no mailbox: the system itself takes its messages")
        with self._rounds.changing:
            waiting = self.store.waiting(queue, limit)
            try:
                self._commit([Step(processed=message.seq) for message in waiting])
            finally:
                self._rounds.note_taken(waiting)
        return waiting

    # rounds

    def run_round(self) -> int:
        """Process the next messages. Return how many; 0 if none are left.

        Raises StoreError and EvaluatorUnavailable as they are. If a round fails otherwise, its messages are processed
        one at a time; each failure raises a SystemFault, so that the caller waits before the next attempt, until the
        message has failed ATTEMPTS_MAX times and is parked.
        """
        done = self._finish_slow()
        while True:
            if not self._begun:
                self._begin()
            self.slow_messages.start()
            if not self._begun:
                return done
            done += self._run(self._begun.popleft())
            if done or not self._rounds.has_left_out:
                return done

    def _finish_slow(self) -> int:
        """Commit slow messages whose evaluation has ended."""
        if not self.slow_messages:
            return 0
        done, faults = self.slow_messages.finish()
        for fault in faults:
            done += self._one_by_one(fault.batch, fault.error)
        return done

    def _run(self, begun: Evaluation) -> int:
        try:
            try:
                done = self._rounds.end(begun, lambda: self._begin_ahead(begun.batch))
            finally:  # before anything is repaired, which reads what waits: what is apart already is left out of that
                self._defer()
            self._adapt(len(begun.batch), begun.seconds)
            if self._rounds.evaluated_again > len(begun.batch) * AGAIN_SHARE_MAX:
                self._rounds_alone = ROUNDS_ALONE
            return done
        except AlreadyProcessed as fault:
            return self._one_by_one(begun.batch, fault)
        except (StoreError, EvaluatorUnavailable):
            self.forget_ahead()
            raise
        except Exception as fault:
            return self._one_by_one(begun.batch, fault)

    def _defer(self) -> None:
        """Hand messages over that a round has left out because they take too long.

        No read that could fail comes before: their slices are held until they are handed over. One that was processed
        meanwhile is dropped before it is evaluated.
        """
        deferred, self._rounds.deferred = self._rounds.deferred, []
        if deferred:
            self.slow_messages.defer(deferred)
            self.slow_messages.start()

    def _begin(self) -> None:
        """Begin the next rounds, if any message waits; only those after the first one in the background."""
        batch, all_of_them = self._next_batch()
        if not batch:
            self._note_idle(all_of_them)
            return
        self._is_last = all_of_them
        first, *others = self._divide(batch, self._rounds_at_once())
        deep = all_of_them or not self.policy.exact
        self._begun.append(self._rounds.begin(first, deep, fold=self.policy.fold))
        for part in others:
            self._start(part)

    def _note_idle(self, is_empty: bool) -> None:
        """Record that no message waits for its rules, unless one has come meanwhile."""
        if is_empty and not self.slow_messages and self._rounds.has_backlog:
            with self._rounds.changing:
                self._rounds.has_backlog = bool(self._pending_reader.read(1, (), (), self._rounds.paused))

    def _begin_ahead(self, batch: Sequence[StoredMessage]) -> None:
        """Begin the rounds after the one with these messages."""
        if not self._may_run_ahead() or self._is_last:
            return
        if self._rounds_alone:
            self._rounds_alone -= 1
            return
        at_once = self._rounds_at_once()
        free = at_once - len(self._begun)
        if free > 0:
            begun = [message.seq for message in [*batch, *[m for each in self._begun for m in each.batch]]]
            following, self._is_last = self._pending(-(-self._round_messages * free // at_once), but=begun)
            for part in self._divide(following, free):
                self._start(part)

    def _may_run_ahead(self) -> bool:
        return self.policy.ahead and not self.policy.exact and not self._attempts

    def _rounds_at_once(self) -> int:
        """Return how many rounds may be evaluated at once now."""
        if not self._may_run_ahead() or self._rounds_alone:
            return 1
        return self.evaluator.rounds_max

    def _divide(self, batch: list[StoredMessage], parts: int) -> list[list[StoredMessage]]:
        """Return the messages of so many rounds, in order; of fewer if there are few messages."""
        size = max(self.round_messages_least, -(-len(batch) // parts))
        return [batch[start : start + size] for start in range(0, len(batch), size)]

    def _start(self, batch: Sequence[StoredMessage]) -> None:
        """Begin a round ahead, in the background."""
        begun = self._rounds.begin(batch, deep=True, fold=self.policy.fold)
        self._begun.append(begun)
        begun.start()

    def forget_ahead(self) -> None:
        """Discard evaluations that were begun: something has changed that validation does not see."""
        while self._begun:
            self._rounds.forget(self._begun.pop())
        self._is_last = False
        self.slow_messages.start_anew()

    def _next_batch(self) -> tuple[list[StoredMessage], bool]:
        """Return the next messages, and whether no others wait. A message of a failed round is returned alone."""
        pending, all_of_them = self._pending(self.round_messages_max or self._round_messages)
        if self._attempts:
            for position, message in enumerate(pending):
                if message.seq in self._attempts:
                    return pending[: max(position, 1)], False  # what it leads to is tried for itself
        return pending, all_of_them

    def _pending(self, limit: int, but: Sequence[int] = ()) -> tuple[list[StoredMessage], bool]:
        """Return the next messages within the limits of number and size, and whether no others wait."""
        found: list[StoredMessage] = []
        all_of_them = False
        asked = min(limit, PENDING_MESSAGES_FIRST)
        for _ in range(PAGES_MAX):
            if not asked or all_of_them:
                break
            left_out = [*but, *[message.seq for message in found], *self.slow_messages.left_out()]
            left_out_of = self.slow_messages.queues_left_out()
            more = self._pending_reader.read(asked, left_out, left_out_of, self._rounds.paused)
            found += self.slow_messages.admit(more)
            left = ROUND_CHARACTERS_MAX - sum([len(message.body) for message in found])
            if left <= 0:
                break
            all_of_them = len(more) < asked
            average = (ROUND_CHARACTERS_MAX - left) // max(1, len(found)) + 1
            asked = min(limit - len(found), max(1, left // average))
        # Messages of queues that this program does not have stay where they are.
        return [message for message in found if message.queue in self.program.queues], all_of_them

    def _adapt(self, messages: int, seconds: float) -> None:
        """Adapt the size of rounds to how long one takes."""
        fitting = int(messages * ROUND_SECONDS / max(seconds, 1e-6))
        self._round_messages = max(1, min(fitting, 2 * self._round_messages, self.evaluator.messages_max))

    def _commit(self, steps: Sequence[Step], changes: SequenceChanges | None = None) -> None:
        if not steps and changes is None:
            return
        committed = self._commit_counted(steps, changes)
        if self._observe is not None and steps:
            self._observe(steps, committed)

    def _commit_counted(self, steps: Sequence[Step], changes: SequenceChanges | None = None) -> list[Committed]:
        """Commit steps. Count and record what they do, unless that raises."""
        spans = self._rounds.spans
        try:
            committed = self.store.commit(steps, self.policy.elide, changes)
            self.rule_counts.count()
            if spans is not None:
                spans.record_noted()
            return committed
        finally:
            self.rule_counts.forget()
            if spans is not None:
                spans.forget_after(0)

    def record_spans(self, recorder: SpanRecorder) -> StepSpans:
        """Record spans of what is processed from now on."""
        self._rounds.spans = StepSpans(recorder, self.clock)
        return self._rounds.spans

    def _commit_arrived(
        self, passed: Sequence[Step], messages: Sequence[NewMessage], steps: Sequence[Step]
    ) -> list[int]:
        """Commit steps, store messages from outside and commit steps that may process them, in one transaction.

        Return the seqs of the messages.
        """
        self._is_last = False
        arrival = [Step(created=tuple(messages))] if messages else []
        try:
            committed = self._commit_counted([*passed, *arrival, *steps])
        except BaseException:
            self._wants_turn = True
            self._wake()
            raise
        numbers = committed.pop(len(passed)).created if arrival else ()
        if committed and self._observe is not None:
            self._observe([*passed, *steps], committed)
        if any([new.timer is not None for step in (*passed, *steps) for new in step.created]):
            self._wants_turn = True
            self._wake()
        return list(numbers)

    def _step(self, message: StoredMessage, outcome: Outcome, now: datetime, number: int) -> tuple[Step, list[int]]:
        """Return the step of an outcome, which will have this seq, and the position of the action that creates each of
        its messages; error messages come last and have none."""
        self._attempts.pop(message.seq, None)
        if outcome.folded is not None:
            self.rule_counts.add(outcome.fired)
            return self._folded(message, outcome, outcome.folded, now, number)
        if outcome.lost is not None:
            lost = Failure(kind="systemError", code="demaq:notEvaluated", description=outcome.lost, rule=None)
            return Step(processed=message.seq, created=tuple(self.factory.make_errors(lost, message, now))), []
        unmatched = not (outcome.fired or outcome.actions or outcome.errors)
        if unmatched:
            self.namespaces.note_ignored(message.queue, message.seq, message.body)
        failures = [
            Failure(kind=e.kind, code=e.code, description=e.description, rule=self._rules[e.rule], at=e.at)
            for e in outcome.errors
        ]
        if message.hops >= self.hops_max:
            failures += self._too_many_hops(outcome)
        failed = {failure.rule.name for failure in failures if failure.rule is not None}
        self.rule_counts.add(outcome.fired, failed)
        created: list[NewMessage] = []
        makers: list[int] = []
        resets: dict[tuple[str, str], None] = {}
        for position, action in enumerate(outcome.actions):
            if action.rule in failed:
                continue
            if isinstance(action, SliceReset):
                resets[(action.slicing, action.key)] = None
            else:
                created.append(self.factory.make_enqueued(action, message, now))
                makers.append(position)
        created += [error for failure in failures for error in self.factory.make_errors(failure, message, now)]
        step = Step(processed=message.seq, resets=tuple(resets), created=tuple(created), unmatched=unmatched)
        return step, makers

    def _folded(
        self, message: StoredMessage, outcome: Outcome, folded: Folded, now: datetime, number: int
    ) -> tuple[Step, list[int]]:
        """Return the step of a folded conversation. Its elided messages have the seqs after that of the step."""
        for queue in folded.unmatched:
            self.namespaces.count_ignored(queue)
        resets = [action for action in outcome.actions if isinstance(action, SliceReset)]
        created: list[NewMessage] = []
        for action, (maker, depth) in zip(outcome.actions[len(resets) :], folded.makers, strict=True):
            assert isinstance(action, Enqueued), "resets come first"
            if maker:
                given = action.queue, action.document.text, action.properties, action.entries, now, action.rule
                cause = number + maker, message.origin
                created.append(self.factory.make(*given, cause, hops=message.hops + depth + 1))
            else:
                created.append(self.factory.make_enqueued(action, message, now))
        step = Step(
            processed=message.seq,
            resets=tuple([(action.slicing, action.key) for action in resets]),
            created=tuple(created),
            elided=folded.messages * SEQS_PER_MESSAGE,
        )
        return step, list(range(len(resets), len(outcome.actions)))

    def _too_many_hops(self, outcome: Outcome) -> list[Failure]:
        rules = dict.fromkeys([action.rule for action in outcome.actions if isinstance(action, Enqueued)])
        return [make_hops_failure(self._rules[name], self.hops_max) for name in rules]

    # system faults

    def _one_by_one(self, batch: Sequence[StoredMessage], fault: Exception) -> int:
        """Process the messages of a failed round one at a time, and park one after ATTEMPTS_MAX attempts."""
        self.forget_ahead()
        with self._rounds.changing:  # steps may have been made and not committed
            self.rule_counts.forget()
            if self._rounds.spans is not None:
                self._rounds.spans.forget_after(0)
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
        with self._rounds.changing:
            parked = self.factory.make_parked(failure, message, self.clock())
            step = Step(processed=message.seq, created=tuple(parked))
            if self._rounds.spans is not None:
                self._rounds.spans.note_parked(message, step, attempt)
            self._commit([step])
        del self._attempts[message.seq]
        return 1

    def _is_processed(self, seq: int) -> bool:
        stored = self.store.message(seq)
        return stored is None or stored.processed is not None

    # timers

    def fire_timers(self) -> int:
        """Enqueue the messages of timers that are due. Return how many."""
        now = self.clock()
        due = self.store.due_timers(now, TIMERS_MAX, sorted(self._rounds.paused))
        steps = [
            Step(fired=message.seq, created=tuple(self.factory.make_echo(message, self._documents.of(message), now)))
            for message in due
        ]
        with self._rounds.changing:
            try:
                self._commit(steps)
                if self._rounds.spans is not None:
                    for message in due:
                        self._rounds.spans.record_timer(message)
            finally:  # also where it is in doubt whether they have fired
                self._rounds.note_taken(due)
                self._rounds.note_arrived([message for step in steps for message in step.created])
        return len(due)

    # gateways

    def deliver(self, ended: Sequence[Ended], changes: SequenceChanges | None = None) -> None:
        """Commit the results of deliveries, with the replies and errors that follow from them.

        The changes of sequences are part of the same transaction, also if no delivery has ended.
        """
        now = self.clock()
        steps = [self._deliveries.make_step(each, now) for each in ended]
        with self._rounds.changing:
            try:
                self._commit(steps, changes)
                if self._rounds.spans is not None:
                    for each in ended:
                        self._rounds.spans.record_delivery(each.message, each.attempt)
            finally:
                self._rounds.note_taken([each.message for each in ended])
                self._rounds.note_arrived([message for step in steps for message in step.created])

    # operators

    def set_pauses(self, pauses: Sequence[Pause]) -> None:
        """Let what is paused be this. No round runs meanwhile."""
        before = self.pauses
        self.pauses = Pauses(self.plan, pauses)
        if self.pauses.queues == before.queues:
            return
        with self.arrivals.excluded():
            self.forget_ahead()
            self._rounds.paused = self.pauses.queues
            self._pending_reader.forget()
            if self._rounds.paused:
                self.slow_messages.drop(lambda message: message.queue in self._rounds.paused)
            with self._rounds.changing:
                self._rounds.has_backlog = self._wants_turn = True

    @property
    def evaluations_repeated(self) -> int:
        """How many messages of rounds were evaluated again."""
        return self._rounds.evaluated_again_total

    def is_waiting_for_pauses(self, seqs: Sequence[int]) -> bool:
        """Return whether all of these messages wait because something is paused."""
        return all([head.queue in self._rounds.paused for head in self.store.heads(seqs)])

    def purge(self, seqs: Sequence[int], entry: AuditRecord) -> tuple[list[int], int]:
        """Remove messages, whatever their state. Return which, and the number of the audit record.

        No round runs meanwhile. Whatever has read them is evaluated again.
        """
        with self.arrivals.excluded():
            self.forget_ahead()
            with self._rounds.changing:
                removed, number = self.store.purge(seqs, entry)
            gone = set(removed)
            self.slow_messages.drop(lambda message: message.seq in gone)
            for seq in removed:
                self._attempts.pop(seq, None)
        return removed, number

    # garbage

    def collect_garbage(self, keep: timedelta = timedelta(0), limit: int = 1000) -> int:
        """Remove messages that retired longer ago than the audit period, up to a limit. Return how many."""
        return self.store.collect_garbage(self.clock() - keep, limit)


def _name_request(queue: str, incoming: IncomingMessage) -> IncomingMessage:
    """Return a message of a client with the digest of its content in the name of its request.

    Raises a TypeError for a property that is no string, before it is among messages of others.
    """
    for name, text in incoming.properties.items():
        if not isinstance(text, str):
            raise TypeError(f"property {name} is to be given as a string, not as {text!r}")
    if incoming.request is None or has_digest(incoming.request):
        return incoming
    given = [f"{name}={text}" for name, text in sorted(incoming.properties.items())]
    return incoming._replace(request=make_request(incoming.request, digest_of([queue, incoming.body, *given])))
