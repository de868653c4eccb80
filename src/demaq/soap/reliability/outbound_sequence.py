"""A sequence at its source, as a value that the store keeps."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from demaq.soap.addressing.endpoint_reference import EndpointReference
from demaq.soap.reliability.number_ranges import NO_NUMBERS, NumberRanges
from demaq.soap.reliability.protocol_messages import CreateSequence, Offer
from demaq.soap.reliability.reliability_versions import MESSAGE_NUMBER_MAX, RELIABILITY_VERSIONS, ReliabilityVersion

WINDOW_MAX = 1_000
"""The most messages of a sequence that are not acknowledged. Further ones wait in the outbox without a number."""


class OutboundState(StrEnum):
    CREATING = "creating"
    OPEN = "open"
    CLOSING = "closing"
    """The destination is asked to close it: all messages are acknowledged, or one was given up.

    1.0 has this state only for a sequence with a gap. It is then asked what it has received.
    """
    TERMINATING = "terminating"
    TERMINATED = "terminated"
    LOST = "lost"
    """The destination does not know it any more: what is not acknowledged goes into another sequence."""
    FAILED = "failed"
    """Given up. What is not acknowledged was not delivered, as far as is known."""


ENDED = (OutboundState.TERMINATED, OutboundState.FAILED)


@dataclass(frozen=True, slots=True)
class PendingNumber:
    """A message that is not acknowledged."""

    message_number: int
    attempts: int = 0
    retry_at: float = 0.0
    """When it is sent, or sent again: seconds since 1970."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboundSequence:
    """What the source knows of a sequence."""

    version: ReliabilityVersion
    acks_to: EndpointReference
    creation_id: str
    """The MessageID of CreateSequence, the same in every attempt."""
    offered: str | None = None
    """The identifier of the sequence for answers that is offered with it."""
    lifetime_seconds: float | None = None
    identifier: str | None = None
    """None until the destination has created it."""
    offer_acks_to: EndpointReference | None = None
    """Where answers in the offered sequence are acknowledged; None if the offer was not accepted."""
    expires_at: float | None = None
    state: OutboundState = OutboundState.CREATING
    next_number: int = 1
    acknowledged: NumberRanges = NO_NUMBERS
    pending: Sequence[PendingNumber] = ()
    """Ascending, and at most `WINDOW_MAX`, and a marker. While it is open, these and `acknowledged` are all numbers."""
    is_finishing: bool = False
    """Whether no message will be added, so that it ends once all are acknowledged."""
    marker: int | None = None
    """The number of the empty message that marks the end in 1.0."""
    attempts: int = 0
    """How often the present protocol message was sent: CreateSequence, CloseSequence or TerminateSequence."""
    retry_at: float = 0.0
    restarts: int = 0
    """How many sequences before this one were lost without one acknowledgement."""

    @property
    def has_room(self) -> bool:
        """Return whether another message can be added."""
        is_open = self.state in (OutboundState.CREATING, OutboundState.OPEN) and not self.is_finishing
        return is_open and len(self.pending) < WINDOW_MAX and self.next_number <= MESSAGE_NUMBER_MAX

    @property
    def unacknowledged(self) -> tuple[int, ...]:
        """Return the numbers of the messages that are not acknowledged, without that which marks the end."""
        return tuple([one.message_number for one in self.pending if one.message_number != self.marker])

    @property
    def last_number(self) -> int | None:
        """Return the number of the last message, if there is one."""
        return self.next_number - 1 or None

    def make_creation(self) -> CreateSequence:
        """Return the request that creates the sequence."""
        offer = Offer(identifier=self.offered, endpoint=self.acks_to) if self.offered is not None else None
        return CreateSequence(
            version=self.version, acks_to=self.acks_to, expires_seconds=self.lifetime_seconds, offer=offer
        )

    def to_json(self) -> str:
        """Return the value as a text for the store."""
        return json.dumps(
            {
                "version": self.version.name,
                "acks_to": self.acks_to.to_plain(),
                "creation_id": self.creation_id,
                "offered": self.offered,
                "lifetime_seconds": self.lifetime_seconds,
                "identifier": self.identifier,
                "offer_acks_to": self.offer_acks_to.to_plain() if self.offer_acks_to is not None else None,
                "expires_at": self.expires_at,
                "state": self.state,
                "next_number": self.next_number,
                "acknowledged": str(self.acknowledged),
                "pending": [[one.message_number, one.attempts, one.retry_at] for one in self.pending],
                "is_finishing": self.is_finishing,
                "marker": self.marker,
                "attempts": self.attempts,
                "retry_at": self.retry_at,
                "restarts": self.restarts,
            }
        )

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the value that `to_json` has written."""
        plain = json.loads(text)
        others = ("creation_id", "offered", "lifetime_seconds", "identifier", "expires_at", "next_number")
        more = ("is_finishing", "marker", "attempts", "retry_at", "restarts")
        offer_acks_to = plain["offer_acks_to"]
        return cls(
            version=RELIABILITY_VERSIONS[plain["version"]],
            acks_to=EndpointReference.from_plain(plain["acks_to"]),
            offer_acks_to=EndpointReference.from_plain(offer_acks_to) if offer_acks_to is not None else None,
            state=OutboundState(plain["state"]),
            acknowledged=NumberRanges.parse(plain["acknowledged"]),
            pending=tuple([PendingNumber(*one) for one in plain["pending"]]),
            **{name: plain[name] for name in (*others, *more)},
        )
