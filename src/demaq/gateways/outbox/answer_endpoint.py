"""Answers of SOAP that come by themselves, as requests of the other side: replies, faults and acknowledgements.

The gateway is found by the message that is answered, or by the sequence that is acknowledged. Nothing has any effect
before the envelope was verified as the policy of that gateway demands.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from http import HTTPStatus

from lxml import etree

from demaq.documents import parse_document
from demaq.errors import MessageError, OperatorError
from demaq.gateways.http.responses import HttpAnswer
from demaq.gateways.outbox.delivery_results import DeliveryFailed, ResponseFacts
from demaq.gateways.outbox.http_connection import HttpResponse
from demaq.gateways.outbox.message_ids import find_message
from demaq.gateways.outbox.outbox import Outbox
from demaq.gateways.outbox.request_addressing import AnswerPlace
from demaq.gateways.outbox.soap_client import ComposedRequest
from demaq.gateways.outbox.soap_responses import SoapResponse
from demaq.gateways.outbox.soap_sender import SoapSender
from demaq.gateways.reliability.outbound_channels import OutboundChannels
from demaq.gateways.reliability.outbound_draft import JournalDraft
from demaq.soap import detect_version, make_fault_answer, read_addressing, read_envelope
from demaq.soap.addressing.addressing_faults import make_header_required, make_invalid_header
from demaq.soap.addressing.addressing_versions import ADDRESSING_1_0, AddressingVersion
from demaq.soap.envelope import Envelope
from demaq.soap.qualified_names import SOAP_1_1
from demaq.soap.refusals import CLIENT, SoapRefusal, refuse
from demaq.soap.reliability.protocol_messages import (
    CloseSequenceResponse,
    CreateSequenceResponse,
    TerminateSequenceResponse,
)
from demaq.soap.reliability.protocol_reader import read_protocol_message
from demaq.soap.reliability.reliability_faults import FaultName, ReliabilityFault, make_protocol_fault
from demaq.soap.reliability.reliability_versions import ReliabilityVersion
from demaq.soap.reliability.sequence_headers import read_reliability
from demaq.soap.reliability.sequence_source import ReportFault, note_acknowledged
from demaq.store.epochs import Epochs
from demaq.store.protocol import Store, StoredMessage

RETRY_SECONDS = 10
"""When the other side may try again, if the store cannot be written."""

_log = logging.getLogger("demaq.outbox")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answered:
    """What an envelope is about, before it is verified."""

    sender: SoapSender
    soap: str
    addressing: AddressingVersion
    message: StoredMessage | None = None
    """The message that it answers."""
    sequence: str | None = None
    """The name of the sequence whose CreateSequence it answers."""


class AnswerEndpoint:
    """Belongs to one event loop."""

    def __init__(
        self,
        store: Store,
        epochs: Epochs,
        senders: Mapping[str, SoapSender],
        outbox: Outbox,
        channels: OutboundChannels,
    ) -> None:
        """`senders` are by gateway."""
        self._store = store
        self._epochs = epochs
        self._senders = senders
        self._outbox = outbox
        self._channels = channels

    async def receive(self, body: bytes, headers: Mapping[str, str], *, is_https: bool) -> HttpAnswer:
        """Take an envelope, and return the response to it: 202, or a fault. Never raises."""
        try:
            return await self._receive(body, headers, is_https=is_https)
        except MessageError as error:
            refusal = make_fault_answer(SOAP_1_1, error)
            return HttpAnswer(status=refusal.status, body=refusal.data, content_type=refusal.content_type)
        except OperatorError as error:
            _log.warning("an answer cannot be stored: %s", error)
            retry = {"Retry-After": str(RETRY_SECONDS)}
            return HttpAnswer(status=HTTPStatus.SERVICE_UNAVAILABLE, headers=retry)

    async def _receive(self, body: bytes, headers: Mapping[str, str], *, is_https: bool) -> HttpAnswer:
        tree = parse_document(body).tree
        envelope = _open(tree)
        answered = await self._find(envelope)
        response = HttpResponse(status=HTTPStatus.OK, headers=_lower(headers), body=body)
        read = await self._read(answered, response, is_https=is_https)
        if not read.is_verified:
            assert isinstance(read.result, DeliveryFailed), "an envelope that is refused has a reason"
            raise SoapRefusal(CLIENT, read.result.reason, version=answered.soap, kind=read.result.kind)
        facts = self._check_facts(answered, read)
        if answered.message is not None and read.result is not None and read.fault is None:
            await self._outbox.conclude(answered.message, replace(read.result, facts=facts), answered.sender.queue)
        else:
            await self._note(answered, read, facts)
        return HttpAnswer(status=HTTPStatus.ACCEPTED)

    async def _find(self, envelope: Envelope) -> _Answered:
        """Return what an envelope is about. Raises SoapRefusal if that is not known here."""
        soap = envelope.version
        addressing = read_addressing(envelope.headers, soap)
        version = addressing.version if addressing is not None else ADDRESSING_1_0
        related = addressing.answers if addressing is not None else None
        if related is not None:
            message = await self._find_message(related)
            if message is not None:
                sender = self._senders[message.queue]
                return _Answered(sender=sender, soap=soap, addressing=version, message=message)
            entry = await self._channels.writer.run(lambda: self._channels.journal.find(related))
            if entry is not None and entry.queue in self._senders:
                sender = self._senders[entry.queue]
                return _Answered(sender=sender, soap=soap, addressing=version, sequence=entry.name)
        found = _find_identifier(envelope)
        if found is not None:
            known = await self._channels.writer.run(lambda: self._channels.journal.find_by_identifier(found[1]))
            if known is not None and known.queue in self._senders:
                return _Answered(sender=self._senders[known.queue], soap=soap, addressing=version)
            unknown = ReliabilityFault(version=found[0], name=FaultName.UNKNOWN_SEQUENCE, identifier=found[1])
            raise refuse(make_protocol_fault(unknown), soap)
        if related is None:
            raise refuse(make_header_required(version, "RelatesTo"), soap)
        reason = "RelatesTo of WS-Addressing names no message that was sent from here"
        raise refuse(make_invalid_header(version, "RelatesTo", None, reason), soap)

    async def _find_message(self, message_id: str) -> StoredMessage | None:
        seq = find_message(self._epochs, message_id)
        if seq is None:
            given = [sender.find_awaited(message_id) for sender in self._senders.values()]
            seq = next(iter([one for one in given if one is not None]), None)
        if seq is None:
            return None
        number = seq
        message = await self._channels.writer.run(lambda: self._store.message(number))
        return message if message is not None and message.queue in self._senders else None

    async def _read(self, answered: _Answered, response: HttpResponse, *, is_https: bool) -> SoapResponse:
        """Return what an envelope says, as the answer to one of the requests that it may answer."""
        sender, message = answered.sender, answered.message
        requests = list(sender.awaited(message.seq)) if message is not None else []
        if not requests:
            operation = sender.composer.check(message) if message is not None else None
            requests = [ComposedRequest(data=b"", headers={}, operation=operation, answer=AnswerPlace.ENDPOINT)]
        # If it has to confirm the signatures of its request, it is not known which attempt it answers.
        read = await sender.read(replace(requests[0], is_https=is_https), response)
        for other in requests[1:]:
            if read.is_verified or sender.client.security is None:
                break
            read = await sender.read(replace(other, is_https=is_https), response)
        return read

    def _check_facts(self, answered: _Answered, read: SoapResponse) -> ResponseFacts:
        """Return what an envelope says about sequences. Raises SoapRefusal for an invalid acknowledgement (4.4)."""
        for one in read.acknowledgements:
            entry = self._channels.journal.find_by_identifier(one.identifier)
            decisions = note_acknowledged(entry.value, one, 0.0)[1] if entry is not None else ()
            for decision in decisions:
                if isinstance(decision, ReportFault):
                    raise refuse(make_protocol_fault(decision.fault), answered.soap)
        name = answered.sequence
        if read.fault is not None and read.fault.identifier is not None:
            entry = self._channels.journal.find_by_identifier(read.fault.identifier)
            name = entry.name if entry is not None else name
        elif answered.message is not None:
            place = self._channels.journal.locate(answered.message.seq)
            name = place[0].name if place is not None else name
        return read.facts(name)

    async def _note(self, answered: _Answered, read: SoapResponse, facts: ResponseFacts) -> None:
        """Note what an envelope says about sequences alone."""
        protocol = read.protocol
        identifier = protocol.identifier if isinstance(protocol, _ENDS) else None
        entry = self._channels.journal.find_by_identifier(identifier) if identifier is not None else None

        def act(draft: JournalDraft) -> None:
            draft.note_facts(facts)
            if isinstance(protocol, CreateSequenceResponse) and answered.sequence is not None:
                draft.note_created(answered.sequence, protocol)
            if isinstance(protocol, CloseSequenceResponse) and entry is not None:
                draft.note_closed(entry.name)
            if isinstance(protocol, TerminateSequenceResponse) and entry is not None:
                draft.note_terminated(entry.name)

        await self._channels.writer.change(act)


_ENDS = (CloseSequenceResponse, TerminateSequenceResponse)


def _open(tree: etree._ElementTree) -> Envelope:
    """Return an envelope as it is, to find out what it is about. Raises MessageError."""
    if detect_version(tree) is None:
        raise MessageError("schemaViolation", "this is no SOAP envelope")
    names = [str(block.tag) for child in tree.getroot() for block in child if isinstance(block.tag, str)]
    return read_envelope(tree, frozenset(names))


def _find_identifier(envelope: Envelope) -> tuple[ReliabilityVersion, str] | None:
    """Return the sequence that an envelope acknowledges, or whose end it confirms."""
    acknowledgements = read_reliability(envelope.headers, envelope.version).acknowledgements
    if acknowledgements:
        return acknowledgements[0].version, acknowledgements[0].identifier
    protocol = read_protocol_message(envelope)
    return (protocol.version, protocol.identifier) if isinstance(protocol, _ENDS) else None


def _lower(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}
