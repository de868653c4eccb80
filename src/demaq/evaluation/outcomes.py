"""What becomes of a message: the actions of the rules that fired, the errors of those that failed, what was read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from demaq.compiler.plan import Index
from demaq.documents import Document
from demaq.messages import Message, PropertyValue
from demaq.records import record
from demaq.source import SourceLocation


@dataclass(frozen=True, slots=True)
class Location:
    """A place in a program, without the program: outcomes travel between processes."""

    file: str
    line: int
    column: int

    @staticmethod
    def of(place: SourceLocation) -> Location:
        return Location(place.file, place.line, place.column)

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@record
class Enqueued:
    """A message to be made: `do enqueue`, with everything that can be known before it is stored."""

    rule: str
    queue: str
    document: Document
    properties: Mapping[str, PropertyValue]
    entries: tuple[tuple[int, str], ...]
    """Index entries: the number of the index and the value."""


@record
class SliceReset:
    rule: str
    slicing: str
    key: str


Action: TypeAlias = Enqueued | SliceReset


NOT_EVALUATED = "demaq:notEvaluated"
"""The code of an error of a rule that did not come back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleError:
    """A rule that failed: it contributes this instead of any action."""

    rule: str
    kind: str
    code: str
    description: str
    at: Location | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedRule:
    """A rule that a message is given to, as far as one needs to know it to ask it alone."""

    name: str
    number: int
    at: Location


@record
class Reads:
    """What the outcome depends on besides the message, for whoever has to tell whether it still holds."""

    slices: frozenset[tuple[str, str]] = frozenset()
    entries: frozenset[tuple[int, str]] = frozenset()
    queues: frozenset[str] = frozenset()
    collections: frozenset[str] = frozenset()

    def __or__(self, other: Reads) -> Reads:
        return Reads(
            slices=self.slices | other.slices,
            entries=self.entries | other.entries,
            queues=self.queues | other.queues,
            collections=self.collections | other.collections,
        )


NOTHING_READ = Reads()

StateKey: TypeAlias = tuple[str, ...]
"""A part of the state that steps change and rules read, such as a slice: see `changes`."""
Version: TypeAlias = int
"""Which steps have changed a part since a snapshot, in their order: see `changes`."""


@record
class Folded:
    """What makes one outcome of a whole conversation: a message, and all it led to, which came and went.

    The actions of the outcome are what is left of it.
    """

    messages: int
    """How many came and went."""
    depth: int
    """How many hops the last of them is from the first message."""
    makers: tuple[tuple[int, int], ...]
    """For each message that is left, which one has made it, counted from 1 (0 is the first message), and its depth."""
    read: tuple[StateKey, ...]
    changed: tuple[StateKey, ...]


@dataclass(slots=True, kw_only=True)
class Outcome:
    """Of one message: rules that fired in order, their actions, errors, and what was read."""

    fired: list[str] = field(default_factory=list)
    actions: list[Action] = field(default_factory=list)
    errors: list[RuleError] = field(default_factory=list)
    lost: str | None = None
    """Why the message could not be evaluated at all."""
    deferred: str | None = None
    """Why the message is to be evaluated apart from the round: it takes too long, or too much memory."""
    reads: Reads = NOTHING_READ
    number: int = -1
    """Its position among the outcomes of a cascade."""
    key: int = 0
    """Tells it from all other outcomes on its snapshot, whoever has evaluated them."""
    parent: tuple[int, int] | None = None
    """Of what message: one that the cascade started with, or what the outcome of this number makes in this action."""
    seen: Mapping[StateKey, Version] = field(default_factory=dict)
    """Versions of the parts it has read, where the cascade itself had changed them."""
    order: int = 0
    """The document order across the parts it has read, where the cascade itself had changed them."""
    members: frozenset[str] | None = None
    """The slicings in whose slices the message was when it was evaluated; None where that made no difference."""

    folded: Folded | None = None
    """For the outcome of a whole conversation."""

    def keep_only(self, rule: str) -> None:
        """As if no other rule had been asked."""
        self.fired = [name for name in self.fired if name == rule]
        self.actions = [action for action in self.actions if action.rule == rule]
        self.errors = [error for error in self.errors if error.rule == rule]

    def add(self, other: Outcome) -> None:
        """Go on with what further rules do."""
        self.fired += other.fired
        self.actions += other.actions
        self.errors += other.errors
        self.reads |= other.reads
        self.members = other.members


class StateReader(Protocol):
    """The state a round sees. Messages come in the order in which they were enqueued."""

    def queue(self, name: str) -> Sequence[Message]: ...

    def slice(self, slicing: str, key: str) -> Sequence[Message]: ...

    def lookup(self, index: Index, entries: Sequence[str]) -> Sequence[Message]:
        """Messages of the index's queue that have one of the entries."""

    def collection(self, name: str) -> Sequence[Document]: ...

    def expect(self, slices: Mapping[str, set[str]], entries: Mapping[int, tuple[Index, set[str]]]) -> None:
        """Keys by slicing and entries by index that will be asked for one by one: who is far away fetches them now."""
