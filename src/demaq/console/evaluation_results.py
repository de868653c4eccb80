"""What the process that evaluates rules returns to pages."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TriedAction:
    rule: str
    queue: str | None
    """None for a reset."""
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TriedMessage:
    """What would become of a message."""

    queue: str
    refused: str | None
    fired: tuple[str, ...] = ()
    actions: tuple[TriedAction, ...] = ()
    errors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CanonicalKey:
    """The key by which the store has a slice."""

    key: str
    refused: str | None = None
    """Why what was written is no key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequeuePlan:
    """What would be requeued."""

    messages: int
    examples: tuple[tuple[int, int, str], ...]
    """Of the first ones: the error, the message that it is about, and its queue."""
    impossible: tuple[tuple[str, int], ...]
