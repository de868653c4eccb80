"""Process messages: pick the next ones, evaluate their rules, commit what they do, in the order of a serial run."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TypeVar

from demaq.batching import ThreadBatcher
from demaq.compiler.plan import Plan
from demaq.documents import parse_document
from demaq.engine.batch_intake import IncomingMessage, receive_all
from demaq.engine.delivery import Ended, Sending
from demaq.engine.error_routing import Failure
from demaq.engine.intake import expect_queue, expect_repeated
from demaq.engine.message_factory import MessageFactory
from demaq.engine.namespace_watch import NamespaceWatch
from demaq.engine.round import NUMBERS_PER_MESSAGE, SERIAL, Evaluation, RoundPolicy, Rounds
from demaq.engine.slow_messages import Apart, Lane
from demaq.errors import AlreadyProcessed, EvaluatorUnavailable, MessageError, StoreError, SystemFault
from demaq.evaluation.outcomes import Enqueued, Folded, Outcome, SliceReset
from demaq.evaluation.round_request import PropertyEvaluator, PropertyRequest, RoundEvaluator, compute_one
from demaq.evaluation.state.snapshot_reader import Documents
from demaq.evaluation.workers.receiver import Receiver
from demaq.messages import PropertyValue
from demaq.store.protocol import Committed, NewMessage, Step, Store, StoredMessage
from demaq.store.request_names import digest_of, named

T = TypeVar("T")

ROUND_MESSAGES_FIRST = 50
ROUND_MESSAGES_LEAST = 25
"""Rounds are not made smaller than this in order to evaluate several at once."""
ROUND_SECONDS = 1.0
"""Rounds are made as large as can be evaluated in about this time."""
ROUND_CHARACTERS_MAX = 32_000_000
"""The messages of a round are hardly larger than this together, unless there is only one."""
PENDING_MESSAGES_FIRST = 200
"""So many messages are asked for before anything is known about their size."""
PAGES_MAX = 100
"""So often the store is asked for the messages of a round, most of which may have to wait for others."""
TIMERS_MAX = 500
HOPS_MAX = 10_000
AGAIN_SHARE_MAX = 0.2
ROUNDS_ALONE = 10
"""Where more than this share of a round had to be evaluated again, so many rounds do not begin ahead of their time."""
ATTEMPTS_MAX = 5
"""A message whose processing fails so often for reasons of the system is parked."""


class Engine:
    """One program on one store. Whoever calls it decides when; it decides what.

    Rounds and timers are one caller's; senders and clients may call at any time from other threads.
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
        lanes: Sequence[Lane] = (),
        wake: Callable[[], None] = lambda: None,
        native: bool = True,
    ) -> None:
        """`receiver` computes the properties of messages that no rule made. `observe` is called with each commit.

        `lanes` evaluate what the evaluator of the rounds defers, at least two if it does; `wake` is called, from other
        threads, when a round is to be run because of that. Without `native` the receiver is asked about everything
        that arrives.
        """
        self.policy = policy
        self._begun: deque[Evaluation] = deque()
        """The next rounds, as far as they have begun."""
        self._is_last = False
        """Whether no messages wait behind those of the rounds that have begun, as far as one knows."""
        self._rounds_alone = 0
        """So many rounds are not to begin ahead, because too much of what was evaluated ahead did not hold."""
        self.plan = plan
        self.program = plan.program
        self.evaluator = evaluator
        self.store = store
        self.clock = clock
        self.hops_max = hops_max
        self.maker = MessageFactory(plan, receiver, native)
        self.round_messages_max: int | None = None
        """Fewer messages in a round than the evaluator takes."""
        self.round_messages_least = ROUND_MESSAGES_LEAST
        self._round_messages = ROUND_MESSAGES_FIRST
        self.receiver = receiver
        self.quick_receiver = receiver.quick if isinstance(receiver, Receiver) else self.receiver
        """The same for many senders at once: TakesLong is the answer for a message that would hold up the others."""
        self._observe = observe
        self._documents = Documents()
        self._arrivals = ThreadBatcher(self._append)
        self._sending = Sending(self.maker, self.receiver)
        self._attempts: dict[int, int] = {}
        """Messages that were there when a round failed, with how often they have failed alone."""
        self._rules = {rule.name: rule for rule in self.program.rules}
        self.namespaces = NamespaceWatch(plan)
        self._rounds = Rounds(evaluator, self.maker, store, clock, self._step, self._commit, hops_max)
        self.apart = Apart(self._rounds, lanes, plan, wake)
        """Messages that take long, and are evaluated apart from the rounds."""

    # from outside

    def enqueue(
        self,
        queue: str,
        body: bytes | str,
        properties: Mapping[str, PropertyValue] | None = None,
        request: str | None = None,
    ) -> int:
        """Store a message from outside. Raises a MessageError where it must be refused; durable on return.

        A message with a `request` that is known is not stored again; it is refused where it is not the same.
        """
        if request is not None:
            given = [f"{name}={value.text}" for name, value in sorted((properties or {}).items())]
            request = named(request, digest_of([queue, body, *given]))
        message = self.received(queue, body, properties, request)
        number = self._arrivals.submit(message)
        expect_repeated(self.store, request)
        return number

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
        document = parse_document(body)
        computed = None if properties else self.maker.computed(queue, document)
        if computed is not None:
            return self.maker.new(queue, document, *computed, now, request=request)
        arrival = PropertyRequest(queue=queue, document=document, explicit=properties or {}, now=now)
        received = compute_one(self.receiver, arrival)
        return self.maker.new(queue, received.document, received.properties, received.entries, now, request=request)

    def received_all(self, queue: str, sent: Sequence[IncomingMessage]) -> list[NewMessage]:
        """The same for many messages of a queue at once. Raises a MessageError for the first that must be refused."""
        messages: list[NewMessage] = []
        for answer in receive_all(self.maker, self.receiver, queue, sent, self.clock()):
            if isinstance(answer, MessageError):
                raise answer
            messages.append(answer)
        return messages

    def append(self, messages: Sequence[NewMessage]) -> list[int]:
        """Store received messages, all or none."""
        return self._append(messages)

    def append_checked(
        self, messages: Sequence[NewMessage], hear: Callable[[Sequence[int]], None] = lambda numbers: None
    ) -> list[bool]:
        """Store messages from outside that were checked elsewhere, all or none; the answer is which are new.

        `hear` is told their numbers before anybody processes them.
        """
        return [is_new for _, is_new in self.append_numbered(messages, hear)]

    def append_numbered(
        self, messages: Sequence[NewMessage], hear: Callable[[Sequence[int]], None] = lambda numbers: None
    ) -> list[tuple[int, bool]]:
        """The same; the answer is the number of each, and whether it is new."""
        with self._rounds.changing:
            last = self.store.snapshot()
            stored: list[tuple[int, bool]] = []
            numbers = self._append(messages)
            for number in numbers:
                stored.append((number, number > last))
                last = max(last, number)
            hear(numbers)
        return stored

    def backlog(self, store: Store | None = None) -> int:
        """Return how many messages wait to be processed by rules: those of mailboxes and timers do not.

        With `store`, ask that one, which is the same store over another connection.
        """
        queues = self.program.queues
        counts = (store or self.store).counts().items()
        return sum([n for queue, (_, n) in counts if queue in queues and self.maker.priority(queue) is not None])

    def while_nothing_changes(self, act: Callable[[], T]) -> T:
        """Do something while no message is stored or processed."""
        with self._rounds.changing:
            return act()

    def enqueue_all(self, queue: str, sent: Sequence[IncomingMessage]) -> list[int]:
        """Store messages from outside, all or none. Raises the MessageError of the first that must be refused."""
        return self._append(self.received_all(queue, sent))

    def _append(self, messages: Sequence[NewMessage]) -> list[int]:
        with self._rounds.changing:
            try:
                return self.store.append(messages)
            finally:
                self._rounds.arrived(messages)  # also where it is in doubt whether they were stored
                self._is_last = False

    def take(self, queue: str, limit: int = 1) -> list[StoredMessage]:
        """Hand the oldest messages of a mailbox to a client: in one transaction they are his and processed."""
        expect_queue(self.program, queue)
        declared = self.program.queues[queue]
        if self.maker.priority(queue) is not None:
            raise MessageError("enqueueError", f"queue {queue} has rules, which process its messages")
        if declared.kind in ("echo", "outgoingGateway"):
            raise MessageError("enqueueError", f"queue {queue} is no mailbox: the system itself takes its messages")
        with self._rounds.changing:
            waiting = self.store.waiting(queue, limit)
            try:
                self._commit([Step(processed=message.seq) for message in waiting])
            finally:
                self._rounds.taken(waiting)
        return waiting

    # rounds

    def run_round(self) -> int:
        """Process the next messages; the answer is how many. None are left when it is 0.

        What is the system's fault and no message's is raised as it is. Otherwise the messages of a round that fails
        are tried one at a time; each failure raises a SystemFault, for the caller to wait before he tries again, until
        a message has failed too often and is parked.
        """
        done = self._finish_apart()
        while True:
            begun = self._begun.popleft() if self._begun else self._begin()
            self.apart.start()
            if begun is None:
                return done
            done += self._run(begun)
            if done or not self._rounds.has_left_out:
                return done

    def _finish_apart(self) -> int:
        """Commit what was evaluated apart from the rounds."""
        if not self.apart:
            return 0
        done, faults = self.apart.finish()
        for fault in faults:
            done += self._one_by_one(fault.batch, fault.error)
        return done

    def _run(self, begun: Evaluation) -> int:
        try:
            done = self._rounds.end(begun, lambda: self._begin_ahead(begun.batch))
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
        finally:
            self._defer()

    def _defer(self) -> None:
        """Have evaluated apart what a round has left out."""
        deferred, self._rounds.deferred = self._rounds.deferred, []
        if deferred:
            self.apart.defer([(message, reason) for message, reason in deferred if not self._is_processed(message.seq)])
            self.apart.start()

    def _begin(self) -> Evaluation | None:
        batch, all_of_them = self._next_batch()
        if not batch:
            return None
        self._is_last = all_of_them
        first, *others = self._divided(batch, self._rounds_at_once())
        begun = self._rounds.begin(first, deep=all_of_them or not self.policy.exact, fold=self.policy.fold)
        for part in others:
            self._start(part)
        return begun

    def _begin_ahead(self, batch: Sequence[StoredMessage]) -> None:
        """Begin the rounds behind one with these messages."""
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
            for part in self._divided(following, free):
                self._start(part)

    def _may_run_ahead(self) -> bool:
        return self.policy.ahead and not self.policy.exact and not self._attempts

    def _rounds_at_once(self) -> int:
        """How many rounds may be evaluated at once, as things are."""
        if not self._may_run_ahead() or self._rounds_alone:
            return 1
        return self.evaluator.rounds_max

    def _divided(self, batch: list[StoredMessage], parts: int) -> list[list[StoredMessage]]:
        """The messages of so many rounds, in order; of fewer where there are few messages."""
        size = max(self.round_messages_least, -(-len(batch) // parts))
        return [batch[start : start + size] for start in range(0, len(batch), size)]

    def _start(self, batch: Sequence[StoredMessage]) -> None:
        """Begin a round ahead of its time."""
        begun = self._rounds.begin(batch, deep=True, fold=self.policy.fold)
        self._begun.append(begun)
        begun.start()

    def forget_ahead(self) -> None:
        """Evaluate the next messages anew: something has changed that is no change of messages."""
        while self._begun:
            self._rounds.forget(self._begun.pop())
        self._is_last = False
        self.apart.start_anew()

    def _next_batch(self) -> tuple[list[StoredMessage], bool]:
        """The next messages, and whether they are all there are. One that was there when a round failed comes alone."""
        pending, all_of_them = self._pending(self.round_messages_max or self._round_messages)
        if self._attempts:
            for position, message in enumerate(pending):
                if message.seq in self._attempts:
                    return pending[: max(position, 1)], False  # what it leads to is tried for itself
        return pending, all_of_them

    def _pending(self, limit: int, but: Sequence[int] = ()) -> tuple[list[StoredMessage], bool]:
        """The next messages, and whether they are all there are.

        No more than so many, and hardly more than a round may hold in memory.
        """
        found: list[StoredMessage] = []
        all_of_them = False
        asked = min(limit, PENDING_MESSAGES_FIRST)
        for _ in range(PAGES_MAX):
            if not asked or all_of_them:
                break
            left_out = [*but, *[message.seq for message in found], *self.apart.left_out()]
            more = self.store.pending(asked, left_out, self.apart.queues_left_out())
            found += self.apart.admit(more)
            left = ROUND_CHARACTERS_MAX - sum([len(message.body) for message in found])
            if left <= 0:
                break
            all_of_them = len(more) < asked
            average = (ROUND_CHARACTERS_MAX - left) // max(1, len(found)) + 1
            asked = min(limit - len(found), max(1, left // average))
        # What belongs to another program nobody here knows what to do with.
        return [message for message in found if message.queue in self.program.queues], all_of_them

    def _adapt(self, messages: int, seconds: float) -> None:
        """Slow rules make small rounds, so that nobody waits long for the end of one; quick rules make large ones."""
        fitting = int(messages * ROUND_SECONDS / max(seconds, 1e-6))
        self._round_messages = max(1, min(fitting, 2 * self._round_messages, self.evaluator.messages_max))

    def _commit(self, steps: Sequence[Step]) -> None:
        if not steps:
            return
        committed = self.store.commit(steps, self.policy.elide)
        if self._observe is not None:
            self._observe(steps, committed)

    def _step(self, message: StoredMessage, outcome: Outcome, now: datetime, number: int) -> tuple[Step, list[int]]:
        """What becomes of a message, in the step of that number; and for those that its rules make, which action made
        each."""
        self._attempts.pop(message.seq, None)
        if outcome.folded is not None:
            return self._folded(message, outcome, outcome.folded, now, number)
        if outcome.lost is not None:
            lost = Failure(kind="systemError", code="demaq:notEvaluated", description=outcome.lost, rule=None)
            return Step(processed=message.seq, created=tuple(self.maker.errors(lost, message, now))), []
        if not (outcome.fired or outcome.actions or outcome.errors):
            self.namespaces.note_ignored(message)
        failures = [
            Failure(kind=e.kind, code=e.code, description=e.description, rule=self._rules[e.rule], at=e.at)
            for e in outcome.errors
        ]
        if message.hops >= self.hops_max:
            failures += self._too_many_hops(outcome)
        failed = {failure.rule.name for failure in failures if failure.rule is not None}
        created: list[NewMessage] = []
        makers: list[int] = []
        resets: dict[tuple[str, str], None] = {}
        for position, action in enumerate(outcome.actions):
            if action.rule in failed:
                continue
            if isinstance(action, SliceReset):
                resets[(action.slicing, action.key)] = None
            else:
                created.append(self.maker.enqueued(action, message, now))
                makers.append(position)
        created += [error for failure in failures for error in self.maker.errors(failure, message, now)]
        return Step(processed=message.seq, resets=tuple(resets), created=tuple(created)), makers

    def _folded(
        self, message: StoredMessage, outcome: Outcome, folded: Folded, now: datetime, number: int
    ) -> tuple[Step, list[int]]:
        """What is left of a conversation. The messages that came and went have the numbers behind the step's."""
        resets = [action for action in outcome.actions if isinstance(action, SliceReset)]
        created: list[NewMessage] = []
        for action, (maker, depth) in zip(outcome.actions[len(resets) :], folded.makers, strict=True):
            assert isinstance(action, Enqueued), "resets come first"
            if maker:
                trigger = replace(message, seq=number + maker, hops=message.hops + depth, properties={})
            else:
                trigger = message
            created.append(self.maker.enqueued(action, trigger, now))
        step = Step(
            processed=message.seq,
            resets=tuple([(action.slicing, action.key) for action in resets]),
            created=tuple(created),
            elided=folded.messages * NUMBERS_PER_MESSAGE,
        )
        return step, list(range(len(resets), len(outcome.actions)))

    def _too_many_hops(self, outcome: Outcome) -> list[Failure]:
        rules = dict.fromkeys([action.rule for action in outcome.actions if isinstance(action, Enqueued)])
        why = f"the message is {self.hops_max:,} hops from the one that caused it"
        return [Failure(kind="systemError", code="demaq:hops", description=why, rule=self._rules[n]) for n in rules]

    # faults of the system

    def _one_by_one(self, batch: Sequence[StoredMessage], fault: Exception) -> int:
        """A round has failed: what is left of it is tried one message at a time, and given up after some attempts."""
        self.forget_ahead()
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
        with self._rounds.changing:
            self._commit(steps)
            self._rounds.taken(due)
            self._rounds.arrived([message for step in steps for message in step.created])
        return len(due)

    # gateways

    def deliver(self, ended: Sequence[Ended]) -> None:
        """Note what became of messages of outgoing gateways, with the answers that came back and the errors."""
        now = self.clock()
        steps = [self._sending.step(each, now) for each in ended]
        with self._rounds.changing:
            try:
                self._commit(steps)
            finally:
                self._rounds.taken([each.message for each in ended])
                self._rounds.arrived([message for step in steps for message in step.created])

    # garbage

    def collect_garbage(self, keep: timedelta = timedelta(0), limit: int = 1000) -> int:
        """Remove some of the messages that retired longer ago than the audit period; the answer is how many."""
        return self.store.collect_garbage(self.clock() - keep, limit)
