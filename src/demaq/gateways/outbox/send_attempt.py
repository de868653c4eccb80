"""One attempt to send a message, and what becomes of the message by it."""

from __future__ import annotations

import functools
from datetime import datetime
from typing import Literal, NamedTuple

from demaq.engine.delivery import Ended
from demaq.gateways.outbox.delivery_results import Delivered, DeliveryFailed, DeliveryResult
from demaq.gateways.outbox.destination import Answering
from demaq.language.endpoints import Destination
from demaq.masking import mask_address
from demaq.store.protocol import Attempt, StoredMessage

OTHER_SIDE = ("disconnectedTransport", "nameResolution", "timeout", "connectionClosed")
"""Failures that are about the other side, whatever the message is."""
MASKED_MAX = 1_000
"""Of so many addresses it is remembered how they are shown."""


class SendAttempt(NamedTuple):
    """A message on its way, whatever comes of it."""

    message: int
    queue: str
    number: int
    """Counted from 1."""
    at: datetime
    seconds: float
    to: Destination | Answering | DeliveryFailed

    def describe(self, result: DeliveryResult, outcome: Literal["sent", "again", "failed"]) -> Attempt:
        """Return it as it is stored."""
        failed = result if isinstance(result, DeliveryFailed) else None
        reason = result.reason if not isinstance(result, Delivered) else None
        return Attempt(
            message=self.message,
            queue=self.queue,
            number=self.number,
            at=self.at,
            seconds=round(self.seconds, 6),
            destination=_describe_destination(self.to),
            result=outcome,
            status=result.status,
            kind=failed.kind if failed is not None else None,
            reason=reason,
        )


def make_ended(message: StoredMessage, attempt: Attempt, result: Delivered | DeliveryFailed) -> Ended:
    """Return the end of a delivery, by its last attempt."""
    if isinstance(result, Delivered):
        return Ended(message=message, attempt=attempt, reply=result.reply)
    return Ended(
        message=message,
        attempt=attempt,
        failure=(result.kind, _describe_failure(result, attempt.number)),
        status=result.status_code,
        fault=result.fault,
    )


def is_about_other_side(result: DeliveryFailed) -> bool:
    """Return whether the failure is one of the peer, and not of the message."""
    return result.again and (result.kind in OTHER_SIDE or (result.status or "").startswith("5"))


def _describe_failure(result: DeliveryFailed, attempts: int) -> str:
    status = f" (status {result.status})" if result.status is not None else ""
    tried = f" after {attempts} attempts" if result.again else ""
    return f"{result.reason}{status}{tried}"


@functools.lru_cache(MASKED_MAX)
def _mask(address: str) -> str:
    return mask_address(address)


def _describe_destination(to: Destination | Answering | DeliveryFailed) -> str:
    match to:
        case Destination():
            return _mask(to.address)
        case Answering():
            return f"connection {to.connection}"
    return ""
