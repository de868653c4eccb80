"""Write the answers of one incoming gateway in SOAP: replies, faults, acknowledgements, messages about sequences.

Every envelope gets the headers of addressing and reliability that its request asks for, and is then secured as the
policy says.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from http import HTTPStatus
from uuid import UUID, uuid4

from demaq.documents import Document, parse_document
from demaq.errors import MessageError, OperatorError
from demaq.gateways.connections import Reply
from demaq.gateways.http.received_envelope import ReceivedEnvelope
from demaq.gateways.reliability.sequence_requests import SequenceOutcome
from demaq.gateways.security.envelope_security import EnvelopeSecurity
from demaq.soap import (
    AddressingHeaders,
    Operation,
    SoapAnswer,
    SoapRefusal,
    content_type,
    fault_status,
    make_answer,
    make_fault_answer,
    write_envelope,
    write_fault,
)
from demaq.soap.addressing.action_checks import find_answer_action
from demaq.soap.addressing.addressing_headers import make_answer_headers, make_message_id
from demaq.soap.addressing.addressing_versions import ADDRESSING_1_0
from demaq.soap.addressing.answer_routes import AnswerRoute, OnConnection, ToEndpoint, route_answer, route_fault
from demaq.soap.addressing.endpoint_reference import EndpointReference, make_anonymous
from demaq.soap.faults import read_fault
from demaq.soap.qualified_names import ENVELOPES
from demaq.soap.refusals import SERVER, refuse
from demaq.soap.reliability.protocol_messages import (
    CloseSequence,
    CloseSequenceResponse,
    CreateSequence,
    ProtocolMessage,
    TerminateSequence,
    TerminateSequenceResponse,
    find_action,
)
from demaq.soap.reliability.protocol_writer import write_protocol_message
from demaq.soap.reliability.reliability_faults import make_protocol_fault
from demaq.soap.reliability.reliability_versions import ACKNOWLEDGEMENT
from demaq.soap.reliability.sequence_creation import answer_creation
from demaq.soap.reliability.sequence_headers import (
    Acknowledgement,
    SequenceHeader,
    write_acknowledgement,
    write_sequence,
)

_log = logging.getLogger("demaq.soap")


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutedAnswer:
    """An answer, and where it goes."""

    answer: SoapAnswer
    route: AnswerRoute
    action: str | None = None
    """The action of WS-Addressing, which a request of our own has in its HTTP headers as well."""


class SoapWriter:
    """Writes for one gateway."""

    def __init__(self, security: EnvelopeSecurity | None, make_uuid: Callable[[], UUID] = uuid4) -> None:
        self._security = security
        self._make_uuid = make_uuid

    def write_reply(
        self,
        received: ReceivedEnvelope,
        reply: Reply,
        acknowledgement: Acknowledgement | None = None,
        sequence: SequenceHeader | None = None,
        message_id: str | None = None,
    ) -> RoutedAnswer:
        """Return the answer of the application, or the fault that an error message of the system becomes."""
        fault = _find_fault_name(received.operation, reply)
        route = route_answer(received.addressing) if fault is None else route_fault(received.addressing)
        action = _find_action(received, fault)
        blocks = self._make_blocks(received, route, action, acknowledgement, sequence, message_id)
        if reply.is_error:
            data = write_fault(received.version, SERVER, _error_text(reply.body), reply.body, blocks)
            status = fault_status(received.version, SERVER)
            answer = SoapAnswer(data=data, content_type=content_type(received.version), status=status)
        else:
            answer = make_answer(received.operation, reply.body, received.version, blocks)
        return RoutedAnswer(answer=self._secure(received, answer), route=route, action=action)

    def write_refusal(
        self,
        received: ReceivedEnvelope,
        error: MessageError,
        acknowledgement: Acknowledgement | None = None,
        sequence: SequenceHeader | None = None,
    ) -> RoutedAnswer:
        """Return the fault for a request that is refused."""
        route = route_fault(received.addressing)
        action = None
        if received.addressing is not None:
            protocol = error.protocol if isinstance(error, SoapRefusal) else None
            action = protocol.action if protocol is not None else ADDRESSING_1_0.other_fault_action
            if action == ADDRESSING_1_0.other_fault_action:  # what has no action of its own has that of the version
                action = received.addressing.version.other_fault_action
        blocks = self._make_blocks(received, route, action, acknowledgement, sequence)
        plain = make_fault_answer(received.version, error, blocks)
        return RoutedAnswer(answer=self._secure(received, plain), route=route, action=action)

    def write_sequence_answer(self, received: ReceivedEnvelope, outcome: SequenceOutcome, now: float) -> RoutedAnswer:
        """Return the answer to a request about a sequence."""
        if outcome.fault is not None:
            refusal = refuse(make_protocol_fault(outcome.fault), received.version)
            return self.write_refusal(received, refusal, outcome.acknowledgement)
        message = _make_protocol_answer(received, outcome, now)
        if message is None:
            return self.write_acknowledgement(received, outcome.acknowledgement)
        route = route_answer(received.addressing)
        action = find_action(message)
        blocks = self._make_blocks(received, route, action, outcome.acknowledgement)
        return self._write_plain(received, write_protocol_message(message), blocks, route, action)

    def write_acknowledgement(
        self,
        received: ReceivedEnvelope,
        acknowledgement: Acknowledgement | None,
        to: EndpointReference | None = None,
    ) -> RoutedAnswer:
        """Return an answer that has only an acknowledgement, or nothing but a status."""
        if acknowledgement is None:
            empty = SoapAnswer(data=b"", content_type=content_type(received.version), status=HTTPStatus.ACCEPTED)
            return RoutedAnswer(answer=empty, route=OnConnection())
        action = acknowledgement.version.action(ACKNOWLEDGEMENT)
        route = ToEndpoint(to) if to is not None else OnConnection()
        blocks = self._make_blocks(received, route, action, acknowledgement)
        return self._write_plain(received, None, blocks, route, action)

    def _write_plain(
        self,
        received: ReceivedEnvelope,
        body: str | None,
        blocks: Iterable[str],
        route: AnswerRoute,
        action: str,
    ) -> RoutedAnswer:
        data = write_envelope(received.version, body, blocks)
        answer = SoapAnswer(data=data, content_type=content_type(received.version), status=HTTPStatus.OK)
        return RoutedAnswer(answer=self._secure(received, answer), route=route, action=action)

    def _make_blocks(
        self,
        received: ReceivedEnvelope,
        route: AnswerRoute,
        action: str | None,
        acknowledgement: Acknowledgement | None,
        sequence: SequenceHeader | None = None,
        message_id: str | None = None,
    ) -> list[str]:
        """Return the header blocks of an answer. `sequence` is its place among the answers, if it has one."""
        blocks: list[str] = []
        if received.addressing is not None:
            message_id = message_id or make_message_id(self._make_uuid)
            to = route.endpoint if isinstance(route, OnConnection | ToEndpoint) else None
            blocks += make_answer_headers(received.addressing, message_id=message_id, action=action, to=to)
        if sequence is not None:
            blocks.append(write_sequence(sequence, ENVELOPES[received.version]))
        if acknowledgement is not None:
            blocks.append(write_acknowledgement(acknowledgement))
        return blocks

    def _secure(self, received: ReceivedEnvelope, answer: SoapAnswer) -> SoapAnswer:
        """Return an answer with a security header, if the policy asks for one.

        If it cannot be secured, because a key is missing or the certificate of the sender does not fit, the answer does
        not leave the node: the sender gets a fault that says nothing of it.
        """
        if self._security is None:
            return answer
        try:
            data = self._security.secure_answer(answer.data, received.verified)
        except (OperatorError, MessageError) as error:
            _log.error("an answer cannot be secured: %s", error)
            data = write_fault(received.version, SERVER, "the answer cannot be secured")
            status = fault_status(received.version, SERVER)
            return SoapAnswer(data=data, content_type=answer.content_type, status=status)
        return SoapAnswer(data=data, content_type=answer.content_type, status=answer.status)


def _make_protocol_answer(received: ReceivedEnvelope, outcome: SequenceOutcome, now: float) -> ProtocolMessage | None:
    """Return the message that answers a request about a sequence; 1.0 answers only the first one."""
    asked, sequence = received.protocol, outcome.sequence
    if asked is None or sequence is None:
        return None
    match asked:
        case CreateSequence():
            return answer_creation(sequence, _find_own_endpoint(received, asked), now)
        case CloseSequence():
            return CloseSequenceResponse(version=asked.version, identifier=sequence.identifier)
        case TerminateSequence() if asked.version.has_close:
            return TerminateSequenceResponse(version=asked.version, identifier=sequence.identifier)
    return None


def _find_own_endpoint(received: ReceivedEnvelope, asked: CreateSequence) -> EndpointReference:
    """Return where answers in an offered sequence are acknowledged: where its source has found us."""
    version = received.addressing.version if received.addressing is not None else asked.version.addressing
    to = received.addressing.to if received.addressing is not None else None
    if to is None or not to.lower().startswith(("http:", "https:")):
        return make_anonymous(version)
    return EndpointReference(version=version, address=to)


def _find_fault_name(operation: Operation | None, reply: Reply) -> str | None:
    """Return the name of the declared fault that a reply is, `""` for any other fault, None if it is none."""
    if reply.is_error:
        return ""
    root = Document(reply.body).tree.getroot()
    if read_fault(root.getroottree()) is not None:
        return ""
    faults = operation.faults if operation is not None else {}
    return next(iter([name for name, element in faults.items() if element == root.tag]), None)


def _find_action(received: ReceivedEnvelope, fault: str | None) -> str | None:
    addressing: AddressingHeaders | None = received.addressing
    if addressing is None:
        return None
    if received.operation is not None:
        return find_answer_action(received.operation, addressing, fault)
    return addressing.version.other_fault_action if fault is not None else None


def _error_text(body: str) -> str:
    description = parse_document(body).tree.findtext("description")
    return description or "the request could not be processed"
