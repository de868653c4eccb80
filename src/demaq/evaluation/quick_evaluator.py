"""Evaluate small messages in the process of the node, if their rules are quick: few of them, or a share of many.

To ask a worker takes several times as long as to evaluate a message of usual size. Rules are evaluated in workers
because a rule may take for ever or all memory, and because Saxon holds the interpreter meanwhile. None of that holds
for a native rule whose loops are nested at most twice (`find_loop_nesting`), on a message that is small enough for
that, and on few others: it takes little longer than checking the message, which the node does anyway.

Of a larger group the node evaluates a share, if the thread that sends it has nothing else to do: it would wait for the
workers meanwhile, and a processor with it.

Whatever turns out to need Saxon, or more than that, is left to the workers, and so are messages whose results are to be
compared with Saxon's. A queue whose messages take longer than expected is left to the workers for a while.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from demaq.compiler.emit.python.queue_code import IntakeText, NativeEmitter
from demaq.compiler.emit.python.rule_code import RuleText
from demaq.compiler.loop_nesting import find_loop_nesting
from demaq.compiler.plan import Index, Plan, QueueByKey, SliceRead
from demaq.documents import Document
from demaq.errors import MessageError
from demaq.evaluation.arrival_evaluator import ArrivalEvaluator
from demaq.evaluation.arrival_request import ArrivalRequest, ArrivalResult, Arriving
from demaq.evaluation.cascade.cascade import Cascades
from demaq.evaluation.cascade.versions import index_name
from demaq.evaluation.native.health import NativeHealth
from demaq.evaluation.native.ledger import NativeLedger, NativeNotes
from demaq.evaluation.native.native_rules import NativeRules
from demaq.evaluation.native.native_settings import FIRST_CHECKS, NativeSettings
from demaq.evaluation.native.self_check import SelfCheck
from demaq.evaluation.native.values import NeedsSaxon
from demaq.evaluation.outcomes import AskedMessage, Enqueued, ExpectedReads, Outcome, StateReader
from demaq.evaluation.queue_schemas import QueueSchemas
from demaq.evaluation.round_request import PropertyRequest, PropertyResult
from demaq.evaluation.rule_work import RuleWork
from demaq.evaluation.state.snapshot_reader import Documents, SnapshotReader
from demaq.messages import KEY_BYTES_MAX, Message
from demaq.store.protocol import Store, StoredMessage

MESSAGES_MAX = 4
"""More messages are worth asking workers, which evaluate them at the same time."""
CHARACTERS_MAX: Mapping[int | None, int] = {1: 16_000, 2: 2_000}
"""How large a body may be, or few together, by how deep loops are nested."""
SHARE_CHARACTERS_MAX = 64_000
"""How large the bodies of a share may be together."""
ASKING_MESSAGES = 8
"""Asking a worker takes about as long as evaluating so many messages here."""
CREATED_TIMES_MAX = 4
"""How many times as large all may be together that rules create: what follows takes longer for it."""
READ_MAX = 32
"""So many messages may be read for each that is evaluated: in some slices, or by some keys."""
READ_TIMES_MAX = 4
"""How many times as large the messages may be together that a rule reads at once: it takes longer for them, too."""
SLOW_SECONDS, SLOW_SHARE_SECONDS, SLOW_FOR_SECONDS = 0.02, 0.05, 30.0
"""If few messages have taken longer than the first, or a share than the second, those of their queues are left to
workers for the third."""


class OwnShare(NamedTuple):
    """Which messages of a group are evaluated in the node, and which by workers."""

    here: int = 0
    """So many of the first ones are evaluated here."""
    check: bool = False
    """Whether the results of workers are to be compared with Saxon's."""


class QuickEvaluator:
    """May be called from any thread."""

    def __init__(
        self, plan: Plan, store: Store, ledger: NativeLedger, settings: NativeSettings, may_read: bool = True
    ) -> None:
        """If not `may_read`, rules that read other messages are left to workers: a server is asked faster by many."""
        self._store = store
        self._ledger = ledger
        self._check_every = settings.check_every
        self._characters_max = find_quick_queues(plan, may_read)
        self._rules = _QuickRules(plan)
        self._arrivals = ArrivalEvaluator(self._rules)
        self._slow_until: dict[str, float] = {}
        """Queues that are left to workers, until a time on the monotonic clock."""
        self._seen: Counter[str] = Counter()
        """Messages by queue."""
        self._loaded: set[str] = set()
        """Queues whose rules were used: the first messages take longer, because they are loaded then."""
        self._lock = threading.Lock()
        ledger.add_source(self._take_notes)

    def choose(self, messages: Sequence[Arriving], workers: int = 0) -> OwnShare:
        """Return which messages to evaluate here, and count them.

        Of more than a few it is a share, if `workers` evaluate the others at the same time; none without workers.
        """
        queues = {message.queue for message in messages}
        limit = min([self._characters_max.get(queue, 0) for queue in queues])
        if not limit or not self._is_well or self._are_slow(queues):
            return OwnShare()
        here = self._fit(messages, limit, workers)
        if not here:
            return OwnShare()
        is_due = self._is_due(queues, len(messages))
        return OwnShare(0 if is_due and here == len(messages) else here, is_due)

    @property
    def _is_well(self) -> bool:
        return not self._rules.health.faults and not self._ledger.has_withdrawn

    def _fit(self, messages: Sequence[Arriving], limit: int, workers: int) -> int:
        """Return how many of the first messages may be evaluated here."""
        found = [len(each.body) if each.document is None else each.document.size for each in messages]
        sizes = [size for size in found if size is not None]
        if len(sizes) < len(found):  # a tree may have any size: nothing counts its nodes
            return 0
        if len(messages) <= MESSAGES_MAX:
            return len(messages) if sum(sizes) <= limit else 0
        if not workers or self._lock.locked() or max(sizes) > limit:
            return 0
        here = (len(messages) + ASKING_MESSAGES) // (workers + 1)
        if len(messages) - here < MESSAGES_MAX:
            here = len(messages)
        return here if sum(sizes[:here]) <= SHARE_CHARACTERS_MAX else 0

    def run(self, request: ArrivalRequest) -> ArrivalResult | None:
        """Return what became of messages; None if a worker must be asked."""
        with self._lock:
            # Documents are not kept: trees of a busy node would take more memory than parsing them again takes time.
            limits = [self._characters_max[message.queue] for message in request.messages]
            few = READ_MAX * len(request.messages), READ_TIMES_MAX * min(limits)
            reader = _FewMessages(self._store, request.snapshot, Documents(), *few)
            created_max = min(limits) if len(limits) <= MESSAGES_MAX else max(min(limits), SHARE_CHARACTERS_MAX)
            self._rules.characters_left = CREATED_TIMES_MAX * created_max
            self._rules.characters_read_max = READ_TIMES_MAX * min(limits)
            began = time.thread_time()
            try:
                return self._arrivals.run(request, reader)
            except NeedsSaxon:
                return None
            finally:
                self._note_seconds(request.messages, time.thread_time() - began)

    def _note_seconds(self, messages: Sequence[Arriving], seconds: float) -> None:
        """Note how long messages have taken; those of slow queues are left to workers for a while."""
        queues = {message.queue for message in messages}
        limit = SLOW_SECONDS if len(messages) <= MESSAGES_MAX else SLOW_SHARE_SECONDS
        if seconds > limit and self._loaded.issuperset(queues):
            self._slow_until.update(dict.fromkeys(queues, time.monotonic() + SLOW_FOR_SECONDS))
        self._loaded |= queues

    def _are_slow(self, queues: set[str]) -> bool:
        now = time.monotonic() if self._slow_until else 0.0
        return any([now < self._slow_until.get(queue, 0.0) for queue in queues])

    def _is_due(self, queues: set[str], messages: int) -> bool:
        """Count messages. Return whether one of them is to be checked."""
        every = self._check_every
        if not every:
            return False
        due = False
        for queue in queues:
            before = self._seen[queue]
            self._seen[queue] = count = before + messages
            due = due or before < FIRST_CHECKS or count // every > before // every
        return due

    def _take_notes(self) -> NativeNotes:
        with self._lock:
            health = self._rules.health
            answers, health.answers = health.answers, 0
            return NativeNotes(answers=answers, work=self._rules.work.take())


def find_quick_queues(plan: Plan, may_read: bool = True) -> Mapping[str, int]:
    """Return how large messages may be that are evaluated in the node, by queue; without those that are not."""
    degrees = _Degrees(plan, may_read)
    found: dict[str, int] = {}
    for queue in plan.queues:
        degree = degrees.find(queue) if plan.queues[queue].rules else None
        if degree in CHARACTERS_MAX:
            found[queue] = CHARACTERS_MAX[degree]
    return found


class _Degrees:
    """How the time of evaluating a message, and all that it leads to, grows with its size: see `find_loop_nesting`."""

    def __init__(self, plan: Plan, may_read: bool) -> None:
        self._plan = plan
        self._reads = (SliceRead, QueueByKey) if may_read else ()
        emitter = NativeEmitter(plan)
        self._own = {queue: self._find_own(queue, emitter) for queue in plan.queues}
        """Of each queue alone."""

    def find(self, queue: str) -> int | None:
        """Return the degree for a queue; None if it is not known, or there is no limit."""
        own = [self._own[each] for each in self._find_reached(queue)]
        if None in own:
            return None
        # What is linear may lead to messages of its own queue: sizes and steps are limited when it is evaluated.
        return 1 if set(own) == {1} else self._multiply(queue, ())

    def _find_reached(self, queue: str) -> set[str]:
        """Return a queue and all that its messages may lead to."""
        found, left = {queue}, [queue]
        while left:
            new = self._find_targets(left.pop()) - found
            found |= new
            left += new
        return found

    def _find_targets(self, queue: str) -> set[str]:
        return {write.queue for rule in self._plan.queues[queue].rules for write in rule.enqueues}

    def _multiply(self, queue: str, before: tuple[str, ...]) -> int | None:
        """Return the degree: what a rule enqueues is no larger than the time that it takes."""
        own = self._own[queue]
        if own is None or queue in before:
            return None
        further = [self._multiply(target, (*before, queue)) for target in self._find_targets(queue)]
        return None if None in further else own * max([each for each in further if each is not None], default=1)

    def _find_own(self, queue: str, emitter: NativeEmitter) -> int | None:
        intake = emitter.emit_intake(queue)
        is_checked = self._plan.program.queues[queue].schema is not None
        if is_checked or not isinstance(intake, IntakeText) or not intake.is_linear:
            return None
        found = 1
        for rule in self._plan.queues[queue].rules:
            if not all([isinstance(read, self._reads) for read in rule.reads]):
                return None
            if not isinstance(emitter.emit_rule(rule), RuleText):
                return None
            nesting = find_loop_nesting(rule.rule.body, self._plan.modules[rule.rule.module].names, rule.sites)
            if nesting is None:
                return None
            found = max(found, nesting)
        return found


class _FewMessages(SnapshotReader):
    """Reads the store, unless that is much. Raises NeedsSaxon then: a worker is asked."""

    def __init__(self, store: Store, snapshot: int, documents: Documents, read_max: int, characters_max: int) -> None:
        """At most so many messages are read at once, and a rule gets so many characters at once."""
        super().__init__(store, snapshot, documents)
        self._read_max = read_max
        self._characters_max = characters_max

    def slice(self, slicing: str, key: str) -> Sequence[Message]:
        if (slicing, key) not in self._slices:
            self.expect(ExpectedReads(slices={slicing: {key}}))
        return _expect_small(self._slices[slicing, key], self._characters_max)

    def lookup(self, index: Index, entries: Sequence[str]) -> Sequence[Message]:
        self.expect(ExpectedReads(lookups={index.number: (index, set(entries))}))
        return _expect_small(super().lookup(index, entries), self._characters_max)

    def _read_slices(self, slicing: str, keys: Sequence[str]) -> dict[str, list[StoredMessage]]:
        if self._is_none(self._store.count_members(slicing, keys, self._read_max + 1)):
            return {key: [] for key in keys}
        return super()._read_slices(slicing, keys)

    def _read_lookups(self, index: Index, values: Sequence[str]) -> dict[str, list[StoredMessage]]:
        if self._is_none(self._store.count_found(index_name(index), values, self._read_max + 1)):
            return {value: [] for value in values}
        return super()._read_lookups(index, values)

    def _read_seqs(self, index: Index, values: Sequence[str]) -> dict[str, list[int]]:
        if self._is_none(self._store.count_found(index_name(index), values, self._read_max + 1)):
            return {value: [] for value in values}
        return super()._read_seqs(index, values)

    def queue(self, name: str) -> Sequence[Message]:
        raise NeedsSaxon("a whole queue, which may be long")

    def collection(self, name: str) -> Sequence[Document]:
        raise NeedsSaxon("a collection, which may be large")

    def _is_none(self, count: int) -> bool:
        """Return whether there is nothing to read, which is usual, and needs no second question to the store."""
        if count > self._read_max:
            raise NeedsSaxon("many messages")
        return not count


class _SmallState:
    """What a conversation reads, with what it has changed. Raises NeedsSaxon if that is large."""

    __slots__ = ("_characters_max", "_state", "collection", "expect", "find", "queue")

    def __init__(self, state: StateReader, characters_max: int) -> None:
        self._state = state
        self._characters_max = characters_max
        self.collection, self.expect, self.find, self.queue = state.collection, state.expect, state.find, state.queue

    def slice(self, slicing: str, key: str) -> Sequence[Message]:
        return _expect_small(self._state.slice(slicing, key), self._characters_max)

    def lookup(self, index: Index, entries: Sequence[str]) -> Sequence[Message]:
        return _expect_small(self._state.lookup(index, entries), self._characters_max)


def _expect_small(messages: Sequence[Message], characters_max: int) -> Sequence[Message]:
    """Return messages that a rule reads. Raises NeedsSaxon if they are large: loops over them may take for ever."""
    if sum([len(message.document.text) for message in messages]) > characters_max:
        raise NeedsSaxon("large messages")
    return messages


class _QuickRules:
    """Native rules and properties. Raises NeedsSaxon for everything else."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.program = plan.program
        self.self_check: SelfCheck | None = None
        self.health = NativeHealth(report=lambda report: None)  # a worker that fails likewise reports it
        self.work = RuleWork()
        self.characters_left = 0
        """How much rules may still create."""
        self.characters_read_max = 0
        """How much a rule may read at once."""
        self._native = NativeRules(plan, QueueSchemas(plan.program), self.health, None, self.work)
        self.native: NativeRules | None = self._native
        self.cascades = Cascades(self)

    def compute_properties(self, arrivals: Sequence[PropertyRequest]) -> list[PropertyResult | MessageError]:
        found: list[PropertyResult | MessageError] = []
        for arrival in arrivals:
            result = self._native.compute_properties(arrival)
            if result is None or any([len(v.text) > KEY_BYTES_MAX // 4 for v in result.properties.values()]):
                raise NeedsSaxon("properties that are not native, or may be too long")
            found.append(result)
        return found

    def outcomes(
        self,
        messages: Sequence[Message],
        reader: StateReader,
        now: datetime,
        states: Sequence[StateReader] | None = None,
    ) -> list[Outcome]:
        """See RuleEvaluator."""
        outcomes = [Outcome() for _ in messages]
        by_queue: dict[str, list[int]] = {}
        for number, message in enumerate(messages):
            by_queue.setdefault(message.queue, []).append(number)
        for name, numbers in by_queue.items():
            asked = [
                AskedMessage(messages[n], outcomes[n], reader if states is None else self._bound(states[n]))
                for n in numbers
            ]
            if self._native.run(self._native.queue(name), asked, reader, now):
                raise NeedsSaxon("a rule that needs it on this message")
        for message, outcome in zip(messages, outcomes, strict=True):
            self._finish(message, outcome)
        return outcomes

    def outcome(self, message: Message, reader: StateReader, now: datetime, state: StateReader) -> Outcome:
        """See RuleEvaluator."""
        outcome = Outcome()
        asked = AskedMessage(message, outcome, self._bound(state))
        if not self._native.run_one(self._native.queue(message.queue), asked, reader, now):
            raise NeedsSaxon("a rule that needs it on this message")
        self._finish(message, outcome)
        return outcome

    def _bound(self, state: StateReader) -> StateReader:
        return _SmallState(state, self.characters_read_max)

    def _finish(self, message: Message, outcome: Outcome) -> None:
        """Complete an outcome. Raises NeedsSaxon if rules have created too much."""
        outcome.members = message.slices
        for action in outcome.actions:
            if isinstance(action, Enqueued):
                self.characters_left -= len(action.document.text)
        if self.characters_left < 0:
            raise NeedsSaxon("large messages")

    def make_nodes(self, messages: Sequence[Message]) -> None:
        """Do nothing: there is no Saxon to make nodes for."""

    def always_reads(self, queue: str) -> bool:
        return False
