"""Follow what an engine commits with another one that processes one message at a time.

Both share how one message is evaluated on stored state, which the interpreter is the judge of
(`test_engine_and_interpreter`). They do not share what rounds are made of: evaluating ahead on assumed state, folding,
validation. So this says whether rounds are serial, and at a fifth of the interpreter's cost.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from demaq.compiler.plan import Index
from demaq.documents import Document
from demaq.engine.round import SEQS_PER_MESSAGE
from demaq.evaluation.cascade.cascade import Cascades
from demaq.evaluation.outcomes import ExpectedReads, StateReader
from demaq.evaluation.saxon.saxon_evaluator import SaxonEvaluator
from demaq.evaluation.state.snapshot_reader import Documents, SnapshotReader
from demaq.messages import Message
from demaq.store import MemoryStore
from demaq.store.protocol import Committed, NewMessage, Step, StoredMessage
from tests.support.engines import local_engine
from tests.support.reference.comparing import body_of

_SLICES_MAX = 1000
Described = tuple[str, str, tuple[tuple[str, str], ...], str | None]
"""Queue, body, declared properties and rule of a message."""


class Differs(AssertionError):
    """No serial execution does what was committed."""


class HidingReader:
    """State without some messages that had not arrived yet when an outcome was evaluated."""

    def __init__(self, base: StateReader, hidden: frozenset[int]) -> None:
        self._base = base
        self._hidden = hidden

    def _shown(self, messages: Sequence[Message]) -> Sequence[Message]:
        return [message for message in messages if message.seq not in self._hidden]

    def queue(self, name: str) -> Sequence[Message]:
        return self._shown(self._base.queue(name))

    def slice(self, slicing: str, key: str) -> Sequence[Message]:
        return self._shown(self._base.slice(slicing, key))

    def lookup(self, index: Index, entries: Sequence[str]) -> Sequence[Message]:
        return self._shown(self._base.lookup(index, entries))

    def collection(self, name: str) -> Sequence[Document]:
        return self._base.collection(name)

    def find(self, index: Index, entries: Sequence[str]) -> Collection[int]:
        return [seq for seq in self._base.find(index, entries) if seq not in self._hidden]

    def expect(self, reads: ExpectedReads) -> None:
        pass


class SerialEngine:
    """A store of its own, on which each step of another engine is done again, in the order of their commits."""

    def __init__(self, evaluator: SaxonEvaluator, clock: Callable[[], datetime], hops_max: int) -> None:
        self._evaluator = evaluator
        self._comes_and_goes = Cascades(self._evaluator).is_possible
        self._clock = clock
        self.store = MemoryStore(now=clock)
        self._engine = local_engine(evaluator, self.store, clock, hops_max=hops_max)
        self._own: dict[int, int] = {}
        """The number here of each message of the other engine."""
        self._arrived: list[int] = []
        """What has arrived since both were idle, oldest first."""

    # what the other engine has done

    def arrive(self, number: int, queue: str, body: str, properties: Mapping[str, str]) -> None:
        self._own[number] = self._engine.enqueue(queue, body, properties)
        self._arrived.append(self._own[number])

    def take(self, queue: str, limit: int, taken: Sequence[int]) -> None:
        """A client has got these messages, which must be what there was."""
        found = [message.seq for message in self._engine.take(queue, limit)]
        if found != [self._own[number] for number in taken]:
            raise Differs(f"a client took {taken} of {queue}, and there were others")

    def fire_timers(self, steps: Sequence[Step], committed: Sequence[Committed]) -> None:
        for step, done in zip(steps, committed, strict=True):
            assert step.fired is not None
            stored = self._stored(self._own[step.fired])
            made = self._engine.factory.make_echo(stored, Document(stored.body), self._clock())
            self._commit(Step(fired=stored.seq, created=tuple(made)), step, done)
            # Like what senders send, it may come after messages that were evaluated before.
            self._arrived += [self._own[number] for number in done.created]

    def follow(self, step: Step, done: Committed) -> None:
        """Do a step again. It may have been evaluated before the newest messages arrived."""
        assert step.processed is not None
        message = self._own[step.processed]
        hideable = [number for number in self._arrived if number != message and self._is_untouched(number)]
        tried = self._folded if step.elided else self._single
        error: Differs | None = None
        for newest in range(len(hideable) + 1):
            try:
                tried(message, frozenset(hideable[len(hideable) - newest :]), step, done)
                return
            except Differs as differs:
                error = error or differs
        assert error is not None
        raise error

    def follow_passed(self, step: Step, done: Committed) -> None:
        """Do again what messages have led to, and all that came and went, of which only the effects were stored."""
        left: list[tuple[int, NewMessage]] = []
        processed = 0
        place = done.number + 1
        while place in self._own and self._is_untouched(self._own[place]):
            message = self._own[place]
            made, went, resets = self._run_conversation(message, frozenset())
            if any([self._is_visible(number) for number in (message, *went)]):
                raise Differs(f"message {message} remains, or what it has led to")
            if any([self.store.slice(*key, self.store.snapshot()) for key in resets]):
                raise Differs(f"message {message} has reset a slice that is not empty")
            left += made
            processed += 1 + len(went)
            place += 1
        if processed * SEQS_PER_MESSAGE != step.elided:
            raise Differs(f"{step.elided // SEQS_PER_MESSAGE} messages were not stored, and serially {processed}")
        self._same([new for _, new in left], step)
        self._own.update(zip(done.created, [number for number, _ in left], strict=True))

    def assert_same_state(self, store: MemoryStore) -> None:
        """All that is visible, and in slices, is the same."""
        self._arrived.clear()
        theirs, ours = store.snapshot(), self.store.snapshot()
        for queue in self._engine.program.queues:
            found = sorted([self._own[message.seq] for message in store.queue(queue, theirs)])
            expected = [message.seq for message in self.store.queue(queue, ours)]
            assert found == expected, f"in queue {queue} there are {found}, and not {expected}"
        for slicing in self._engine.program.slicings:
            slices = [
                {
                    key: sorted([own.get(message.seq, message.seq) for message in each.slice(slicing, key, at)])
                    for key, _ in each.slice_keys(slicing, None, _SLICES_MAX)
                }
                for each, at, own in ((store, theirs, self._own), (self.store, ours, {}))
            ]
            assert slices[0] == slices[1], f"slices of {slicing}"

    # one step

    def _single(self, message: int, hidden: frozenset[int], step: Step, done: Committed) -> None:
        self._commit(self._evaluate(message, hidden), step, done)

    def _folded(self, message: int, hidden: frozenset[int], step: Step, done: Committed) -> None:
        """A message, and all that came and went because of it."""
        kept = _copy_state(self.store)
        try:
            left, went, resets = self._run_conversation(message, hidden)
            if len(went) * SEQS_PER_MESSAGE != step.elided or any([self._is_visible(number) for number in went]):
                raise Differs(f"{step.elided // SEQS_PER_MESSAGE} messages were not stored, of {went}")
            self._same([new for _, new in left], step)
            if resets != set(step.resets):
                raise Differs(f"resets {sorted(resets)} instead of {sorted(step.resets)}")
            self._own.update(zip(done.created, [number for number, _ in left], strict=True))
        except Differs:
            vars(self.store).update(kept)
            raise

    def _run_conversation(
        self, message: int, hidden: frozenset[int]
    ) -> tuple[list[tuple[int, NewMessage]], list[int], set[tuple[str, str]]]:
        """Process a message and all that comes and goes because of it. Return what is left, what went, and resets."""
        left: list[tuple[int, NewMessage]] = []
        resets: set[tuple[str, str]] = set()
        waiting = [message]
        went: list[int] = []
        while waiting:
            mine = self._evaluate(waiting.pop(0), hidden)
            resets.update(mine.resets)
            [committed] = self.store.commit([mine])
            for new, number in zip(mine.created, committed.created, strict=True):
                if self._comes_and_goes(new.queue):
                    waiting.append(number)
                    went.append(number)
                else:
                    left.append((number, new))
            waiting.sort(key=self._place)
            for gone in waiting:
                if not self._is_next(gone, [number for number, _ in left]):
                    raise Differs("a message that is left comes before one that came and went")
        return left, went, resets

    def _is_next(self, waiting: int, left: Sequence[int]) -> bool:
        processed = [number for number in left if self._engine.factory.priority(self._stored(number).queue) is not None]
        return all([self._place(waiting) < self._place(number) for number in processed])

    def _place(self, number: int) -> tuple[int, int]:
        return -(self._engine.factory.priority(self._stored(number).queue) or 0), number

    def _evaluate(self, number: int, hidden: frozenset[int]) -> Step:
        stored = self._stored(number)
        documents = Documents()
        reader = HidingReader(SnapshotReader(self.store, self.store.snapshot(), documents), hidden)
        [outcome] = self._evaluator.evaluate([documents.message(stored)], reader, self._clock())
        return self._engine._step(stored, outcome, self._clock(), self.store.snapshot() + 1)[0]

    def _commit(self, mine: Step, step: Step, done: Committed) -> None:
        self._same(mine.created, step)
        if set(mine.resets) != set(step.resets):
            raise Differs(f"resets {sorted(mine.resets)} instead of {sorted(step.resets)}")
        [committed] = self.store.commit([mine])
        self._own.update(zip(done.created, committed.created, strict=True))

    def _same(self, mine: Sequence[NewMessage], step: Step) -> None:
        names = {str(theirs): ours for theirs, ours in self._own.items()}
        found = [_described(new, names) for new in step.created]
        expected = [_described(new, {}) for new in mine]
        if found != expected:
            raise Differs(f"message {step.processed or step.fired} leads to {found}, and serially to {expected}")

    def _stored(self, number: int) -> StoredMessage:
        stored = self.store.message(number)
        assert stored is not None
        return stored

    def _is_visible(self, number: int) -> bool:
        queue = self._stored(number).queue
        return number in [message.seq for message in self.store.queue(queue, self.store.snapshot())]

    def _is_untouched(self, number: int) -> bool:
        stored = self.store.message(number)
        return stored is not None and stored.processed is None


def _copy_state(store: MemoryStore) -> dict[str, Any]:
    """Return what a store holds. Messages are not copied: they never change."""
    state = {name: copy.copy(value) for name, value in vars(store).items() if name not in ("_lock", "_now")}
    rows = {seq: replace(row, slices=dict(row.slices), entries=list(row.entries)) for seq, row in store._rows.items()}
    members = {key: list(seqs) for key, seqs in store._members.items()}
    return {**state, "_rows": rows, "_members": members, "_entries": {k: list(v) for k, v in store._entries.items()}}


def _described(new: NewMessage, names: dict[str, int]) -> Described:
    declared = {n: v.text for n, v in new.properties.items() if not n.startswith("demaq:")}
    body = body_of(new.body, names, frozenset()) if "<error" in new.body else new.body
    return new.queue, body, tuple(sorted(declared.items())), new.rule
