"""Conversations: messages of a round that share slices and all their descendants, processed one after the other.

A conversation runs serially on a state of its own in memory, so within it every message sees what it would see in a
serial execution: the order is that of the line, higher priority first, then older first. What it has read and what it
has changed is recorded for each message. Two conversations are independent if neither has read what the other has
changed; then the order between their messages makes no difference.

A request leads to checks, these to results, these to a decision, and in the end most of these messages are processed
and gone. Such a conversation is *folded*: committed like one message, with what it has read, what it changes, and which
messages remain. The others are never serialized. Otherwise each message gets an outcome of its own, with the versions
of what it has read (`versions` has the argument why that is right).
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from demaq.compiler.plan import Index
from demaq.evaluation.cascade.conversation_state import ConversationState
from demaq.evaluation.cascade.queue_facts import QueueFacts
from demaq.evaluation.cascade.versions import SliceKey, StateKeys, TooManySteps, VersionTracker, combine
from demaq.evaluation.outcomes import Action, Enqueued, Folded, Outcome, Reads, SliceReset, StateKey, StateReader
from demaq.evaluation.state.snapshot_reader import NO_SLICES, date_time, size_of
from demaq.messages import Message, PropertyValue, transport_properties
from demaq.system_properties import SAMPLED

_seqs = itertools.count(1 << 60)
"""Provisional seqs of messages that rules create: after all stored ones, and those that have arrived."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CascadeSettings:
    """What all conversations of a round have in common."""

    queues: Mapping[str, QueueFacts]
    keys: StateKeys
    indexes: Sequence[Index]
    index_names: Mapping[int, str]
    slicing_properties: Mapping[str, str]
    reader: StateReader
    """Reads the snapshot."""
    now: datetime
    deep: bool
    """Whether descendants are evaluated."""
    paused: frozenset[str] = frozenset()
    """Queues whose messages are not processed now: descendants in them remain."""


class _Member:
    """A message of a conversation."""

    __slots__ = (
        *("action", "changed", "creator", "depth", "handed_on", "is_waiting", "kept", "message", "order", "outcome"),
        *("place", "position", "queue", "read", "slices", "step"),
    )

    def __init__(
        self,
        message: Message,
        queue: QueueFacts,
        slices: tuple[SliceKey, ...],
        order: tuple[int, int],
        handed_on: Mapping[str, PropertyValue],
    ) -> None:
        self.message = message
        self.queue = queue
        self.slices = slices
        """The slices that it was in when it was created, or at the snapshot."""
        self.kept = len(slices)
        """How many of them it is in now."""
        self.order = order
        """Its place in the serial order."""
        self.handed_on = handed_on
        """Properties that the messages it creates inherit in any case."""
        self.place = -1
        """Its position among the messages of the round, or -1 for a descendant."""
        self.creator: _Member | None = None
        """The message whose rules created it; None for a message of the round."""
        self.action = 0
        """The position of the action that created it."""
        self.depth = 0
        """Hops from the message of the round."""
        self.position = 0
        """Its position among the descendants in the conversation, counted from 1."""
        self.is_waiting = True
        # set when it is processed
        self.outcome: Outcome
        self.step: int
        """Its position among all that were processed, counted from 1."""
        self.read: Sequence[StateKey]
        self.changed: Sequence[StateKey]


@dataclass(slots=True, eq=False)
class _Left:
    """A message that remains after the conversation: to be processed later, taken or sent."""

    action: Enqueued
    slices: tuple[SliceKey, ...]
    creator: _Member


class Conversation:
    """Gives messages out in their order (`next`) and applies their outcomes (`apply`) until none is left."""

    def __init__(self, settings: CascadeSettings, messages: Sequence[tuple[int, Message]]) -> None:
        """`messages` are those of the round, in their order, each with its position."""
        self.messages = messages
        self.state = ConversationState(settings.reader)
        self.read: set[StateKey] = set()
        self.changed: set[StateKey] = set()
        self._settings = settings
        self._line: list[tuple[tuple[int, int], _Member]] = []
        """A heap of the messages that wait."""
        self._order = itertools.count()
        self._current: _Member
        self._processed: list[_Member] = []
        self._priority = settings.queues[messages[0][1].queue].order
        self._members: dict[SliceKey, list[_Member]] = {}
        """Messages of the conversation that are in a slice."""
        self._descendants = 0
        self._left: list[_Left] = []
        self._first_left: tuple[int, int] | None = None
        """The place in the serial order of the first remaining message that has rules."""
        self._is_whole = True
        """Whether all messages are processed that can be, in the serial order, without errors."""
        for place, message in messages:
            self._start(place, message)

    def next(self) -> Message | None:
        """Return the first message in the line; None at the end."""
        if not self._line:
            return None
        self._current = member = heapq.heappop(self._line)[1]
        member.is_waiting = False
        return member.message

    def apply(self, outcome: Outcome) -> None:
        """Apply the outcome of the message that was returned last.

        It gets none if what it has read cannot be known before more is stored. Others that depend on it do not hold.
        """
        member = self._current
        read = self._settings.keys.read(member.slices, outcome.reads)
        if not self._is_known(member, outcome.reads, read):
            self._is_whole = False
            return
        # Folding keeps the serial order only if all have one priority and none that remains comes before another.
        # The message about an error quotes the one that it is about.
        if (
            member.order[0] != self._priority
            or (self._first_left is not None and self._first_left < member.order)
            or outcome.errors
            or outcome.lost is not None
        ):
            self._is_whole = False
        self._processed.append(member)
        member.outcome = outcome
        member.step = len(self._processed)
        member.read = read
        member.changed = self._act(member, outcome.actions)
        self.read.update(read)
        self.changed.update(member.changed)

    def fold(self) -> Outcome | None:
        """Return the conversation as one outcome; None if it cannot be folded."""
        if self._line or not self._is_whole or not self._descendants or len(self.messages) > 1:
            return None
        if SAMPLED in self._processed[0].handed_on:
            return None  # all of its messages are kept
        if any([member.position for members in self._members.values() for member in members]):
            return None
        actions = [action for member in self._processed for action in member.outcome.actions]
        resets = {(action.slicing, action.key): action for action in actions if isinstance(action, SliceReset)}
        if resets and any([not resets.keys().isdisjoint(left.slices) for left in self._left]):
            return None  # whether they are members depends on the order of creation and reset
        first = self._processed[0]
        return Outcome(
            fired=[rule for member in self._processed for rule in member.outcome.fired],
            actions=[*resets.values(), *[_with_all_properties(left) for left in self._left]],
            number=first.place,
            key=first.message.seq,
            members=first.outcome.members,
            folded=Folded(
                unmatched=tuple([m.queue.name for m in self._processed if not (m.outcome.fired or m.outcome.actions)]),
                messages=self._descendants,
                depth=max([member.depth for member in self._processed]),
                makers=tuple([(left.creator.position, left.creator.depth) for left in self._left]),
                read=tuple(self.read),
                changed=tuple(self.changed),
            ),
        )

    def outcomes(self, numbers: Callable[[], int]) -> Iterable[tuple[int, Outcome]]:
        """Yield the outcome of each message with its place, or -1, in the serial order.

        `numbers` returns the numbers of those of descendants.
        """
        changes = VersionTracker()
        for member in self._processed:
            outcome, creator = member.outcome, member.creator
            if member.read:
                outcome.seen = {key: changes.versions[key] for key in member.read if key in changes.versions}
                try:
                    outcome.order = changes.order(member.read, None if creator is None else creator.step)
                except TooManySteps:  # on stored state no order has to be compared
                    return
            if creator is None:
                outcome.key = member.message.seq
                outcome.number = member.place
            else:
                outcome.key = combine(creator.outcome.key, member.action)
                outcome.parent = (creator.outcome.number, member.action)
                outcome.number = numbers()
            changes.add(outcome.key, member.changed)
            yield member.place, outcome

    # the line

    def _start(self, place: int, message: Message) -> None:
        """Put a message of the round into the line."""
        properties = self._settings.slicing_properties
        slices: tuple[SliceKey, ...] = ()
        if message.slices:
            slices = tuple([(name, message.properties[properties[name]].key) for name in sorted(message.slices)])
        handed_on = {**message.transport, "demaq:origin": PropertyValue.string(str(message.origin))}
        queue = self._settings.queues[message.queue]
        order = (queue.order, next(self._order))
        member = _Member(message, queue, slices, order, handed_on)
        member.place = place
        self._join(member)

    def _join(self, member: _Member) -> None:
        for key in member.slices:
            self._members.setdefault(key, []).append(member)
        heapq.heappush(self._line, (member.order, member))

    def _is_known(self, member: _Member, reads: Reads, read: list[StateKey]) -> bool:
        """Return whether the state that a message has read is certain, and all of it may be read by its rules."""
        if self.state.is_uncertain(reads, self._settings.indexes):
            return False
        return member.queue.is_possible or self.changed.isdisjoint(read)

    # actions

    def _act(self, member: _Member, actions: Sequence[Action]) -> list[StateKey]:
        """Apply actions, the resets first. Return what they change."""
        keys = self._settings.keys
        changed: list[StateKey] = []
        if actions:
            resets = {(action.slicing, action.key) for action in actions if isinstance(action, SliceReset)}
            if resets:
                changed = keys.reset(resets)
                self._reset(resets, changed)
            for position, action in enumerate(actions):
                if isinstance(action, Enqueued):
                    changed += self._create(member, position, action)
        if member.queue.is_read and not member.kept and not member.queue.is_sent:
            self.state.remove(member.message)
            changed += keys.gone(member.message.queue)
        return changed

    def _reset(self, resets: set[SliceKey], changed: Sequence[StateKey]) -> None:
        self.state.reset(resets, [key[1] for key in changed if key[0] == "out"])
        for key in resets:
            for member in self._members.pop(key, ()):
                member.kept -= 1
                if member.is_waiting:  # rules of the slicing will not fire for it
                    slices = (member.message.slices or NO_SLICES) - {key[0]}
                    member.message = replace(member.message, slices=slices)

    def _create(self, creator: _Member, position: int, action: Enqueued) -> Sequence[StateKey]:
        """Put a new message into the line, or aside. Return what it changes."""
        settings = self._settings
        queue = settings.queues[action.queue]
        slices = self._slices(queue, action, creator) if queue.slicings else ()
        entries = action.entries
        is_processed_here = settings.deep and queue.is_possible and queue.name not in settings.paused
        if is_processed_here or slices or entries or queue.is_read:
            message = self._message(queue, action, creator, slices)
            self.state.add(message, queue.is_read, slices, entries)
            if is_processed_here:
                self._descendants += 1
                own = transport_properties(action.properties) if action.properties else None
                handed_on = {**creator.handed_on, **own} if own else creator.handed_on
                order = (queue.order, next(self._order))
                member = _Member(message, queue, slices, order, handed_on)
                member.creator = creator
                member.action = position
                member.depth = creator.depth + 1
                member.position = self._descendants
                self._join(member)
        if not is_processed_here:
            self._left.append(_Left(action, slices, creator))
            if queue.is_processed and queue.name not in settings.paused:  # a paused one is not in the line
                order = (queue.order, next(self._order))
                if self._first_left is None or order < self._first_left:
                    self._first_left = order
        if not (slices or entries or queue.is_read):
            return ()
        named = [(settings.index_names[number], value) for number, value in entries] if entries else ()
        return settings.keys.created(action.queue, slices, named)

    def _message(self, queue: QueueFacts, action: Enqueued, creator: _Member, slices: tuple[SliceKey, ...]) -> Message:
        """Return a created message as rules may read it."""
        seq = next(_seqs)
        properties = creator.handed_on
        if queue.system_asked:
            properties = {**properties, **self._system_properties(action)}
        return Message(
            id=str(seq),
            queue=action.queue,
            document=action.document,
            properties={**properties, **action.properties} if action.properties else properties,
            created=self._settings.now,
            seq=seq,
            slices=frozenset([slicing for slicing, _ in slices]) if slices else NO_SLICES,
        )

    def _system_properties(self, action: Enqueued) -> dict[str, PropertyValue]:
        created = date_time(self._settings.now)
        size = str(size_of(action.document.text))
        return {
            "demaq:queue": PropertyValue.string(action.queue),
            "demaq:created": PropertyValue("dateTime", created, created),
            "demaq:size": PropertyValue("integer", size, size),
            "demaq:rule": PropertyValue.string(action.rule),
        }

    def _slices(self, queue: QueueFacts, action: Enqueued, creator: _Member) -> tuple[SliceKey, ...]:
        found: list[SliceKey] = []
        for slicing, prop in queue.slicings:
            value = action.properties.get(prop) or creator.handed_on.get(prop)
            if value is None and prop in _SYSTEM:
                value = self._system_properties(action)[prop]
            if value is not None:
                found.append((slicing, value.key))
        return tuple(found)


_SYSTEM = ("demaq:queue", "demaq:rule", "demaq:created", "demaq:size")


def _with_all_properties(left: _Left) -> Enqueued:
    """Return the action with the properties that it inherits from its creator, which is not stored."""
    if not left.creator.position or len(left.creator.handed_on) == 1:  # the origin is known without it
        return left.action
    handed_on = {name: value for name, value in left.creator.handed_on.items() if name != "demaq:origin"}
    return replace(left.action, properties={**handed_on, **left.action.properties})
