"""A sequence at its destination, as a value that the store keeps."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from demaq.soap.addressing.endpoint_reference import EndpointReference
from demaq.soap.reliability.delivery_assurance import EXACTLY_ONCE_IN_ORDER, Assurance, DeliveryAssurance
from demaq.soap.reliability.number_ranges import NO_NUMBERS, NumberRanges
from demaq.soap.reliability.protocol_messages import IncompleteBehavior
from demaq.soap.reliability.reliability_versions import RELIABILITY_VERSIONS, ReliabilityVersion
from demaq.soap.reliability.sequence_headers import Acknowledgement


class InboundState(StrEnum):
    CREATED = "created"
    CLOSED = "closed"
    """No new messages are accepted; what was received can still be acknowledged."""
    TERMINATED = "terminated"
    """Kept for a while, to answer what arrives late."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InboundSequence:
    """What the destination knows of a sequence. Never longer than its limits allow, whatever the source sends."""

    identifier: str
    version: ReliabilityVersion
    acks_to: EndpointReference
    created_by: str | None = None
    """The MessageID of its CreateSequence, by which a repeated one is recognised."""
    offered: str | None = None
    """The sequence for the other direction that was offered with it, and accepted."""
    expires_at: float | None = None
    """Seconds since 1970; None if it does not expire."""
    assurance: DeliveryAssurance = EXACTLY_ONCE_IN_ORDER
    behavior: IncompleteBehavior = IncompleteBehavior.NO_DISCARD
    state: InboundState = InboundState.CREATED
    received: NumberRanges = NO_NUMBERS
    """What is acknowledged."""
    held: NumberRanges = NO_NUMBERS
    """What is stored and waits for messages before it. Always part of `received`."""
    last_number: int | None = None
    """The number of the last message, once the source has said so."""

    @property
    def is_complete(self) -> bool:
        """Return whether all messages up to the last one were received."""
        return self.last_number is not None and not self.received.gaps(self.last_number)

    def acknowledge(self) -> Acknowledgement:
        """Return the acknowledgement of what was received. It is final if nothing will be added."""
        return Acknowledgement(
            version=self.version,
            identifier=self.identifier,
            ranges=self.received,
            is_final=self.state != InboundState.CREATED,
        )

    def to_json(self) -> str:
        """Return the value as a text for the store."""
        return json.dumps(
            {
                "identifier": self.identifier,
                "version": self.version.name,
                "acks_to": self.acks_to.to_plain(),
                "created_by": self.created_by,
                "offered": self.offered,
                "expires_at": self.expires_at,
                "assurance": self.assurance.times,
                "in_order": self.assurance.in_order,
                "behavior": self.behavior,
                "state": self.state,
                "received": str(self.received),
                "held": str(self.held),
                "last_number": self.last_number,
            }
        )

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the value that `to_json` has written."""
        plain = json.loads(text)
        return cls(
            identifier=plain["identifier"],
            version=RELIABILITY_VERSIONS[plain["version"]],
            acks_to=EndpointReference.from_plain(plain["acks_to"]),
            created_by=plain["created_by"],
            offered=plain["offered"],
            expires_at=plain["expires_at"],
            assurance=DeliveryAssurance(Assurance(plain["assurance"]), plain["in_order"]),
            behavior=IncompleteBehavior(plain["behavior"]),
            state=InboundState(plain["state"]),
            received=NumberRanges.parse(plain["received"]),
            held=NumberRanges.parse(plain["held"]),
            last_number=plain["last_number"],
        )
