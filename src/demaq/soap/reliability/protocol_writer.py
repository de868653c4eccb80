"""Write the protocol messages of WS-ReliableMessaging, as the Body of an envelope."""

from __future__ import annotations

from demaq.soap.addressing.endpoint_reference import EndpointReference, write_endpoint
from demaq.soap.reliability.lifetimes import write_lifetime
from demaq.soap.reliability.protocol_messages import (
    CloseSequence,
    CreateSequence,
    CreateSequenceResponse,
    IncompleteBehavior,
    Offer,
    ProtocolMessage,
    TerminateSequence,
)
from demaq.soap.reliability.reliability_versions import ReliabilityVersion
from demaq.xml_escaping import escape


def write_protocol_message(message: ProtocolMessage) -> str:
    """Return the text of the element. Elements are in the order of the schema, which many receivers insist on."""
    match message:
        case CreateSequence():
            inside = _endpoint("AcksTo", message.acks_to) + _lifetime(message.expires_seconds)
            inside += _offer(message.offer, message.version) if message.offer is not None else ""
        case CreateSequenceResponse():
            inside = _text("Identifier", message.identifier) + _lifetime(message.expires_seconds)
            inside += _behavior(message.behavior, message.version)
            if message.accepted_acks_to is not None:
                inside += f"<wsrm:Accept>{_endpoint('AcksTo', message.accepted_acks_to)}</wsrm:Accept>"
        case CloseSequence() | TerminateSequence():
            inside = _text("Identifier", message.identifier)
            if message.last_number is not None and message.version.has_close:
                inside += _text("LastMsgNumber", str(message.last_number))
        case _:
            inside = _text("Identifier", message.identifier)
    name = type(message).__name__
    return f'<wsrm:{name} xmlns:wsrm="{message.version.namespace}">{inside}</wsrm:{name}>'


def _offer(offer: Offer, version: ReliabilityVersion) -> str:
    endpoint = _endpoint("Endpoint", offer.endpoint) if offer.endpoint is not None and version.has_close else ""
    return (
        f"<wsrm:Offer>{_text('Identifier', offer.identifier)}{endpoint}{_lifetime(offer.expires_seconds)}"
        f"{_behavior(offer.behavior, version)}</wsrm:Offer>"
    )


def _behavior(behavior: IncompleteBehavior, version: ReliabilityVersion) -> str:
    if not version.has_close or behavior == IncompleteBehavior.NO_DISCARD:  # the default
        return ""
    return _text("IncompleteSequenceBehavior", behavior)


def _lifetime(seconds: float | None) -> str:
    return _text("Expires", write_lifetime(seconds)) if seconds is not None else ""


def _endpoint(name: str, endpoint: EndpointReference) -> str:
    return f"<wsrm:{name}>{write_endpoint(endpoint)}</wsrm:{name}>"


def _text(name: str, text: str) -> str:
    return f"<wsrm:{name}>{escape(text)}</wsrm:{name}>"
