"""What became of one attempt to send a message."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from demaq.masking import mask_addresses
from demaq.soap.reliability.reliability_faults import ReliabilityFault
from demaq.soap.reliability.sequence_headers import Acknowledgement


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseFacts:
    """What a response says besides what became of its message. It is stored in the same transaction."""

    sequence: str | None = None
    """The name of the sequence that the message was in."""
    acknowledgements: tuple[Acknowledgement, ...] = ()
    fault: ReliabilityFault | None = None
    is_received: bool = False
    """Whether the application has answered, by a reply or a fault: then it has the message, acknowledged or not."""
    replay_keys: Mapping[str, datetime] = field(default_factory=dict)
    """By which a repeated response is recognised, each until a time."""


NO_FACTS = ResponseFacts()


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """The other side has acknowledged the message."""

    status: str
    """What it said, in one line: `202`, `250 OK`."""
    reply: str | None = None
    """The document that came back, for request/response."""
    facts: ResponseFacts = NO_FACTS


@dataclass(frozen=True, slots=True, kw_only=True)
class Awaiting:
    """The other side has the message, and has not answered or acknowledged it. It is sent again if that does not come.

    Nothing is wrong with the other side. When all attempts are used up, the error is a time-out.
    """

    seconds: float
    """How long to wait."""
    reason: str
    """What is missing."""
    status: str | None = None
    grows: bool = False
    """Whether each attempt doubles the time."""
    is_attempt: bool = True
    """False if nothing was sent, because there is no turn for it now."""
    until_acknowledged: bool = False
    """Whether an acknowledgement is all that it waits for."""
    facts: ResponseFacts = NO_FACTS


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryFailed:
    """The message was not acknowledged."""

    kind: str
    """One of `demaq.errors.ERROR_KINDS`."""
    reason: str
    """One line, without secrets."""
    status: str | None = None
    again: bool = True
    """Whether another attempt may help; without it the failure is final."""
    after_seconds: float | None = None
    """When the other side wants to be asked again."""
    fault: str | None = None
    """The SOAP fault that came back, as an element of the error message."""
    facts: ResponseFacts = NO_FACTS

    @property
    def status_code(self) -> int | None:
        """The number that the other side's words begin with."""
        number = (self.status or "").partition(" ")[0]
        return int(number) if number.isdecimal() and len(number) == 3 else None

    def __post_init__(self) -> None:
        # Whatever the source of the reason, it may quote the address: the client, the resolver, the other side.
        object.__setattr__(self, "reason", mask_addresses(self.reason))


def refuse_recipient(queue: str, missing: str) -> DeliveryFailed:
    """Return the failure of a message that names a recipient the settings do not allow; it says what to add."""
    return DeliveryFailed(
        kind="routing",
        reason=(
            "the message says itself where it goes, and the settings do not allow it; to allow it, add "
            f'recipients = ["{missing}"] to [outgoing.{queue}] in the file of --settings'
        ),
        again=False,
    )


DeliveryResult = Delivered | DeliveryFailed | Awaiting
