"""Responses to senders: statuses, and documents for programs and people."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from demaq.errors import MessageError
from demaq.xml_escaping import escape

XML = "application/xml; charset=utf-8"
ID_HEADER = "Demaq-Message-Id"
STATUSES = {
    "notWellFormed": 400,
    "schemaViolation": 422,
    "propertyError": 422,
    "enqueueError": 422,
}
"""What a refusal of each kind is in HTTP; any other is 422 too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpAnswer:
    status: int
    body: bytes = b""
    content_type: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


class Refusal(Exception):
    """A request that is not for any queue to take: the answer says why."""

    def __init__(self, status: int, reason: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason
        self.headers = dict(headers or {})


def make_accepted(message: int) -> HttpAnswer:
    return HttpAnswer(
        status=202,
        body=f'<accepted message="{message}"/>'.encode(),
        content_type=XML,
        headers={ID_HEADER: str(message)},
    )


def make_refusal(status: int, kind: str, reason: str, headers: Mapping[str, str] | None = None) -> HttpAnswer:
    text = refusal_text(kind, reason)
    return HttpAnswer(status=status, body=text.encode(), content_type=XML, headers=headers or {})


def refusal_text(kind: str, reason: str) -> str:
    """Return a document that begins like an error message, so that a program reads both alike."""
    return f"<error><{kind}/><code>demaq:{kind}</code><description>{escape(_plain(reason))}</description></error>"


def respond_to_error(error: MessageError) -> HttpAnswer:
    return make_refusal(status_of(error), error.kind, error.message)


def status_of(error: MessageError) -> int:
    return STATUSES.get(error.kind, 422)


def _plain(text: str) -> str:
    return "".join([c if c.isprintable() or c in "\n\t" else "\ufffd" for c in text])
