"""What responses and errors of HTTP mean for the message that was sent."""

from __future__ import annotations

import re
import socket
import ssl
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from demaq.encodings import encoding_named
from demaq.gateways.outbox.delivery_results import DeliveryFailed
from demaq.gateways.outbox.http_connection import HttpError, HttpResponse
from demaq.gateways.outbox.http_url import InvalidUrl
from demaq.soap import Fault, describe_fault

AGAIN_STATUSES = (408, 425, 429)
"""Besides those from 500 on: it may help to try again."""
NO_ACCESS_STATUSES = (401, 403, 407)
REASON_CHARACTERS_MAX = 300
BEGINNING_BYTES_MAX = 4 * REASON_CHARACTERS_MAX
_CHARSET = re.compile(r"(?i);\s*charset\s*=\s*\"?([A-Za-z0-9._:-]{1,40})")


def judge_refusal(response: HttpResponse) -> DeliveryFailed:
    """Return the failure of a message for which a server has answered another status than 2xx."""
    status, said = response.status, response.status_text
    text = _shorten(" ".join(_beginning(response).split()))
    reason = f"the other side said {said}" + (f": {text}" if text and text.isprintable() else "")
    if 300 <= status < 400:
        reason = f"the other side sends messages on ({said}), and they go only to servers that the gateway names"
    return DeliveryFailed(
        kind="authentication" if status in NO_ACCESS_STATUSES else "refused",
        reason=reason,
        status=said,
        again=status >= 500 or status in AGAIN_STATUSES,
        after_seconds=_retry_after(response),
    )


def judge_fault(fault: Fault, response: HttpResponse) -> DeliveryFailed:
    """Return the failure of a message that was answered by a fault. Only if the server is busy, it is sent again."""
    return DeliveryFailed(
        kind="refused",
        reason=_shorten(f"SOAP fault {fault.code}: {fault.reason}" + (f" {fault.detail}" if fault.detail else "")),
        status=response.status_text,
        again=response.status in AGAIN_STATUSES or response.status == 503,
        after_seconds=_retry_after(response),
        fault=describe_fault(fault),
    )


def judge_unusable(kind: str, reason: str, response: HttpResponse) -> DeliveryFailed:
    """Return the failure of a message that was processed, while the response to it cannot be used."""
    reason = _shorten(f"the answer cannot be used: {reason}")
    return DeliveryFailed(kind=kind, reason=reason, status=response.status_text, again=False)


def judge_error(error: Exception) -> DeliveryFailed:
    """Return the failure of a message to which there is no response."""
    match error:
        case TimeoutError():
            return DeliveryFailed(kind="timeout", reason=f"no answer in time ({type(error).__name__})")
        case ssl.SSLCertVerificationError():
            return DeliveryFailed(kind="invalidCertificate", reason=_shorten(str(error)), again=False)
        case socket.gaierror():
            return DeliveryFailed(kind="nameResolution", reason=_shorten(str(error)))
        case HttpError() | OSError():
            return DeliveryFailed(kind="disconnectedTransport", reason=_shorten(str(error) or type(error).__name__))
        case InvalidUrl() | UnicodeError():
            return DeliveryFailed(kind="routing", reason=_shorten(str(error)), again=False)
    return DeliveryFailed(kind="disconnectedTransport", reason=_shorten(f"{type(error).__name__}: {error}"))


def _beginning(response: HttpResponse) -> str:
    """Return what the body of a refusal begins with, in an encoding that is allowed."""
    named = _CHARSET.search(response.headers.get("content-type", ""))
    encoding = encoding_named(named[1]) if named is not None else None
    return response.body[:BEGINNING_BYTES_MAX].decode(encoding or "utf-8", "replace")


def _retry_after(response: HttpResponse) -> float | None:
    """Return the seconds until the server wants to be asked again: it says so, or gives a date."""
    text = response.headers.get("retry-after", "").strip()
    if not text:
        return None
    if text.isdecimal() and len(text) < 10:
        return float(text)
    try:
        at = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    if at.tzinfo is None:
        at = at.replace(tzinfo=UTC)
    return max((at - datetime.now(UTC)).total_seconds(), 0.0)


def _shorten(text: str) -> str:
    return text if len(text) <= REASON_CHARACTERS_MAX else text[: REASON_CHARACTERS_MAX - 1] + "…"
