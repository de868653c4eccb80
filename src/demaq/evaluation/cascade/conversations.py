"""Whole conversations as one outcome each.

A request leads to checks, these to results, these to a decision, and in the end nothing is left of all that. Where
nobody else has a part in such a conversation, nobody can tell in which order its messages and those of others were
processed. Whoever commits is then told of it as of one message: what it has read, what it changes for others, and which
messages are left of it. Those that came and went are never written as text.
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
"""Instead of the place of a conversation."""


class Member(Protocol):
    """A message of a conversation."""

    kept: set[SliceKey]
    """The slices it is in now."""
    order: tuple[int, int]
    depth: int
    position: int
    handed_on: Mapping[str, PropertyValue]


@dataclass(slots=True)
class Left:
    """A message that somebody else will process, take or send."""

    action: Enqueued
    slices: tuple[SliceKey, ...]
    maker: Member


@dataclass(slots=True)
class Conversation:
    """A message to start with, and all it leads to."""

    place: int
    last: tuple[int, int]
    """The place in line of the message that was evaluated last: priority, then when it was made."""
    made: list[Member] = field(default_factory=list)
    left: list[Left] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)
    read: set[StateKey] = field(default_factory=set)
    changed: set[StateKey] = field(default_factory=set)
    is_whole: bool = True
    """Whether it is known to its end."""
    first_waiting: tuple[int, int] | None = None
    """The place in line of the first message that is left and will be processed."""

    def add_message(self, message: Member) -> None:
        self.made.append(message)
        message.position = len(self.made)

    def waits(self, order: tuple[int, int]) -> None:
        """A message with this place in line is left to be processed by somebody else."""
        if self.first_waiting is None or order < self.first_waiting:
            self.first_waiting = order

    def continues(self, message: Member, outcome: Outcome) -> None:
        """A message was evaluated, and what it does is about to be done."""
        self.outcomes.append(outcome)
        is_in_line = message.order[0] == self.last[0] and message.order >= self.last
        is_first = self.first_waiting is None or message.order < self.first_waiting
        self.last = message.order
        # The message about an error quotes the one that it is about.
        if not is_in_line or not is_first or outcome.errors or outcome.lost is not None:
            self.is_whole = False

    def end(self) -> None:
        """Forget the messages, which know of it: nobody has to look for circles then."""
        self.made.clear()
        self.left.clear()

    def resets(self) -> dict[SliceKey, SliceReset]:
        actions = [action for outcome in self.outcomes for action in outcome.actions]
        return {(action.slicing, action.key): action for action in actions if isinstance(action, SliceReset)}

    def folded(self) -> Outcome | None:
        """The conversation as one outcome, if nothing is lost by that."""
        if not self.is_whole or not self.made or any([message.kept for message in self.made]):
            return None
        resets = self.resets()
        if any([not resets.keys().isdisjoint(left.slices) for left in self.left]):
            return None  # whether they are in the slice depends on what came first
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
    """Nobody will know its maker, from which it has some of them."""
    if not left.maker.position or len(left.maker.handed_on) == 1:  # a message knows its origin, whoever made it
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
            outcome = conversation.folded()
            if outcome is not None:
                gone.update([part.number for part in conversation.outcomes])
                result.outcomes[conversation.place] = outcome
    if gone:
        result.remove(gone)


def _by_part(parts: Sequence[tuple[int, set[StateKey]]]) -> dict[StateKey, int]:
    """Which conversation each part belongs to, or that it is several."""
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
