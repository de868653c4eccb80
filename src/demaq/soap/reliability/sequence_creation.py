"""Create a sequence at its destination: the answer to CreateSequence (3.4)."""

from __future__ import annotations

from dataclasses import dataclass

from demaq.soap.addressing.endpoint_reference import EndpointReference
from demaq.soap.reliability.delivery_assurance import EXACTLY_ONCE_IN_ORDER, DeliveryAssurance
from demaq.soap.reliability.inbound_sequence import InboundSequence
from demaq.soap.reliability.protocol_messages import CreateSequence, CreateSequenceResponse, IncompleteBehavior
from demaq.soap.reliability.reliability_faults import FaultName, ReliabilityFault


@dataclass(frozen=True, slots=True, kw_only=True)
class CreationRules:
    """What a gateway offers."""

    assurance: DeliveryAssurance = EXACTLY_ONCE_IN_ORDER
    behavior: IncompleteBehavior = IncompleteBehavior.NO_DISCARD
    lifetime_seconds_max: float = 7 * 86400.0
    """A sequence that shall live longer, or for ever, ends after this time: a lost Terminate leaves nothing."""
    accepts_offers: bool = False
    accepts_addresses: bool = False
    """Whether acknowledgements may go to another address than the connection."""


def create_inbound(
    request: CreateSequence,
    rules: CreationRules,
    *,
    identifier: str,
    message_id: str | None,
    now: float,
) -> InboundSequence | ReliabilityFault:
    """Return a new sequence, or the fault that refuses it.

    Invariant: the same request and the same identifier give the same sequence, so a repeated request that is
    recognised by its MessageID is answered as before.
    """
    if request.acks_to.is_none or not (request.acks_to.is_anonymous or rules.accepts_addresses):
        return ReliabilityFault(
            version=request.version,
            name=FaultName.CREATE_SEQUENCE_REFUSED,
            reason=f"acknowledgements are not sent to {request.acks_to.address}",
        )
    lifetime = min(request.expires_seconds or rules.lifetime_seconds_max, rules.lifetime_seconds_max)
    is_accepted = request.offer is not None and rules.accepts_offers
    return InboundSequence(
        identifier=identifier,
        version=request.version,
        acks_to=request.acks_to,
        created_by=message_id,
        offered=request.offer.identifier if request.offer is not None and is_accepted else None,
        expires_at=now + lifetime,
        assurance=rules.assurance,
        behavior=rules.behavior,
    )


def answer_creation(
    sequence: InboundSequence, own_endpoint: EndpointReference, created_at: float
) -> CreateSequenceResponse:
    """Return the answer to the CreateSequence that has made a sequence."""
    return CreateSequenceResponse(
        version=sequence.version,
        identifier=sequence.identifier,
        expires_seconds=sequence.expires_at - created_at if sequence.expires_at is not None else None,
        behavior=sequence.behavior,
        accepted_acks_to=own_endpoint if sequence.offered is not None else None,
    )
