"""The values every part speaks of: messages and their properties."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from demaq.documents import Document
from demaq.records import record

PROPERTY_CHARACTERS_MAX = 100_000
"""How long the value of a property may be: all that a message leads to may inherit it."""
KEY_BYTES_MAX = 2_000
"""How long the key of a slice may be: PostgreSQL's indexes hold no more than 2,700 bytes."""


@dataclass(frozen=True, slots=True)
class PropertyValue:
    """A typed, atomic value. Two values of one property are equal when their keys are."""

    type: str
    """Local name of an atomic type of XML Schema."""
    text: str
    """The value as a string, in the canonical form of its type."""
    key: str
    """The same for all ways of writing the same value: what slices are found by."""

    def __reduce__(self) -> tuple[Callable[[str, str, str], PropertyValue], tuple[str, str, str]]:
        # Values travel between processes by the thousand: a third of the time that dataclasses take.
        return PropertyValue, (self.type, self.text, self.key)

    @staticmethod
    def string(text: str) -> PropertyValue:
        return PropertyValue("string", text, text)


_TRANSPORT = (
    *("demaq:arrived", "demaq:sender", "demaq:connection", "demaq:contentType", "demaq:header."),
    *("demaq:addressing.", "demaq:answerTo", "demaq:sampled"),
)


def transport_properties(properties: Mapping[str, PropertyValue]) -> dict[str, PropertyValue]:
    """Return those of how a message came here, which all that it leads to has too."""
    return {name: value for name, value in properties.items() if name.startswith(_TRANSPORT)}


@record
class Message:
    """One XML document in one queue, with properties. Stored once, never changed."""

    id: str
    queue: str
    document: Document
    properties: Mapping[str, PropertyValue]
    created: datetime
    seq: int = 0
    """Position in the order in which messages were enqueued."""
    slices: frozenset[str] | None = None
    """The slicings it is in a current slice of; None for all whose property it has."""
    transport: Mapping[str, PropertyValue] = field(default_factory=dict)
    """Properties of how it came here, which all that it leads to has too."""
    origin: int | None = None
    """The root of its causal tree, where that is known."""
    only_rule: str | None = None
    """The only rule that is to act on it; None for all."""
