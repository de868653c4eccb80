"""Outcomes: the actions of the rules that fired on a message, the errors of those that failed, and what was read."""

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
    """A location in a program, without the program: outcomes are sent between processes."""

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
    """The action `do enqueue`, with everything that is known before the message is stored."""

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
"""The code of the error of a rule whose evaluation did not return."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleError:
    """The error of a rule that failed. A rule that fails has no actions."""

    rule: str
    kind: str
    code: str
    description: str
    at: Location | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedRule:
    """A rule that a message is given to, for evaluating it alone."""

    name: str
    number: int
    at: Location


@record
class Reads:
    """What an outcome depends on besides the message, for validation."""

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
"""A part of the state that steps change and rules read, such as a slice: see `cascade.versions`."""
Version: TypeAlias = int
"""Identifies the steps that have changed a state key since a snapshot: see `cascade.versions`."""


@record
class Folded:
    """A whole conversation as one outcome: a message and its descendants, which are processed at once.

    The actions of the outcome are resets, then the messages that remain.
    """

    messages: int
    """How many descendants were processed."""
    depth: int
    """The largest number of hops from the first message."""
    makers: tuple[tuple[int, int], ...]
    """For each remaining message, which descendant created it, counted from 1 (0: the first message), and its depth."""
    read: tuple[StateKey, ...]
    changed: tuple[StateKey, ...]


@dataclass(slots=True, kw_only=True)
class Outcome:
    """The outcome of one message: rules that fired, in order, their actions, errors, and what was read."""

    fired: list[str] = field(default_factory=list)
    actions: list[Action] = field(default_factory=list)
    errors: list[RuleError] = field(default_factory=list)
    lost: str | None = None
    """Why the message could not be evaluated at all."""
    deferred: str | None = None
    """Why the message is not evaluated in the round: it takes too long, or too much memory."""
    reads: Reads = NOTHING_READ
    number: int = -1
    """Its position in a RoundResult."""
    key: int = 0
    """Identifies it among all outcomes on its snapshot: the seq of a stored message, combined with the positions of
    actions for descendants. The same in every process."""
    parent: tuple[int, int] | None = None
    """For a descendant: the number of the outcome that creates its message, and the position of the action."""
    seen: Mapping[StateKey, Version] = field(default_factory=dict)
    """Versions of the state keys it has read that the cascade itself had changed."""
    order: int = 0
    """The document order across the state keys it has read that the cascade itself had changed."""
    members: frozenset[str] | None = None
    """The slicings in whose slices the message was when it was evaluated; None if that made no difference."""

    folded: Folded | None = None
    """Set for the outcome of a whole conversation."""

    def keep_only(self, rule: str) -> None:
        """Remove what other rules than this one contribute."""
        self.fired = [name for name in self.fired if name == rule]
        self.actions = [action for action in self.actions if action.rule == rule]
        self.errors = [error for error in self.errors if error.rule == rule]

    def add(self, other: Outcome) -> None:
        """Add what further rules contribute."""
        self.fired += other.fired
        self.actions += other.actions
        self.errors += other.errors
        self.reads |= other.reads
        self.members = other.members


class StateReader(Protocol):
    """Reads the state at a snapshot. Messages are returned in document order, that of their seqs."""

    def queue(self, name: str) -> Sequence[Message]: ...

    def slice(self, slicing: str, key: str) -> Sequence[Message]: ...

    def lookup(self, index: Index, entries: Sequence[str]) -> Sequence[Message]:
        """Return the messages of the index's queue that have one of the entries."""

    def collection(self, name: str) -> Sequence[Document]: ...

    def expect(self, slices: Mapping[str, set[str]], entries: Mapping[int, tuple[Index, set[str]]]) -> None:
        """Prefetch keys by slicing and entries by index, which will be read one by one."""
