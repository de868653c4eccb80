"""Read the protocol messages of WS-ReliableMessaging from the Body of an envelope.

Elements of other namespaces are extensions, and ignored (3.1).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from demaq.soap.addressing.endpoint_reference import EndpointReference, find_endpoint
from demaq.soap.envelope import Envelope, Header, is_for_us
from demaq.soap.qualified_names import local_name, shorten
from demaq.soap.refusals import MUST_UNDERSTAND, SoapRefusal
from demaq.soap.reliability.protocol_elements import ElementReader
from demaq.soap.reliability.protocol_messages import (
    CloseSequence,
    CloseSequenceResponse,
    CreateSequence,
    CreateSequenceResponse,
    IncompleteBehavior,
    Offer,
    ProtocolMessage,
    TerminateSequence,
    TerminateSequenceResponse,
)
from demaq.soap.reliability.reliability_versions import LAST_MESSAGE, RELIABILITY_VERSIONS, find_version
from demaq.xml_parsers import parse_characters

SECURED_SEQUENCES: Final = frozenset(
    [version.tag(name) for version in RELIABILITY_VERSIONS.values() for name in ("UsesSequenceSTR", "UsesSequenceSSL")]
)
"""Header blocks that bind a sequence to a security context (5.3), which is not supported."""


def read_protocol_message(envelope: Envelope) -> ProtocolMessage | None:
    """Return the protocol message in an envelope, or None if it is an application's. Raises SoapRefusal."""
    _refuse_secured(envelope)
    version = find_version(envelope.body_name)
    if version is None or envelope.body is None:
        return None
    element = parse_characters(envelope.body.encode())
    name = local_name(str(element.tag))
    reader = ElementReader(element, version, envelope.version)
    read = _READERS.get(name)
    if read is None or (not version.has_close and name not in _OF_1_0):
        raise reader.refuse("is no message of this version")
    return read(reader)


def is_last_message_action(action: str | None) -> bool:
    """Return whether a message has an empty Body only to mark the end of a sequence of 1.0 (WCF sends those)."""
    return action in [version.action(LAST_MESSAGE) for version in RELIABILITY_VERSIONS.values()]


def _refuse_secured(envelope: Envelope) -> None:
    """Refuse a block that binds a sequence to a security context, even one that need not be understood.

    Its sender relies on the binding.
    """

    def binds(header: Header) -> bool:
        return header.name in SECURED_SEQUENCES and is_for_us(header, envelope.version)

    names = [header.name for header in envelope.headers if binds(header)]
    if names:
        reason = f"{shorten(', '.join(map(local_name, names)))} of WS-ReliableMessaging is not supported"
        raise SoapRefusal(MUST_UNDERSTAND, reason, version=envelope.version, not_understood=names)


def _read_create(reader: ElementReader) -> CreateSequence:
    acks_to = _read_endpoint(reader, "AcksTo")
    if acks_to is None:
        raise reader.refuse("has no AcksTo")
    offer = reader.child("Offer")
    return CreateSequence(
        version=reader.version,
        acks_to=acks_to,
        expires_seconds=reader.lifetime(),
        offer=_read_offer(ElementReader(offer, reader.version, reader.soap)) if offer is not None else None,
    )


def _read_offer(reader: ElementReader) -> Offer:
    return Offer(
        identifier=reader.identifier(),
        # 1.0 has no such element, but gSOAP writes it, with an empty address
        endpoint=_read_endpoint(reader, "Endpoint") if reader.version.has_close else None,
        expires_seconds=reader.lifetime(),
        behavior=_read_behavior(reader),
    )


def _read_create_response(reader: ElementReader) -> CreateSequenceResponse:
    accept = reader.child("Accept")
    accepted: EndpointReference | None = None
    if accept is not None:
        accepted = _read_endpoint(ElementReader(accept, reader.version, reader.soap), "AcksTo")
        if accepted is None:
            raise reader.refuse("accepts an offer without AcksTo")
    return CreateSequenceResponse(
        version=reader.version,
        identifier=reader.identifier(),
        expires_seconds=reader.lifetime(),
        behavior=_read_behavior(reader),
        accepted_acks_to=accepted,
    )


def _read_endpoint(reader: ElementReader, name: str) -> EndpointReference | None:
    reader.child(name)  # refuses several
    return find_endpoint(reader.element, reader.version.tag(name), reader.soap)


def _read_behavior(reader: ElementReader) -> IncompleteBehavior:
    text = reader.text("IncompleteSequenceBehavior") if reader.version.has_close else None
    try:
        return IncompleteBehavior(text) if text is not None else IncompleteBehavior.NO_DISCARD
    except ValueError:
        raise reader.refuse(f"has the unknown IncompleteSequenceBehavior {shorten(text or '')}") from None


_READERS: dict[str, Callable[[ElementReader], ProtocolMessage]] = {
    "CreateSequence": _read_create,
    "CreateSequenceResponse": _read_create_response,
    "CloseSequence": lambda reader: CloseSequence(
        version=reader.version, identifier=reader.identifier(), last_number=reader.number("LastMsgNumber")
    ),
    "CloseSequenceResponse": lambda reader: CloseSequenceResponse(
        version=reader.version, identifier=reader.identifier()
    ),
    "TerminateSequence": lambda reader: TerminateSequence(
        version=reader.version, identifier=reader.identifier(), last_number=reader.number("LastMsgNumber")
    ),
    "TerminateSequenceResponse": lambda reader: TerminateSequenceResponse(
        version=reader.version, identifier=reader.identifier()
    ),
}
_OF_1_0 = ("CreateSequence", "CreateSequenceResponse", "TerminateSequence")
