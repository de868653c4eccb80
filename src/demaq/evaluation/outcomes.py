"""Outcomes: the actions of the rules that fired on a message, the errors of those that failed, and what was read."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeAlias

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

    def __reduce__(self) -> tuple[Any, ...]:
        # Outcomes travel between processes by the thousand: half of the time and space that dataclasses take.
        return _make_enqueued, (self.rule, self.queue, self.document, self.properties, self.entries)


def _make_enqueued(rule: str, queue: str, document: Document, properties: Any, entries: Any) -> Enqueued:
    return Enqueued(rule=rule, queue=queue, document=document, properties=properties, entries=entries)


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
    unmatched: tuple[str, ...] = ()
    """The queues of messages that no rule has reacted to, one for each."""


class Deferral(NamedTuple):
    """Why a message is not evaluated in its round."""

    reason: str
    was_tried: bool = True
    """Whether it was evaluated until a limit was reached; otherwise only others of its queue were."""


@dataclass(slots=True, kw_only=True)
class Outcome:
    """The outcome of one message: rules that fired, in order, their actions, errors, and what was read."""

    fired: list[str] = field(default_factory=list)
    actions: list[Action] = field(default_factory=list)
    errors: list[RuleError] = field(default_factory=list)
    lost: str | None = None
    """Why the message could not be evaluated at all."""
    deferred: Deferral | None = None
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

    def __reduce__(self) -> tuple[Any, ...]:
        reads = None if self.reads is NOTHING_READ else self.reads
        rules = (self.fired, self.actions, self.errors, self.lost, self.deferred, reads)
        return _make_outcome, (
            *(*rules, self.number, self.key, self.parent, self.seen, self.order, self.members),
            None if self.folded is None else pack_folded(self.folded),
        )

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


def pack_folded(folded: Folded) -> tuple[Any, ...]:
    """Return the fields, which are pickled faster."""
    return folded.messages, folded.depth, folded.makers, folded.read, folded.changed, folded.unmatched


def unpack_folded(packed: tuple[Any, ...]) -> Folded:
    messages, depth, makers, read, changed, unmatched = packed
    return Folded(messages=messages, depth=depth, makers=makers, read=read, changed=changed, unmatched=unmatched)


def _make_outcome(
    fired: Any, actions: Any, errors: Any, lost: Any, deferred: Any, reads: Any, number: Any, key: Any, parent: Any,
    seen: Any, order: Any, members: Any, folded: Any,
) -> Outcome:  # fmt: skip
    if folded is not None:
        folded = unpack_folded(folded)
    reads = NOTHING_READ if reads is None else reads
    return Outcome(
        fired=fired, actions=actions, errors=errors, lost=lost, deferred=deferred, reads=reads, number=number, key=key,
        parent=parent, seen=seen, order=order, members=members, folded=folded,
    )  # fmt: skip


class AskedMessage(NamedTuple):
    """A message that rules are evaluated on, with the outcome to be filled in and the state that it sees."""

    message: Message
    outcome: Outcome
    state: StateReader


@dataclass(frozen=True, slots=True)
class ExpectedReads:
    """Slices and index entries that are about to be read."""

    slices: dict[str, set[str]] = field(default_factory=dict)
    """Keys by slicing."""
    lookups: dict[int, tuple[Index, set[str]]] = field(default_factory=dict)
    """Entries by the number of the index, whose messages are read."""
    found: dict[int, tuple[Index, set[str]]] = field(default_factory=dict)
    """Entries whose seqs are read."""


class StateReader(Protocol):
    """Reads the state at a snapshot. Messages are returned in document order, that of their seqs."""

    def queue(self, name: str) -> Sequence[Message]: ...

    def slice(self, slicing: str, key: str) -> Sequence[Message]: ...

    def lookup(self, index: Index, entries: Sequence[str]) -> Sequence[Message]:
        """Return the messages of the index's queue that have one of the entries."""

    def find(self, index: Index, entries: Sequence[str]) -> Collection[int]:
        """Return the seqs of these messages, each once, in any order."""

    def collection(self, name: str) -> Sequence[Document]: ...

    def expect(self, reads: ExpectedReads) -> None:
        """Prefetch what will be read one by one."""
