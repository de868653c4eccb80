"""What became of a message and of each of its rules, and why. Plain data, for all who show it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias

from demaq.evaluation.outcomes import Location

RuleResult: TypeAlias = Literal["fired", "not-fired", "not-asked", "failed", "else"]
"""`else`: its condition was false, and its else has acted."""
MessageState: TypeAlias = Literal["waits", "processed", "tried", "gone"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownValue:
    """A value, or the beginning of it."""

    count: int
    """How many items it has."""
    items: tuple[str, ...]
    """The first ones: nodes as markup, texts in quotes, other atomic values as they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operand:
    """One side of a comparison, or an argument of a function."""

    expression: str
    value: ShownValue


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """An expression that kept a rule from acting, what it came to, and what in it is the reason."""

    expression: str
    """As the author wrote it, on one line."""
    at: Location | None
    start: int
    """Where it begins in its file, counted in characters."""
    end: int
    words: str
    """What it came to: with the expression before it, a sentence."""
    given: str | None = None
    """The variables or the item for which it came to that: `$i = <item/>`."""
    operands: tuple[Operand, ...] = ()
    parts: tuple[Cause, ...] = ()
    hints: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeMessage:
    """A message that a rule has enqueued."""

    queue: str
    body: str
    properties: Mapping[str, str]
    number: int | None = None
    """Its number; None if it is not stored, or not any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeReset:
    slicing: str
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldMessage:
    number: int
    queue: str
    body: str
    """The beginning of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldState:
    """What a slice, a queue or a collection held when the rule read it."""

    what: str
    """`slice orders "17"`, `queue crm`, `collection prices`."""
    count: int
    messages: tuple[HeldMessage, ...]
    """The first ones; none of a collection."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleFailure:
    kind: str
    code: str
    description: str
    at: Location | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleVerdict:
    """What became of one rule."""

    rule: str
    at: Location
    slicing: str | None
    """For the rule of a slicing; else it is a rule of the message's queue."""
    key: str | None
    """The key of the message's slice, if it is in one."""
    result: RuleResult
    made: tuple[MadeMessage | MadeReset, ...] = ()
    causes: tuple[Cause, ...] = ()
    """The conjuncts that were false; or why a rule that fired did nothing."""
    reason: str | None = None
    """Why it was not asked."""
    hints: tuple[str, ...] = ()
    failure: RuleFailure | None = None
    held: tuple[HeldState, ...] = ()
    """What it read, if it did not fire."""
    gone: tuple[str, ...] = ()
    """What it may have read and is not there any more, or may be another now."""
    is_certain: bool = True
    """Whether it is known that this became of it: by what it made, or because all that it read is still there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageVerdict:
    """What became of a message."""

    number: int
    queue: str | None
    """None if the message is gone, and nothing says where it was."""
    state: MessageState
    body: str
    properties: Mapping[str, str]
    step: int | None
    """The number of the step that processed it."""
    snapshot: int | None
    at: datetime | None
    """When the rules were evaluated, or would be."""
    rules: tuple[RuleVerdict, ...]
    notes: tuple[str, ...] = ()
