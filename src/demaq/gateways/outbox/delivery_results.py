"""What became of one attempt to send a message."""

from __future__ import annotations

from dataclasses import dataclass

from demaq.masking import mask_addresses


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """The other side has acknowledged the message."""

    status: str
    """What it said, in one line: `202`, `250 OK`."""
    reply: str | None = None
    """The document that came back, for request/response."""


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
