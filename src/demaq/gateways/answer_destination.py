"""Where the application's answer to a request goes that does not want it on its connection, as a property.

All messages of the conversation inherit it, like the name of the connection, so the answer finds its way after a
restart as well. It holds all that the answer's envelope needs of the request.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from demaq.gateways.http.received_envelope import ReceivedEnvelope
from demaq.soap import AddressingHeaders, Interface
from demaq.soap.addressing.addressing_versions import ADDRESSING_VERSIONS
from demaq.soap.addressing.endpoint_reference import EndpointReference
from demaq.soap.security import SenderIdentity, VerifiedEnvelope


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerDestination:
    """A request, as far as its answer depends on it."""

    queue: str
    """The gateway through which it came."""
    received: ReceivedEnvelope


def encode_destination(queue: str, received: ReceivedEnvelope) -> str:
    """Return the text of the property."""
    addressing = received.addressing
    assert addressing is not None, "without addressing there is only the connection"
    return json.dumps(
        {
            "queue": queue,
            "soap": received.version,
            "operation": received.operation.name if received.operation is not None else None,
            "addressing": addressing.version.namespace,
            "message_id": addressing.message_id,
            "action": addressing.action,
            "reply_to": addressing.reply_to.to_plain() if addressing.reply_to is not None else None,
            "fault_to": addressing.fault_to.to_plain() if addressing.fault_to is not None else None,
            **_encode_verified(received.verified),
        }
    )


def decode_destination(text: str, interfaces: Mapping[str, Interface]) -> AnswerDestination:
    """Return what `encode_destination` has written."""
    plain = json.loads(text)
    queue = plain["queue"]
    operations = interfaces[queue].operations if queue in interfaces else ()
    received = ReceivedEnvelope(
        version=plain["soap"],
        verified=_decode_verified(plain),
        addressing=AddressingHeaders(
            version=ADDRESSING_VERSIONS[plain["addressing"]],
            message_id=plain["message_id"],
            action=plain["action"],
            reply_to=_decode_endpoint(plain["reply_to"]),
            fault_to=_decode_endpoint(plain["fault_to"]),
        ),
        operation=next(iter([one for one in operations if one.name == plain["operation"]]), None),
    )
    return AnswerDestination(queue=queue, received=received)


def _decode_endpoint(plain: dict[str, Any] | None) -> EndpointReference | None:
    return EndpointReference.from_plain(plain) if plain is not None else None


def _encode_verified(verified: VerifiedEnvelope | None) -> dict[str, Any]:
    """Return what an answer confirms, and for which certificate it is encrypted. Neither is secret."""
    if verified is None:
        return {}
    found: dict[str, Any] = {"signatures": [base64.b64encode(value).decode() for value in verified.signature_values]}
    if verified.sender.certificate is not None:
        from cryptography.hazmat.primitives.serialization import Encoding

        found["certificate"] = verified.sender.certificate.public_bytes(Encoding.PEM).decode()
    return found


def _decode_verified(plain: dict[str, Any]) -> VerifiedEnvelope | None:
    if "signatures" not in plain:
        return None
    certificate = None
    if "certificate" in plain:
        from cryptography.x509 import load_pem_x509_certificate

        certificate = load_pem_x509_certificate(plain["certificate"].encode())
    return VerifiedEnvelope(
        data=b"",
        version=plain["soap"],
        sender=SenderIdentity(certificate=certificate),
        signature_values=tuple([base64.b64decode(value) for value in plain["signatures"]]),
        is_body_signed=False,
        signed_headers=frozenset(),
    )
