"""Envelopes of SOAP 1.1 as clients write them: with the headers of WS-Addressing, signed where the service wants it."""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime

from demaq.soap.security import Protection, secure

SOAP = "http://schemas.xmlsoap.org/soap/envelope/"
ADDRESSING = "http://www.w3.org/2005/08/addressing"
ANONYMOUS = f"{ADDRESSING}/anonymous"
RELIABILITY = "http://docs.oasis-open.org/ws-rx/wsrm/200702"


class EnvelopeWriter:
    """Writes the requests for one service. No two are the same: identifiers and timestamps are new."""

    def __init__(self, address: str, protection: Protection | None = None) -> None:
        """`protection` is what to sign with."""
        self.address = address
        self._protection = protection

    def write(self, action: str, body: str, block: str = "") -> str:
        """Return an envelope with this content of its Body, and with a block besides those of WS-Addressing."""
        envelope = (
            f'<e:Envelope xmlns:e="{SOAP}" xmlns:a="{ADDRESSING}" xmlns:r="{RELIABILITY}"><e:Header>'
            f"<a:MessageID>{uuid.uuid4().urn}</a:MessageID><a:To>{self.address}</a:To>"
            f"<a:Action>{action}</a:Action><a:ReplyTo><a:Address>{ANONYMOUS}</a:Address></a:ReplyTo>{block}"
            f"</e:Header><e:Body>{body}</e:Body></e:Envelope>"
        )
        if self._protection is None:
            return envelope
        signed = secure(envelope.encode(), self._protection, now=datetime.now(UTC), random=secrets.token_bytes)
        return signed.data.decode()


def make_headers(action: str) -> Mapping[str, str]:
    """Return the headers of HTTP for an envelope."""
    return {"Content-Type": "text/xml; charset=utf-8", "SOAPAction": f'"{action}"'}
