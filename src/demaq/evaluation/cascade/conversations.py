"""Fold whole conversations into one outcome each.

A request leads to checks, these to results, these to a decision, and in the end most of these messages are processed
and gone. If a conversation shares no state with any other message of the round, the order in which its messages and
those of others are processed makes no difference. It is then committed like one message: what it has read, what it
changes, and which messages remain. The others are never serialized.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from demaq.evaluation.outcomes import Enqueued, Folded, Outcome, SliceReset, StateKey
from demaq.evaluation.round_request import RoundResult
from demaq.messages import PropertyValue

SliceKey = tuple[str, str]
SEVERAL = -1
"""In place of a position: several conversations."""


class Member(Protocol):
    """A message of a conversation."""

    kept: set[SliceKey]
    """The slices that it is in now."""
    order: tuple[int, int]
    depth: int
    position: int
    handed_on: Mapping[str, PropertyValue]


@dataclass(slots=True)
class Left:
    """A message that remains after the conversation: to be processed later, taken or sent."""

    action: Enqueued
    slices: tuple[SliceKey, ...]
    maker: Member


@dataclass(slots=True)
class Conversation:
    """A message of the round and its descendants."""

    place: int
    last: tuple[int, int]
    """The place in the serial order of the message that was evaluated last: priority, then time of creation."""
    made: list[Member] = field(default_factory=list)
    left: list[Left] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)
    read: set[StateKey] = field(default_factory=set)
    changed: set[StateKey] = field(default_factory=set)
    is_whole: bool = True
    """Whether all descendants are evaluated that can be."""
    first_waiting: tuple[int, int] | None = None
    """The place in the serial order of the first remaining message that has rules."""

    def add_message(self, message: Member) -> None:
        self.made.append(message)
        message.position = len(self.made)

    def note_remaining(self, order: tuple[int, int]) -> None:
        """Record that a message with this place in the serial order remains to be processed later."""
        if self.first_waiting is None or order < self.first_waiting:
            self.first_waiting = order

    def note_outcome(self, message: Member, outcome: Outcome) -> None:
        """Record the outcome of a message, before its actions are applied.

        Folding keeps the serial order only if messages are evaluated in it and none that remains comes before them.
        """
        self.outcomes.append(outcome)
        is_in_line = message.order[0] == self.last[0] and message.order >= self.last
        is_first = self.first_waiting is None or message.order < self.first_waiting
        self.last = message.order
        # The message about an error quotes the one that it is about.
        if not is_in_line or not is_first or outcome.errors or outcome.lost is not None:
            self.is_whole = False

    def end(self) -> None:
        """Break reference cycles with the messages, so that the garbage collector has nothing to find."""
        self.made.clear()
        self.left.clear()

    def resets(self) -> dict[SliceKey, SliceReset]:
        actions = [action for outcome in self.outcomes for action in outcome.actions]
        return {(action.slicing, action.key): action for action in actions if isinstance(action, SliceReset)}

    def fold(self) -> Outcome | None:
        """Return the conversation as one outcome; None if it cannot be folded."""
        if not self.is_whole or not self.made or any([message.kept for message in self.made]):
            return None
        resets = self.resets()
        if any([not resets.keys().isdisjoint(left.slices) for left in self.left]):
            return None  # whether they are members depends on the order of creation and reset
        return Outcome(
            fired=[rule for outcome in self.outcomes for rule in outcome.fired],
            actions=[*resets.values(), *[_with_all_properties(left) for left in self.left]],
            number=self.place,
            key=self.outcomes[0].key,
            members=self.outcomes[0].members,
            folded=Folded(
                messages=len(self.made),
                depth=max([message.depth for message in self.made]),
                makers=tuple([(left.maker.position, left.maker.depth) for left in self.left]),
                read=tuple(self.read),
                changed=tuple(self.changed),
            ),
        )


def _with_all_properties(left: Left) -> Enqueued:
    """Return the action with the properties that it inherits from its creator, which is not stored."""
    if not left.maker.position or len(left.maker.handed_on) == 1:  # the origin is known without it
        return left.action
    handed_on = {name: value for name, value in left.maker.handed_on.items() if name != "demaq:origin"}
    return replace(left.action, properties={**handed_on, **left.action.properties})


def fold_conversations(conversations: Sequence[Conversation], result: RoundResult) -> None:
    """Replace the outcomes of each conversation that shares no state with another one by a single outcome."""
    readers = _by_part([(conversation.place, conversation.read) for conversation in conversations])
    changers = _by_part([(conversation.place, conversation.changed) for conversation in conversations])
    gone: set[int] = set()
    for conversation in conversations:
        if _is_private(conversation, readers, changers):
            outcome = conversation.fold()
            if outcome is not None:
                gone.update([part.number for part in conversation.outcomes])
                result.outcomes[conversation.place] = outcome
    if gone:
        result.remove(gone)


def _by_part(parts: Sequence[tuple[int, set[StateKey]]]) -> dict[StateKey, int]:
    """Return the conversation of each state key, or SEVERAL."""
    found: dict[StateKey, int] = {}
    for place, mine in parts:
        for part in mine:
            found[part] = place if found.setdefault(part, place) == place else SEVERAL
    return found


def _is_private(conversation: Conversation, readers: Mapping[StateKey, int], changers: Mapping[StateKey, int]) -> bool:
    place = conversation.place
    return all([changers.get(part, place) == place for part in conversation.read]) and all(
        [readers.get(part, place) == place for part in conversation.changed]
    )
