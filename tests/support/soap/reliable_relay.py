"""A source and a destination of WS-ReliableMessaging that exchange bytes over a relay which loses, doubles and delays.

Both keep nothing but texts, as a store does, and read them anew for every event. Either may end before it has stored
what an event did, or after that and before it has sent anything.
"""

from __future__ import annotations

import heapq
import random
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from uuid import UUID

from demaq.backoff import Backoff
from demaq.documents import parse_document
from demaq.soap import read_addressing, read_envelope, read_fault, write_envelope
from demaq.soap.addressing.addressing_headers import (
    AddressingHeaders,
    Relationship,
    make_message_id,
    write_addressing,
)
from demaq.soap.addressing.addressing_versions import ADDRESSING_HEADERS
from demaq.soap.addressing.endpoint_reference import make_anonymous
from demaq.soap.envelope import Envelope
from demaq.soap.faults import write_protocol_fault
from demaq.soap.qualified_names import ENVELOPES
from demaq.soap.reliability.delivery_assurance import DeliveryAssurance
from demaq.soap.reliability.inbound_sequence import InboundSequence
from demaq.soap.reliability.outbound_sequence import ENDED, OutboundSequence
from demaq.soap.reliability.protocol_messages import (
    CloseSequence,
    CloseSequenceResponse,
    CreateSequence,
    CreateSequenceResponse,
    ProtocolMessage,
    TerminateSequence,
    TerminateSequenceResponse,
    find_action,
)
from demaq.soap.reliability.protocol_reader import is_last_message_action, read_protocol_message
from demaq.soap.reliability.protocol_writer import write_protocol_message
from demaq.soap.reliability.reliability_faults import make_protocol_fault, read_reliability_fault
from demaq.soap.reliability.reliability_versions import LAST_MESSAGE, RELIABILITY_HEADERS, ReliabilityVersion
from demaq.soap.reliability.sequence_creation import CreationRules, answer_creation, create_inbound
from demaq.soap.reliability.sequence_destination import (
    AckRequested,
    CloseRequested,
    ConfirmClose,
    ConfirmTerminate,
    DiscardMessages,
    HoldBack,
    IgnoreDuplicate,
    InboundEvent,
    MessageArrived,
    ReleaseMessages,
    SendAcknowledgement,
    SendFault,
    StoreMessage,
    TerminateRequested,
    advance,
    refuse_unknown,
)
from demaq.soap.reliability.sequence_headers import (
    AckRequest,
    SequenceHeader,
    read_reliability,
    write_ack_request,
    write_acknowledgement,
    write_sequence,
)
from demaq.soap.reliability.sequence_source import (
    BeginAgain,
    GiveUp,
    MarkDelivered,
    OutboundDecision,
    ReportFault,
    RetransmissionRules,
    SendClose,
    SendCreate,
    SendNumbered,
    SendTerminate,
    assign_number,
    finish,
    next_due,
    note_acknowledged,
    note_closed,
    note_created,
    note_fault,
    note_terminated,
    restart,
    take_due,
)

UNDERSTOOD = ADDRESSING_HEADERS | RELIABILITY_HEADERS
RULES = RetransmissionRules(
    backoff=Backoff(seconds_first=5.0, seconds_max=20.0, jitter=0.5), attempts_max=60, restarts_max=10
)
ACCEPTED = b"202 "
"""Begins the answer of HTTP without an envelope; the rest says to which message."""


@dataclass
class Weather:
    """What happens on the way, and at both ends."""

    chance: random.Random
    loss: float = 0.25
    doubling: float = 0.25
    delay_seconds_max: float = 15.0
    crash: float = 0.05
    seen: Counter[str] = field(default_factory=Counter)

    def strikes(self, what: str, share: float) -> bool:
        happens = self.chance.random() < share
        self.seen[what] += happens
        return happens


class Relay:
    """Packets on their way."""

    def __init__(self, weather: Weather) -> None:
        self._weather = weather
        self._packets: list[tuple[float, int, str, bytes]] = []
        self._sent = 0
        self._newest: Counter[str] = Counter()

    def send(self, to: str, data: bytes, now: float) -> None:
        if self._weather.strikes(f"lost on the way to the {to}", self._weather.loss):
            return
        copies = 1 + self._weather.strikes(f"doubled on the way to the {to}", self._weather.doubling)
        for _ in range(copies):
            self._sent += 1
            arrives_at = now + self._weather.chance.uniform(0.0, self._weather.delay_seconds_max)
            heapq.heappush(self._packets, (arrives_at, self._sent, to, data))

    @property
    def next_arrival(self) -> float | None:
        return self._packets[0][0] if self._packets else None

    def receive(self) -> tuple[str, bytes]:
        _, number, to, data = heapq.heappop(self._packets)
        self._weather.seen[f"reordered on the way to the {to}"] += number < self._newest[to]
        self._newest[to] = max(number, self._newest[to])
        return to, data


class RelaySource:
    """Sends texts, each once as far as the application is concerned."""

    def __init__(self, weather: Weather, version: ReliabilityVersion, soap: str) -> None:
        self._weather = weather
        self._soap = soap
        self._version = version
        self._text = OutboundSequence(
            version=version, acks_to=make_anonymous(version.addressing), creation_id=self._name()
        ).to_json()
        self.payloads: dict[int, str] = {}
        self.delivered: list[str] = []
        self.failed: list[str] = []
        self.resent: list[str] = []
        """What was numbered again in another sequence."""

    @property
    def value(self) -> OutboundSequence:
        return OutboundSequence.from_json(self._text)

    def _name(self) -> str:
        return make_message_id(lambda: UUID(int=self._weather.chance.getrandbits(128)))

    def submit(self, payload: str, is_last: bool) -> None:
        """Take a message of the application: its number and the sequence are stored in one transaction."""
        value, number = assign_number(self.value)
        self.payloads[number] = payload
        self._text = (finish(value) if is_last else value).to_json()

    def wake(self, now: float) -> list[bytes]:
        return self._step(lambda value: take_due(value, now, RULES, self._weather.chance.random))

    def receive(self, data: bytes, now: float) -> list[bytes]:
        if data.startswith(ACCEPTED):
            is_ours = data == ACCEPTED + (self.value.identifier or "").encode()
            return self._step(lambda value: (note_terminated(value) if is_ours else value, ()))
        tree = parse_document(data).tree
        envelope = read_envelope(tree, UNDERSTOOD)
        packets: list[bytes] = []
        for acknowledgement in read_reliability(envelope.headers, self._soap).acknowledgements:
            packets += self._step(lambda value, one=acknowledgement: note_acknowledged(value, one, now))  # type: ignore[misc]
        fault = read_fault(tree)
        if fault is not None:
            found = read_reliability_fault(fault, envelope.headers)
            assert found is not None, "the destination has no other faults"
            return packets + self._step(lambda value: note_fault(value, found))
        addressing = read_addressing(envelope.headers, self._soap)
        message = read_protocol_message(envelope)
        answered = addressing.answers if addressing is not None else None
        return packets + self._step(lambda value: (self._note(value, message, answered, now), ()))

    def _note(
        self, value: OutboundSequence, message: ProtocolMessage | None, answered: str | None, now: float
    ) -> OutboundSequence:
        match message:
            case CreateSequenceResponse():
                return note_created(value, message, now) if answered == value.creation_id else value
            case CloseSequenceResponse():
                return note_closed(value) if message.identifier == value.identifier else value
            case TerminateSequenceResponse():
                return note_terminated(value) if message.identifier == value.identifier else value
        assert message is None, "the destination sends only answers"
        return value

    def _step(
        self, act: Callable[[OutboundSequence], tuple[OutboundSequence, tuple[OutboundDecision, ...]]]
    ) -> list[bytes]:
        """Carry an event out: a transaction, then packets."""
        value, decisions = act(self.value)
        if self._weather.strikes("source ended before it has stored anything", self._weather.crash):
            return []
        payloads = dict(self.payloads)
        if BeginAgain() in decisions:
            self._weather.seen["sequences that begin again"] += 1
            value, pairs = restart(value, creation_id=self._name())
            payloads = {new: self.payloads[old] for old, new in pairs}
            self.resent += payloads.values()
        for decision in decisions:
            if isinstance(decision, MarkDelivered):
                self.delivered += [self.payloads[number] for number in decision.message_numbers]
            elif isinstance(decision, GiveUp):
                self.failed += [self.payloads[number] for number in decision.message_numbers]
        self._text, self.payloads = value.to_json(), payloads
        if self._weather.strikes("source ended before it has sent anything", self._weather.crash):
            return []
        return [packet for decision in decisions for packet in self._packets(value, decision)]

    def _packets(self, value: OutboundSequence, decision: OutboundDecision) -> Iterable[bytes]:
        match decision:
            case SendCreate():
                yield self._protocol(value.make_creation(), value.creation_id)
            case SendClose(last):
                assert value.identifier is not None
                yield self._protocol(
                    CloseSequence(version=self._version, identifier=value.identifier, last_number=last), self._name()
                )
            case SendTerminate(last):
                assert value.identifier is not None
                last = last if self._version.has_close else None
                yield self._protocol(
                    TerminateSequence(version=self._version, identifier=value.identifier, last_number=last),
                    self._name(),
                )
            case SendNumbered(number, is_marker, asks_for_ack):
                assert value.identifier is not None
                header = SequenceHeader(
                    version=self._version, identifier=value.identifier, message_number=number, is_last=is_marker
                )
                blocks = [write_sequence(header, ENVELOPES[self._soap])]
                if asks_for_ack:
                    blocks.append(write_ack_request(AckRequest(version=self._version, identifier=value.identifier)))
                action = self._version.action(LAST_MESSAGE) if is_marker else "urn:text"
                blocks += write_addressing(AddressingHeaders(version=self._version.addressing, action=action))
                body = None if is_marker else f"<text>{self.payloads[number]}</text>"
                yield write_envelope(self._soap, body, blocks)
            case ReportFault(fault):
                raise AssertionError(f"the destination acknowledges only what was sent: {fault}")

    def _protocol(self, message: ProtocolMessage, name: str) -> bytes:
        addressing = AddressingHeaders(version=self._version.addressing, message_id=name, action=find_action(message))
        return write_envelope(self._soap, write_protocol_message(message), write_addressing(addressing))


class RelayDestination:
    """Receives texts, and delivers them as its assurance says."""

    def __init__(self, weather: Weather, assurance: DeliveryAssurance, soap: str) -> None:
        self._weather = weather
        self._soap = soap
        self._rules = CreationRules(assurance=assurance, lifetime_seconds_max=1e6)
        self.texts: dict[str, str] = {}
        self._held: dict[tuple[str, int], str] = {}
        self.delivered: list[str] = []

    def forget(self) -> None:
        """Lose all sequences, and what they hold back."""
        self.texts.clear()
        self._held.clear()

    def receive(self, data: bytes, now: float) -> list[bytes]:
        envelope = read_envelope(parse_document(data).tree, UNDERSTOOD)
        addressing = read_addressing(envelope.headers, self._soap)
        assert addressing is not None
        message = read_protocol_message(envelope)
        if isinstance(message, CreateSequence):
            return self._create(message, addressing, now)
        identifier, version, events = self._events(envelope, message, addressing)
        stored = self.texts.get(identifier)
        if stored is None:
            return [self._fault(refuse_unknown(version, identifier))]
        value, packets, changes = InboundSequence.from_json(stored), list[bytes](), list[Callable[[], None]]()
        for event in events:
            value, decisions = advance(value, event, now)
            for decision in decisions:
                match decision:
                    case StoreMessage():
                        changes.append(lambda: self.delivered.append(_text(envelope)))
                    case HoldBack(number):
                        changes.append(lambda n=number: self._held.update({(identifier, n): _text(envelope)}))  # type: ignore[misc]
                        self._weather.seen["messages held back"] += 1
                    case ReleaseMessages(numbers):
                        changes.append(
                            lambda ns=numbers: self.delivered.extend([self._held.pop((identifier, n)) for n in ns])  # type: ignore[misc]
                        )
                    case SendAcknowledgement():
                        packets.append(write_envelope(self._soap, None, [write_acknowledgement(value.acknowledge())]))
                    case ConfirmClose():
                        packets.append(
                            self._answer(CloseSequenceResponse(version=version, identifier=identifier), addressing)
                        )
                    case ConfirmTerminate():
                        packets.append(
                            self._answer(TerminateSequenceResponse(version=version, identifier=identifier), addressing)
                        )
                    case SendFault():
                        packets.append(self._fault(decision))
                        self._weather.seen["faults"] += 1
                    case IgnoreDuplicate():
                        self._weather.seen["duplicates ignored"] += 1
                    case DiscardMessages():
                        self._weather.seen["messages discarded"] += 1
        if isinstance(message, TerminateSequence) and not version.has_close:
            packets.append(ACCEPTED + identifier.encode())

        def store() -> None:
            self.texts[identifier] = value.to_json()
            for change in changes:
                change()

        return self._commit(store, packets)

    def _create(self, message: CreateSequence, addressing: AddressingHeaders, now: float) -> list[bytes]:
        known = [value for value in self.values if value.created_by == addressing.message_id]
        made = (
            known[0]
            if known
            else create_inbound(
                message,
                self._rules,
                identifier=make_message_id(lambda: UUID(int=self._weather.chance.getrandbits(128))),
                message_id=addressing.message_id,
                now=now,
            )
        )
        assert isinstance(made, InboundSequence)
        answer = answer_creation(made, make_anonymous(made.version.addressing), now)
        return self._commit(
            lambda: self.texts.setdefault(made.identifier, made.to_json()), [self._answer(answer, addressing)]
        )

    @property
    def values(self) -> list[InboundSequence]:
        return [InboundSequence.from_json(text) for text in self.texts.values()]

    def _events(
        self, envelope: Envelope, message: ProtocolMessage | None, addressing: AddressingHeaders
    ) -> tuple[str, ReliabilityVersion, list[InboundEvent]]:
        if isinstance(message, CloseSequence):
            return message.identifier, message.version, [CloseRequested(message.last_number)]
        if isinstance(message, TerminateSequence):
            return message.identifier, message.version, [TerminateRequested(message.last_number)]
        blocks = read_reliability(envelope.headers, self._soap)
        header = blocks.sequence
        assert header is not None, "the source sends nothing else"
        arrived = MessageArrived(header.message_number, header.is_last, not is_last_message_action(addressing.action))
        return header.identifier, header.version, [arrived, *[AckRequested() for _ in blocks.ack_requests]]

    def _commit(self, store: Callable[[], object], packets: list[bytes]) -> list[bytes]:
        if self._weather.strikes("destination ended before it has stored anything", self._weather.crash):
            return []
        store()
        if self._weather.strikes("destination ended before it has sent anything", self._weather.crash):
            return []
        return packets

    def _answer(self, message: ProtocolMessage, request: AddressingHeaders) -> bytes:
        related = [Relationship(message_id=request.message_id or "", kind=request.version.reply)]
        addressing = AddressingHeaders(version=request.version, action=find_action(message), relationships=related)
        return write_envelope(self._soap, write_protocol_message(message), write_addressing(addressing))

    def _fault(self, decision: SendFault) -> bytes:
        return write_protocol_fault(make_protocol_fault(decision.fault), self._soap)


def _text(envelope: Envelope) -> str:
    assert envelope.body is not None
    return parse_document(envelope.body).tree.getroot().text or ""


@dataclass
class Exchange:
    """A source, a destination and the relay between them, with a clock of its own."""

    weather: Weather
    version: ReliabilityVersion
    assurance: DeliveryAssurance
    soap: str
    count: int
    forgets_at: float | None = None
    """When the destination loses its sequences."""
    now: float = 0.0

    def __post_init__(self) -> None:
        self.relay = Relay(self.weather)
        self.source = RelaySource(self.weather, self.version, self.soap)
        self.destination = RelayDestination(self.weather, self.assurance, self.soap)
        self.payloads = [f"text {number}" for number in range(self.count)]

    def run(self, seconds_max: float = 50_000.0) -> None:
        """Run until the source has ended, and all packets have arrived."""
        due = sorted([self.weather.chance.uniform(0.0, 60.0) for _ in self.payloads])
        waiting = list(zip(due, self.payloads, strict=True))
        while True:
            times = [waiting[0][0] if waiting else None, next_due(self.source.value), self.relay.next_arrival]
            known = [time for time in times if time is not None]
            if not known:
                break
            self.now = max(self.now, min(known))
            assert self.now < seconds_max, "the exchange does not end"
            if self.forgets_at is not None and self.now >= self.forgets_at:
                self.destination.forget()
                self.forgets_at = None
            if waiting and waiting[0][0] <= self.now:
                if self.source.value.has_room:
                    self.source.submit(waiting.pop(0)[1], is_last=not waiting)
                else:  # while it begins again
                    waiting[0] = (self.now + 1.0, waiting[0][1])
            arrival = self.relay.next_arrival
            if arrival is not None and arrival <= self.now:
                to, data = self.relay.receive()
                if to == "source":
                    self._send("destination", self.source.receive(data, self.now))
                else:
                    self._send("source", self.destination.receive(data, self.now))
            self._send("destination", self.source.wake(self.now))
        assert self.source.value.state in ENDED

    def _send(self, to: str, packets: Iterable[bytes]) -> None:
        for packet in packets:
            self.relay.send(to, packet, self.now)
