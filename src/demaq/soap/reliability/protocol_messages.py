"""The messages by which sequences are created, closed and terminated (3.4 to 3.6), as values."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from demaq.soap.addressing.endpoint_reference import EndpointReference
from demaq.soap.reliability.reliability_versions import ReliabilityVersion


class IncompleteBehavior(StrEnum):
    """What a destination does with the messages of a sequence that ends with gaps (3.4)."""

    DISCARD_ENTIRE_SEQUENCE = "DiscardEntireSequence"
    DISCARD_FOLLOWING_FIRST_GAP = "DiscardFollowingFirstGap"
    NO_DISCARD = "NoDiscard"


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A sequence for the other direction, which the source offers."""

    identifier: str
    endpoint: EndpointReference | None = None
    """Where its messages go; 1.0 has none, and uses ReplyTo."""
    expires_seconds: float | None = None
    behavior: IncompleteBehavior = IncompleteBehavior.NO_DISCARD


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateSequence:
    version: ReliabilityVersion
    acks_to: EndpointReference
    expires_seconds: float | None = None
    """None if it shall not expire."""
    offer: Offer | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateSequenceResponse:
    version: ReliabilityVersion
    identifier: str
    expires_seconds: float | None = None
    behavior: IncompleteBehavior = IncompleteBehavior.NO_DISCARD
    accepted_acks_to: EndpointReference | None = None
    """Where acknowledgements of the offered sequence go; None if the offer is not accepted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CloseSequence:
    version: ReliabilityVersion
    identifier: str
    last_number: int | None = None
    """The number of the last message, if there was one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CloseSequenceResponse:
    version: ReliabilityVersion
    identifier: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TerminateSequence:
    version: ReliabilityVersion
    identifier: str
    last_number: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TerminateSequenceResponse:
    version: ReliabilityVersion
    identifier: str


ProtocolMessage = (
    CreateSequence
    | CreateSequenceResponse
    | CloseSequence
    | CloseSequenceResponse
    | TerminateSequence
    | TerminateSequenceResponse
)


def find_action(message: ProtocolMessage) -> str:
    """Return the action of a protocol message."""
    return message.version.action(type(message).__name__)
