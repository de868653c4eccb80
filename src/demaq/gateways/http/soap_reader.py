"""Read the SOAP requests of one incoming gateway, and check all that its policy asks for.

From the outside to the inside: security, the envelope, addressing, reliability, the message. What one layer has not
accepted, the next one does not look at.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from demaq.documents import Document, parse_document
from demaq.errors import MessageError
from demaq.gateways.http.received_envelope import ReceivedEnvelope
from demaq.gateways.http.request_body import header_properties
from demaq.gateways.outbox.http_url import InvalidUrl, parse_url
from demaq.gateways.security.envelope_security import EnvelopeSecurity
from demaq.gateways.security.recipients import Recipients
from demaq.soap import AddressingHeaders, Envelope, Interface, read_action, read_addressing, read_call
from demaq.soap import read_envelope as parse_envelope
from demaq.soap.addressing.action_checks import check_action, check_soap_action
from demaq.soap.addressing.addressing_faults import ONLY_ANONYMOUS, make_header_required, make_invalid_header
from demaq.soap.addressing.addressing_headers import check_required
from demaq.soap.addressing.addressing_versions import ADDRESSING_1_0, ADDRESSING_HEADERS
from demaq.soap.addressing.answer_routes import ToEndpoint, check_elsewhere_only, route_answer, route_fault
from demaq.soap.addressing.endpoint_reference import EndpointReference
from demaq.soap.envelope import read_block_properties
from demaq.soap.policy import GatewayPolicy
from demaq.soap.policy.gateway_policy import AnswerAddresses
from demaq.soap.qualified_names import shorten
from demaq.soap.refusals import CLIENT, SoapRefusal, refuse
from demaq.soap.reliability.protocol_messages import CloseSequence, CreateSequence, TerminateSequence
from demaq.soap.reliability.protocol_reader import is_last_message_action, read_protocol_message
from demaq.soap.reliability.reliability_faults import FaultName, ReliabilityFault, make_protocol_fault
from demaq.soap.reliability.reliability_versions import RELIABILITY_HEADERS
from demaq.soap.reliability.sequence_headers import read_reliability
from demaq.system_properties import ADDRESSING

REQUESTS: Final = (CreateSequence, CloseSequence, TerminateSequence)


class SoapReader:
    """Reads for one gateway."""

    def __init__(
        self,
        interface: Interface | None,
        policy: GatewayPolicy,
        security: EnvelopeSecurity | None,
        answer_recipients: Recipients,
    ) -> None:
        """`answer_recipients` are the only ones to whom answers go by requests of our own."""
        self._interface = interface
        self._policy = policy
        self._security = security
        self._answer_recipients = answer_recipients
        self._understood = ADDRESSING_HEADERS | (RELIABILITY_HEADERS if policy.reliability is not None else frozenset())

    @property
    def needs_envelope(self) -> bool:
        """Whether a message without an envelope is refused: it cannot be what the policy asks for."""
        return not self._policy.is_empty

    def read(
        self, received: ReceivedEnvelope, document: Document, headers: Mapping[str, str], *, is_https: bool
    ) -> None:
        """Fill in what an envelope holds. Raises MessageError; what is known by then is filled in."""
        if self._security is not None:
            received.verified = self._security.verify_request(document.data, received, is_https=is_https)
            document = parse_document(received.verified.data)
        envelope = parse_envelope(document.tree, self._understood)
        received.addressing = read_addressing(envelope.headers, envelope.version)
        received.properties = {
            **header_properties(headers.items()),
            **read_block_properties(envelope.headers),
            **_make_addressing_properties(received.addressing),
        }
        action = read_action(headers.get("content-type"), headers.get("soapaction"))
        self._check_addressing(received, action)
        if self._policy.reliability is not None and self._read_reliability(received, envelope):
            return
        self._read_message(received, envelope, action)

    def _check_addressing(self, received: ReceivedEnvelope, action: str | None) -> None:
        addressing, version = received.addressing, received.version
        if addressing is None:
            wanted = self._policy.addressing
            if wanted is not None or self._policy.reliability is not None:
                raise refuse(
                    make_header_required(wanted.version if wanted is not None else ADDRESSING_1_0, "Action"), version
                )
            return
        check_required(addressing, version, expects_answer=False)
        check_soap_action(addressing, action, version)
        answers = self._policy.addressing.answers if self._policy.addressing is not None else AnswerAddresses.ANY
        if answers is AnswerAddresses.ELSEWHERE:
            check_elsewhere_only(addressing, version)
        for name, route in (("ReplyTo", route_answer(addressing)), ("FaultTo", route_fault(addressing))):
            if not isinstance(route, ToEndpoint):
                continue
            if answers is AnswerAddresses.ANONYMOUS or not self.may_answer_to(route.endpoint):
                address = shorten(route.endpoint.address)
                reason = f"{name} of WS-Addressing is {address}, and no answers are sent to that address from here"
                # Sent on the connection: nothing goes to an address that is not allowed.
                received.addressing = _without_destinations(addressing)
                raise refuse(make_invalid_header(addressing.version, name, ONLY_ANONYMOUS, reason), version)

    def may_answer_to(self, endpoint: EndpointReference) -> bool:
        """Return whether the settings allow that something is sent to an endpoint."""
        try:
            url = parse_url(endpoint.address)
        except InvalidUrl:
            return False
        return self._answer_recipients.may_name(url.scheme, url.host, url.port)

    def _read_reliability(self, received: ReceivedEnvelope, envelope: Envelope) -> bool:
        """Fill in what WS-ReliableMessaging says. Return whether there is no message besides it."""
        policy = self._policy.reliability
        assert policy is not None, "only asked of reliable gateways"
        received.blocks = blocks = read_reliability(envelope.headers, envelope.version)
        received.protocol = read_protocol_message(envelope)
        if received.protocol is not None:
            if not isinstance(received.protocol, REQUESTS):
                name = type(received.protocol).__name__
                raise SoapRefusal(CLIENT, f"{name} is no request that is answered here", version=envelope.version)
            if isinstance(received.protocol, CreateSequence) and received.protocol.version != policy.version:
                reason = f"sequences of version {received.protocol.version.name} are not created here"
                fault = ReliabilityFault(
                    version=received.protocol.version, name=FaultName.CREATE_SEQUENCE_REFUSED, reason=reason
                )
                raise refuse(make_protocol_fault(fault), envelope.version)
            return True
        if blocks.sequence is not None:
            action = received.addressing.action if received.addressing is not None else None
            return envelope.body is None and (blocks.sequence.is_last or is_last_message_action(action))
        if envelope.body is None and (blocks.ack_requests or blocks.acknowledgements):
            return True
        fault = ReliabilityFault(version=policy.version, name=FaultName.WSRM_REQUIRED)
        raise refuse(make_protocol_fault(fault), envelope.version)

    def _read_message(self, received: ReceivedEnvelope, envelope: Envelope, action: str | None) -> None:
        addressing = received.addressing
        if self._interface is None:
            if envelope.body is None:
                raise MessageError("enqueueError", "the SOAP body is empty, so there is no message in it")
            received.document = parse_document(envelope.body)
            return
        named = action or (addressing.action if addressing is not None else None)
        operation = self._interface.operation(envelope.body_name, named)
        received.operation = operation
        if addressing is not None:
            check_required(addressing, envelope.version, expects_answer=not operation.is_one_way)
            check_action(addressing, operation, action, envelope.version)
        received.document = parse_document(read_call(self._interface, envelope, named).message)


def _make_addressing_properties(addressing: AddressingHeaders | None) -> dict[str, str]:
    """Return the addressing headers as properties, named alike in both versions of WS-Addressing."""
    if addressing is None:
        return {}
    ends = {"From": addressing.source, "ReplyTo": addressing.reply_to, "FaultTo": addressing.fault_to}
    found = {
        "MessageID": addressing.message_id,
        "To": addressing.to,
        "Action": addressing.action,
        "RelatesTo": addressing.answers,
        **{name: end.address if end is not None else None for name, end in ends.items()},
    }
    return {f"{ADDRESSING}{name}": text for name, text in found.items() if text is not None}


def _without_destinations(addressing: AddressingHeaders) -> AddressingHeaders:
    return AddressingHeaders(
        version=addressing.version, message_id=addressing.message_id, to=addressing.to, action=addressing.action
    )
