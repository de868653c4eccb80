"""What the policy of a gateway demands, as values."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum
from typing import Final

from demaq.soap.addressing.addressing_versions import AddressingVersion
from demaq.soap.reliability.delivery_assurance import EXACTLY_ONCE_IN_ORDER, DeliveryAssurance
from demaq.soap.reliability.reliability_versions import RELIABILITY_1_1, ReliabilityVersion
from demaq.soap.security.security_requirements import ExchangeRequirements


@dataclass(frozen=True, slots=True, kw_only=True)
class ReliabilityPolicy:
    """WS-ReliableMessaging: its version, what is promised, and times, None for those that the policy leaves open."""

    version: ReliabilityVersion
    assurance: DeliveryAssurance = EXACTLY_ONCE_IN_ORDER
    inactivity_timeout: timedelta | None = None
    """When a sequence without messages may be terminated."""
    retransmission_interval: timedelta | None = None
    """How long a sender waits for an acknowledgement."""
    exponential_backoff: bool = False
    """Whether that time grows with each attempt."""
    acknowledgement_interval: timedelta | None = None
    """How long a receiver may delay an acknowledgement."""


class AnswerAddresses(Enum):
    """Where a sender may ask for its answer to go."""

    ANY = "any address"
    ANONYMOUS = "the connection of the request"
    ELSEWHERE = "an address of its own"


@dataclass(frozen=True, slots=True, kw_only=True)
class AddressingPolicy:
    """WS-Addressing is required."""

    version: AddressingVersion
    answers: AnswerAddresses = AnswerAddresses.ANY
    is_implied: bool = field(default=False, compare=False)
    """Whether reliable messaging alone asks for it, which yields to what a policy says of addressing."""


def merge_addressing(one: AddressingPolicy | None, other: AddressingPolicy) -> AddressingPolicy:
    """Return what two policies demand together. Raises ValueError with what the second one is, if they disagree."""
    if one is None:
        return other
    if one.version != other.version:
        raise ValueError("is of another version of WS-Addressing")
    if AnswerAddresses.ANY not in (one.answers, other.answers) and one.answers is not other.answers:
        raise ValueError("wants answers to other addresses")  # no answer can be both anonymous and not (Metadata 3.1.3)
    return other if one.answers is AnswerAddresses.ANY else one


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayPolicy:
    """What one alternative of a policy demands; None for what it does not speak of."""

    reliability: ReliabilityPolicy | None = None
    security: ExchangeRequirements | None = None
    addressing: AddressingPolicy | None = None

    @property
    def is_empty(self) -> bool:
        return self == GatewayPolicy()


DEFAULT_RELIABILITY: Final = ReliabilityPolicy(version=RELIABILITY_1_1)
"""Of `using WS-ReliableMessaging` without a policy."""
