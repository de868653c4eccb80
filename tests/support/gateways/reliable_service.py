"""A SOAP service that is the destination of sequences, made of the pure rules: bytes in, bytes out."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from demaq.documents import parse_document
from demaq.soap import detect_version, read_addressing, read_envelope, write_envelope
from demaq.soap.addressing.addressing_headers import AddressingHeaders, make_answer_headers, make_message_id
from demaq.soap.addressing.addressing_versions import ADDRESSING_HEADERS
from demaq.soap.addressing.endpoint_reference import make_anonymous
from demaq.soap.envelope import Envelope
from demaq.soap.faults import fault_status, write_protocol_fault
from demaq.soap.reliability.inbound_sequence import InboundSequence
from demaq.soap.reliability.protocol_messages import (
    CloseSequence,
    CloseSequenceResponse,
    CreateSequence,
    ProtocolMessage,
    TerminateSequence,
    TerminateSequenceResponse,
    find_action,
)
from demaq.soap.reliability.protocol_reader import is_last_message_action, read_protocol_message
from demaq.soap.reliability.protocol_writer import write_protocol_message
from demaq.soap.reliability.reliability_faults import FaultName, ReliabilityFault, make_protocol_fault
from demaq.soap.reliability.reliability_versions import ACKNOWLEDGEMENT, RELIABILITY_1_1, RELIABILITY_HEADERS
from demaq.soap.reliability.sequence_creation import CreationRules, answer_creation, create_inbound
from demaq.soap.reliability.sequence_destination import (
    AckRequested,
    CloseRequested,
    ConfirmClose,
    ConfirmTerminate,
    HoldBack,
    InboundDecision,
    InboundEvent,
    MessageArrived,
    ReleaseMessages,
    SendFault,
    StoreMessage,
    TerminateRequested,
    advance,
    refuse_unknown,
)
from demaq.soap.reliability.sequence_headers import (
    Acknowledgement,
    ReliabilityBlocks,
    read_reliability,
    write_acknowledgement,
)
from demaq.soap.transport import content_type
from tests.support.soap.security_parties import MemoryReplayCache

Answer = tuple[int, dict[str, str], bytes]
UNDERSTOOD = ADDRESSING_HEADERS | RELIABILITY_HEADERS
EMPTY: Answer = (202, {}, b"")


@dataclass
class ReliableService:
    """Takes messages, and answers those for which `reply` returns something. May be called by several threads."""

    reply: Callable[[str], str | None] = lambda body: None
    security: Any = None
    """An `EnvelopeSecurity` as a service."""
    now: Callable[[], float] = lambda: datetime.now(UTC).timestamp()
    lifetime_seconds: float = 3600.0
    refuses_sequences: bool = False
    accepts_addresses: bool = False
    acknowledges: bool = True
    """Whether responses have acknowledgements."""
    received: list[str] = field(default_factory=list)
    """What the application got, in order."""
    verified: list[Any] = field(default_factory=list)
    """Requests, if they are secured."""
    lost: set[str] = field(default_factory=set)
    """What was held back, and not given to the application by now."""
    requests: list[AddressingHeaders] = field(default_factory=list)
    wire: dict[tuple[str, int], set[str]] = field(default_factory=dict)
    """Bodies by sequence and number."""
    created: list[str] = field(default_factory=list)
    """MessageIDs of CreateSequence, as they came."""
    seen: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._replays = MemoryReplayCache()
        self._values: dict[str, InboundSequence] = {}
        self._held: dict[tuple[str, int], str] = {}
        self._replies: dict[tuple[str, int], str] = {}

    @property
    def values(self) -> list[InboundSequence]:
        return list(self._values.values())

    def forget(self) -> None:
        """Lose all sequences, and what they hold back."""
        with self._lock:
            self._values.clear()
            self._held.clear()
            self._replies.clear()

    def __call__(self, body: bytes, headers: Mapping[str, str] | None = None) -> Answer:
        with self._lock:
            verified = None
            if self.security is not None:
                verified = self.security.verify_request(body, self._replays, is_https=False)
                self.verified.append(verified)
                body = verified.data
            status, given, data = self._answer(body, headers or {})
            if self.security is not None and data:
                data = self.security.secure_answer(data, verified)
            return status, given, data

    def _answer(self, body: bytes, headers: Mapping[str, str]) -> Answer:
        tree = parse_document(body).tree
        soap = detect_version(tree)
        assert soap is not None
        envelope = read_envelope(tree, UNDERSTOOD)
        addressing = read_addressing(envelope.headers, soap)
        assert addressing is not None, "sequences need addressing"
        assert addressing.action is not None
        assert addressing.action in (headers.get("soapaction") or headers.get("content-type") or addressing.action)
        self.requests.append(addressing)
        message = read_protocol_message(envelope)
        if isinstance(message, CreateSequence):
            return self._create(message, addressing, soap)
        blocks = read_reliability(envelope.headers, soap)
        identifier, events = self._find_events(message, blocks, addressing, envelope)
        value = self._values.get(identifier)
        if value is None:
            version = message.version if message is not None else _version(blocks)
            return self._fault(refuse_unknown(version, identifier), soap, addressing)
        decisions: list[InboundDecision] = []
        for event in events:
            value, more = advance(value, event, self.now())
            decisions += more
        self._values[identifier] = value
        self._carry_out(identifier, decisions, envelope)
        return self._respond(value, decisions, blocks, addressing, soap)

    def _create(self, message: CreateSequence, addressing: AddressingHeaders, soap: str) -> Answer:
        assert addressing.message_id is not None
        self.created.append(addressing.message_id)
        known = [value for value in self._values.values() if value.created_by == addressing.message_id]
        if self.refuses_sequences:
            fault = ReliabilityFault(version=message.version, name=FaultName.CREATE_SEQUENCE_REFUSED, reason="full up")
            return self._fault(SendFault(fault), soap, addressing)
        rules = CreationRules(lifetime_seconds_max=self.lifetime_seconds, accepts_addresses=self.accepts_addresses)
        made = (
            known[0]
            if known
            else create_inbound(
                message, rules, identifier=make_message_id(uuid4), message_id=addressing.message_id, now=self.now()
            )
        )
        assert isinstance(made, InboundSequence), made
        self._values[made.identifier] = made
        answer = answer_creation(made, make_anonymous(addressing.version), self.now())
        return self._write(write_protocol_message(answer), find_action(answer), (), addressing, soap)

    def _find_events(
        self,
        message: ProtocolMessage | None,
        blocks: ReliabilityBlocks,
        addressing: AddressingHeaders,
        envelope: Envelope,
    ) -> tuple[str, list[InboundEvent]]:
        if isinstance(message, CloseSequence):
            self.seen["closed"] += 1
            return message.identifier, [CloseRequested(message.last_number)]
        if isinstance(message, TerminateSequence):
            self.seen["terminated"] += 1
            return message.identifier, [TerminateRequested(message.last_number)]
        header = blocks.sequence
        if header is None:
            self.seen["asked for acknowledgements"] += 1
            return blocks.ack_requests[0].identifier, [AckRequested()]
        is_marker = is_last_message_action(addressing.action)
        self.seen["markers"] += is_marker
        self.seen["asked for acknowledgements"] += bool(blocks.ack_requests)
        self.wire.setdefault((header.identifier, header.message_number), set()).add(envelope.body or "")
        return header.identifier, [MessageArrived(header.message_number, header.is_last, not is_marker)]

    def _carry_out(self, identifier: str, decisions: list[InboundDecision], envelope: Envelope) -> None:
        for decision in decisions:
            match decision:
                case StoreMessage(number):
                    self._receive(identifier, number, envelope.body or "")
                case HoldBack(number):
                    self.seen["held back"] += 1
                    self.lost.add(envelope.body or "")
                    self._held[identifier, number] = envelope.body or ""
                case ReleaseMessages(numbers):
                    for number in numbers:
                        self._receive(identifier, number, self._held.pop((identifier, number)))

    def _receive(self, identifier: str, number: int, body: str) -> None:
        self.received.append(body)
        self.lost.discard(body)
        reply = self.reply(body)
        if reply is not None:
            self._replies[identifier, number] = reply

    def _respond(
        self,
        value: InboundSequence,
        decisions: list[InboundDecision],
        blocks: ReliabilityBlocks,
        addressing: AddressingHeaders,
        soap: str,
    ) -> Answer:
        acknowledged = [write_acknowledgement(value.acknowledge())] if self.acknowledges else []
        for decision in decisions:
            if isinstance(decision, SendFault):
                return self._fault(decision, soap, addressing, acknowledged)
            if isinstance(decision, ConfirmClose | ConfirmTerminate):
                made = CloseSequenceResponse if isinstance(decision, ConfirmClose) else TerminateSequenceResponse
                message = made(version=value.version, identifier=value.identifier)
                return self._write(
                    write_protocol_message(message), find_action(message), acknowledged, addressing, soap
                )
        number = blocks.sequence.message_number if blocks.sequence is not None else 0
        reply = self._replies.get((value.identifier, number))
        is_here = addressing.reply_to is None or addressing.reply_to.is_anonymous
        if reply is not None and is_here:
            return self._write(reply, None, acknowledged, addressing, soap)
        if not value.acks_to.is_anonymous or not acknowledged:
            return EMPTY
        return self._write(None, value.version.action(ACKNOWLEDGEMENT), acknowledged, None, soap)

    def acknowledge(self, identifier: str, soap: str) -> bytes:
        """Return an envelope that acknowledges what was received."""
        value = self._values[identifier]
        return write_envelope(soap, None, [write_acknowledgement(value.acknowledge())])

    def _write(
        self,
        body: str | None,
        action: str | None,
        blocks: list[str] | tuple[str, ...],
        request: AddressingHeaders | None,
        soap: str,
    ) -> Answer:
        own = make_answer_headers(request, message_id=make_message_id(uuid4), action=action) if request else ()
        return 200, {"Content-Type": content_type(soap)}, write_envelope(soap, body, [*own, *blocks])

    def _fault(
        self, decision: SendFault, soap: str, request: AddressingHeaders, blocks: list[str] | None = None
    ) -> Answer:
        self.seen["faults"] += 1
        fault = make_protocol_fault(decision.fault)
        own = make_answer_headers(request, message_id=make_message_id(uuid4), action=fault.action)
        data = write_protocol_fault(fault, soap, [*own, *(blocks or [])])
        return fault_status(soap, fault.code), {"Content-Type": content_type(soap)}, data


def write_foreign_acknowledgement(identifier: str, ranges: Any, soap: str) -> bytes:
    """Return an envelope with an acknowledgement that no destination would write."""
    block = write_acknowledgement(Acknowledgement(version=RELIABILITY_1_1, identifier=identifier, ranges=ranges))
    return write_envelope(soap, None, [block])


def _version(blocks: ReliabilityBlocks) -> Any:
    return blocks.sequence.version if blocks.sequence is not None else blocks.ack_requests[0].version
