"""Cascades: evaluate messages and their descendants without writing to the store in between.

The actions of an outcome are applied to an overlay of the snapshot, so that the messages they create can be evaluated
at once: a whole conversation in one round. Messages that share a slice are evaluated one after the other, all others
together, in waves. This is a prediction of what will be committed. Validation decides in the serial order whether each
outcome has seen what it must have seen (`versions` has the argument).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from operator import attrgetter
from typing import Protocol

from demaq.compiler.plan import Index, Plan, SliceRead
from demaq.documents import Document, write_texts
from demaq.evaluation.cascade.conversations import Conversation, Left, fold_conversations
from demaq.evaluation.cascade.versions import SliceKey, StateKeys, TooManySteps, VersionTracker, combine, index_name
from demaq.evaluation.outcomes import Enqueued, Outcome, Reads, SliceReset, StateKey, StateReader
from demaq.evaluation.round_request import RoundResult
from demaq.evaluation.saxon.batch_document import RecordWriter
from demaq.evaluation.saxon.compiled import CompiledProgram
from demaq.evaluation.state.snapshot_reader import NO_SLICES, date_time, size_of
from demaq.messages import Message, PropertyValue, transport_properties

LOSSES_MAX = 2
"""A message whose outcome was discarded so often gets none: it is evaluated when it is committed."""
STEPS_PER_MESSAGE_MAX = 50
"""Limit of outcomes in a cascade, for each message of the round."""

_UNKNOWN_YET = ("demaq:id", "demaq:trigger")
"""Properties of a new message that are unknown before it is stored."""

_numbers = itertools.count(1 << 60)
"""Provisional seqs of messages that are not stored yet: after all stored ones."""


@dataclass(slots=True)
class _Pending:
    message: Message
    key: int
    """The key of its outcome (`Outcome.key`)."""
    slices: tuple[SliceKey, ...]
    """The slices that it was in when it was created, or at the snapshot."""
    place: int
    """Its position among the messages of the round, or -1 for a descendant."""
    parent: tuple[int, int] | None
    origin: str
    order: tuple[int, int]
    kept: set[SliceKey]
    """The slices that it is in now."""
    handed_on: Mapping[str, PropertyValue]
    """Properties that the messages it creates inherit in any case."""
    conversation: Conversation
    depth: int = 0
    """Hops from the first message of its conversation."""
    position: int = 0
    """Its position among the descendants in the conversation, counted from 1."""
    creation: int | None = None
    """The position of the step that created it in the changes of this cascade; None for a message of the round."""
    losses: int = 0
    is_done: bool = False


_by_order = attrgetter("order")


class RuleEvaluator(Protocol):
    """Evaluates the rules of a program on messages, in the process of the cascade."""

    compiled: CompiledProgram
    records: RecordWriter

    def outcomes(self, messages: Sequence[Message], reader: StateReader, now: datetime) -> list[Outcome]: ...

    def make_nodes(self, messages: Sequence[Message]) -> None: ...

    def is_native(self, queue: str) -> bool: ...


class Cascades:
    """Runs cascades of a program; knows which queues may take part in them."""

    def __init__(self, evaluator: RuleEvaluator) -> None:
        self.evaluator = evaluator
        self.plan: Plan = evaluator.compiled.plan
        self.program = self.plan.program
        self.parts = StateKeys(self.plan)
        self.names = {index.number: index_name(index) for index in self.plan.indexes}
        self.slicings = {
            queue: [(s.name, s.property) for s in self.program.slicings_of(queue)] for queue in self.program.queues
        }
        self._met = {
            read.slicing for plan in self.plan.rules.values() for read in plan.reads if isinstance(read, SliceRead)
        }
        """Slicings whose slices are read."""
        self._possible = {queue: self._is_possible(queue) for queue in self.program.queues}
        self._system_asked = {queue: self._is_system_asked(queue) for queue in self.program.queues}
        self._independent = {queue for queue in self.program.queues if self._is_independent(queue)}
        """Queues whose messages read no other ones and are read by none, and neither are those they create."""

    def is_alone(self, message: Message) -> bool:
        """Return whether the outcome of a message depends on no other message, and no other on it."""
        return message.queue in self._independent and not message.slices

    def is_possible(self, queue: str) -> bool:
        """Return whether messages of a queue can be evaluated before they are stored."""
        return self._possible[queue]

    def is_read_by_slice(self, message: Message) -> bool:
        """Return whether a message is in a slice that may be read."""
        return not self._met.isdisjoint(message.slices or ())

    def is_processed(self, queue: str) -> bool:
        """Return whether rules process the messages of a queue."""
        return bool(self.plan.queues[queue].rules) and self.program.queues[queue].kind != "echo"

    def is_sent(self, queue: str) -> bool:
        """Return whether messages of a queue stay visible until they are delivered, which a cascade cannot know."""
        return self.program.queues[queue].kind == "outgoingGateway"

    def priority(self, queue: str) -> int:
        return self.program.queues[queue].priority

    def system_asked(self, queue: str) -> bool:
        """Return whether a rule of a queue reads system properties."""
        return self._system_asked[queue]

    def _is_independent(self, queue: str) -> bool:
        rules = self.plan.queues[queue].rules
        targets = {write.queue for rule in rules for write in rule.enqueues}
        return (
            not self.parts.is_read(queue)
            and not any([rule.reads_other_messages or rule.resets for rule in rules])
            and not any([self._possible[to] or self.slicings[to] or self.parts.is_read(to) for to in targets])
        )

    def _is_system_asked(self, queue: str) -> bool:
        asked = self.evaluator.records.asked_for(queue)
        return asked is None or any([name.startswith("demaq:") for name in asked])

    def _is_possible(self, queue: str) -> bool:
        declared = self.program.queues[queue]
        rules = self.plan.queues[queue].rules
        if declared.kind != "basic" or not rules or any([rule.other_properties for rule in rules]):
            return False
        if any([prop in _UNKNOWN_YET for _, prop in self.slicings[queue]]):
            return False
        asked = self.evaluator.records.asked_for(queue)
        return asked is not None and not asked.intersection(_UNKNOWN_YET)

    def run(
        self, messages: Sequence[Message], reader: StateReader, now: datetime, deep: bool, fold: bool
    ) -> RoundResult:
        """Return the outcomes of messages, and with `deep` those of their descendants.

        With `fold` a conversation that shares no state with another one becomes one outcome.
        """
        cascade = _Cascade(self, messages, reader, now, deep)
        cascade.run()
        conversations = cascade.conversations
        result = RoundResult.of(cascade.outcomes, len(messages))
        if fold and deep:
            fold_conversations(conversations, result)
        kept = [outcome for outcome in (*result.outcomes, *result.descendants) if outcome is not None]
        write_texts([a.document for outcome in kept for a in outcome.actions if isinstance(a, Enqueued)])
        for conversation in conversations:
            conversation.end()
        return result


class _Cascade:
    def __init__(
        self, cascades: Cascades, messages: Sequence[Message], reader: StateReader, now: datetime, deep: bool
    ) -> None:
        self._cascades = cascades
        self._now = now
        self._deep = deep
        self._overlay = _Overlay(reader)
        self._changes = VersionTracker()
        self.outcomes: list[Outcome | None] = [None] * len(messages)
        self._steps_left = len(messages) * STEPS_PER_MESSAGE_MAX
        self._order = itertools.count()
        self._members: dict[SliceKey, list[_Pending]] = {}
        """Messages of the cascade that are in a slice."""
        self.conversations: list[Conversation] = []
        self._pending: list[_Pending] = []
        self._alone: list[tuple[int, Message]] = []
        for place, message in enumerate(messages):
            if cascades.is_alone(message):
                self._alone.append((place, message))
            else:
                self._pending.append(self._start(place, message))

    def _start(self, place: int, message: Message) -> _Pending:
        program = self._cascades.program
        names = message.slices or frozenset()
        slices = tuple([(name, message.properties[program.slicings[name].property].key) for name in sorted(names)])
        order = (-self._cascades.priority(message.queue), next(self._order))
        origin = str(message.origin)
        handed_on = dict(message.transport)
        handed_on["demaq:origin"] = PropertyValue.string(origin)
        conversation = Conversation(place, order)
        self.conversations.append(conversation)
        key = message.seq
        return self._join(
            _Pending(message, key, slices, place, None, origin, order, set(slices), handed_on, conversation)
        )

    def _join(self, item: _Pending) -> _Pending:
        for key in item.slices:
            self._members.setdefault(key, []).append(item)
        return item

    def run(self) -> None:
        if self._alone:
            self._run_alone()
        if self._pending:
            self._run_together()

    def _run_alone(self) -> None:
        outcomes = self._cascades.evaluator.outcomes([message for _, message in self._alone], self._overlay, self._now)
        for (place, message), outcome in zip(self._alone, outcomes, strict=True):
            outcome.number = place
            outcome.key = message.seq
            self.outcomes[place] = outcome

    def _run_together(self) -> None:
        first = True
        if self._deep:
            met = [item.message for item in self._pending if self._cascades.is_read_by_slice(item.message)]
            met = [message for message in met if not self._cascades.evaluator.is_native(message.queue)]
            self._cascades.evaluator.make_nodes(met)
        while self._pending and self._steps_left > 0:
            wave, later = self._next_wave(first)
            if not wave:
                break
            first = False
            messages = [item.message for item in wave]
            outcomes = self._cascades.evaluator.outcomes(messages, self._overlay, self._now)
            self._pending = later
            self._apply(wave, outcomes)
        for item in self._pending:
            item.conversation.is_whole = False

    def _next_wave(self, first: bool) -> tuple[list[_Pending], list[_Pending]]:
        """Return the messages that come first in all their slices, in the serial order, and the others."""
        wave: list[_Pending] = []
        later: list[_Pending] = []
        taken: set[SliceKey] = set()
        for item in sorted(self._pending, key=_by_order):
            free = True
            if item.slices:
                free = taken.isdisjoint(item.slices)
                taken.update(item.slices)
            # A queue that may not read unstored messages is evaluated in the first wave, before there are any.
            if not (self._cascades.is_possible(item.message.queue) or first):
                item.conversation.is_whole = False
                continue
            (wave if free and len(wave) < self._steps_left else later).append(item)
        return wave, later

    def _apply(self, wave: Sequence[_Pending], outcomes: Sequence[Outcome]) -> None:
        """Apply outcomes to the overlay, in order. One that has missed a change of its wave is evaluated again."""
        changed: set[StateKey] = set()
        versions = self._changes.versions
        for item, outcome in zip(wave, outcomes, strict=True):
            parts = self._cascades.parts.read(item.slices, outcome.reads)
            if parts and not changed.isdisjoint(parts):
                item.losses += 1
                if item.losses < LOSSES_MAX and self._is_possible_again(item):
                    self._pending.append(item)
                else:
                    item.conversation.is_whole = False
                continue
            if self._overlay.is_uncertain(outcome.reads, self._cascades.plan.indexes):
                item.conversation.is_whole = False
                continue
            if parts:
                outcome.seen = {part: versions[part] for part in parts if part in versions}
                try:
                    outcome.order = self._changes.order(parts, item.creation)
                except TooManySteps:  # on stored state no order has to be compared
                    item.conversation.is_whole = False
                    continue
            outcome.key = item.key
            outcome.parent = item.parent
            if item.place >= 0:
                outcome.number = item.place
                self.outcomes[item.place] = outcome
            else:
                outcome.number = len(self.outcomes)
                self.outcomes.append(outcome)
            self._steps_left -= 1
            item.is_done = True
            conversation = item.conversation
            conversation.note_outcome(item, outcome)
            changes = self._apply_one(item, outcome)
            if parts:
                conversation.read.update(parts)
            if changes:
                conversation.changed.update(changes)
                changed.update(changes)

    def _is_possible_again(self, item: _Pending) -> bool:
        return self._cascades.is_possible(item.message.queue)

    def _apply_one(self, item: _Pending, outcome: Outcome) -> list[StateKey]:
        parts: list[StateKey] = []
        resets = {(action.slicing, action.key) for action in outcome.actions if isinstance(action, SliceReset)}
        if resets:
            parts += self._cascades.parts.reset(resets)
            self._overlay.reset(resets, [part[1] for part in parts if part[0] == "out"])
            self._release(resets)
        for position, action in enumerate(outcome.actions):
            if isinstance(action, Enqueued):
                parts += self._create(item, outcome, position, action)
        if not item.kept and not self._cascades.is_sent(item.message.queue):
            gone = self._cascades.parts.gone(item.message.queue)
            if gone:  # else no rule reads the queue
                self._overlay.gone.add(item.message.id)
                parts += gone
        self._changes.add(outcome.key, parts)
        return parts

    def _release(self, resets: set[SliceKey]) -> None:
        """Remove members from slices that were reset: rules of the slicing do not fire for those that still wait."""
        for key in resets:
            for item in self._members.pop(key, ()):
                item.kept.discard(key)
                if not item.is_done:
                    slices = (item.message.slices or frozenset()) - {key[0]}
                    item.message = replace(item.message, slices=slices)

    def _create(self, parent: _Pending, outcome: Outcome, position: int, action: Enqueued) -> list[StateKey]:
        cascades = self._cascades
        slices = self._slices(action, parent) if cascades.slicings[action.queue] else ()
        continues = self._deep and cascades.is_possible(action.queue)
        conversation = parent.conversation
        message: Message | None = None
        if continues or slices or action.entries or cascades.parts.is_read(action.queue):
            message = self._message(action, parent, slices)
            self._overlay.add(message, slices, action.entries)
        if continues:
            assert message is not None
            child = _Pending(
                message,
                combine(parent.key, position),
                slices,
                -1,
                (outcome.number, position),
                parent.origin,
                (-cascades.priority(action.queue), next(self._order)),
                set(slices),
                _handed_on(parent, action) if action.properties else parent.handed_on,
                conversation,
                parent.depth + 1,
                creation=self._changes.steps + 1,
            )
            conversation.add_message(child)
            self._pending.append(self._join(child))
        else:
            conversation.left.append(Left(action, slices, parent))
            if cascades.is_processed(action.queue):
                conversation.note_remaining((-cascades.priority(action.queue), next(self._order)))
        entries = [(cascades.names[number], value) for number, value in action.entries] if action.entries else ()
        return cascades.parts.created(action.queue, slices, entries)

    def _message(self, action: Enqueued, parent: _Pending, slices: tuple[SliceKey, ...]) -> Message:
        """Return a created message as rules may read it."""
        number = next(_numbers)
        return Message(
            id=str(number),
            queue=action.queue,
            document=action.document,
            properties=self._properties(action, parent),
            created=self._now,
            seq=number,
            slices=frozenset([slicing for slicing, _ in slices]) if slices else NO_SLICES,
        )

    def _slices(self, action: Enqueued, parent: _Pending) -> tuple[SliceKey, ...]:
        found: list[SliceKey] = []
        for slicing, prop in self._cascades.slicings[action.queue]:
            if prop in action.properties:
                found.append((slicing, action.properties[prop].key))
            elif prop in parent.handed_on:
                found.append((slicing, parent.handed_on[prop].key))
            elif prop == "demaq:queue":
                found.append((slicing, action.queue))
            elif prop == "demaq:rule":
                found.append((slicing, action.rule))
            elif prop == "demaq:created":
                found.append((slicing, date_time(self._now)))
            elif prop == "demaq:size":
                found.append((slicing, str(size_of(action.document.text))))
        return tuple(found)

    def _properties(self, action: Enqueued, parent: _Pending) -> dict[str, PropertyValue]:
        known = dict(parent.handed_on)
        if self._cascades.system_asked(action.queue):
            created = date_time(self._now)
            size = str(size_of(action.document.text))
            known["demaq:queue"] = PropertyValue.string(action.queue)
            known["demaq:created"] = PropertyValue("dateTime", created, created)
            known["demaq:size"] = PropertyValue("integer", size, size)
            known["demaq:rule"] = PropertyValue.string(action.rule)
        known.update(action.properties)
        return known


def _handed_on(parent: _Pending, action: Enqueued) -> Mapping[str, PropertyValue]:
    own = transport_properties(action.properties)
    return {**parent.handed_on, **own} if own else parent.handed_on


class _Overlay:
    """A StateReader of a snapshot with the changes of a cascade."""

    def __init__(self, base: StateReader) -> None:
        self._base = base
        self._queues: dict[str, list[Message]] = {}
        self._slices: dict[SliceKey, list[Message]] = {}
        self._entries: dict[tuple[int, str], list[Message]] = {}
        self.gone: set[str] = set()
        """Messages that have become invisible."""
        self.ended: set[SliceKey] = set()
        """Slices that were reset: their stored members are gone."""
        self._uncertain: set[str] = set()
        """Queues in which a reset may have made messages invisible; which ones is not known in a cascade."""
        self._base_slices: dict[SliceKey, Sequence[Message]] = {}

    def add(self, message: Message, slices: Iterable[SliceKey], entries: Iterable[tuple[int, str]]) -> None:
        self._queues.setdefault(message.queue, []).append(message)
        for key in slices:
            self._slices.setdefault(key, []).append(message)
        for entry in entries:
            self._entries.setdefault(entry, []).append(message)

    def reset(self, slices: Iterable[SliceKey], queues: Iterable[str]) -> None:
        for key in slices:
            self.ended.add(key)
            self._slices.pop(key, None)
        self._uncertain.update(queues)

    def is_uncertain(self, reads: Reads, indexes: Sequence[Index]) -> bool:
        """Return whether a queue was read whose visible messages are not known."""
        if not self._uncertain:
            return False
        if not self._uncertain.isdisjoint(reads.queues):
            return True
        return any([indexes[number - 1].queue in self._uncertain for number, _ in reads.entries])

    # StateReader

    def queue(self, name: str) -> Sequence[Message]:
        return self._visible([*self._base.queue(name), *self._queues.get(name, ())])

    def slice(self, slicing: str, key: str) -> Sequence[Message]:
        added = self._slices.get((slicing, key), ())
        if (slicing, key) in self.ended:
            return list(added)
        if (slicing, key) not in self._base_slices:
            self._base_slices[(slicing, key)] = self._base.slice(slicing, key)
        return [*self._base_slices[(slicing, key)], *added]

    def lookup(self, index: Index, entries: Sequence[str]) -> Sequence[Message]:
        found = self._base.lookup(index, entries)
        if not self._entries:
            return self._visible(found)
        added = {m.id: m for entry in entries for m in self._entries.get((index.number, entry), ())}
        return self._visible([*found, *added.values()])

    def expect(self, slices: Mapping[str, set[str]], entries: Mapping[int, tuple[Index, set[str]]]) -> None:
        known = self.ended.union(self._base_slices)
        unread = {slicing: {key for key in keys if (slicing, key) not in known} for slicing, keys in slices.items()}
        self._base.expect({slicing: keys for slicing, keys in unread.items() if keys}, entries)

    def collection(self, name: str) -> Sequence[Document]:
        return self._base.collection(name)

    def _visible(self, messages: Sequence[Message]) -> Sequence[Message]:
        return [message for message in messages if message.id not in self.gone] if self.gone else messages
