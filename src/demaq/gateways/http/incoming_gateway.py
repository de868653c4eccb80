"""One incoming gateway over HTTP: a request becomes a message, and the sender gets an answer."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar
from urllib.parse import quote

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import Scope

from demaq.documents import Document, parse_document
from demaq.errors import MessageError
from demaq.gateways.admission import Overloaded, RateExceeded
from demaq.gateways.answer_destination import encode_destination
from demaq.gateways.connections import Connections, Reply, connection_name
from demaq.gateways.http.headers import HOPS_HEADER, MESSAGE_HEADER, SENDER_HEADER, hops_of
from demaq.gateways.http.http_protocol import HALF_CLOSED
from demaq.gateways.http.received_envelope import ReceivedEnvelope
from demaq.gateways.http.request import QuickHeaders, address_of, identify_sender
from demaq.gateways.http.request_body import (
    Held,
    Reservation,
    Unfinished,
    expect_xml,
    header_properties,
    idempotency_key,
    media_type,
    prefers_no_answer,
    read_body,
    text_of,
    wait_seconds,
)
from demaq.gateways.http.request_spans import record_received
from demaq.gateways.http.responses import (
    ID_HEADER,
    XML,
    HttpAnswer,
    Refusal,
    make_accepted,
    make_refusal,
    respond_to_error,
)
from demaq.gateways.http.soap_service import SoapService
from demaq.gateways.idempotency import request_of
from demaq.gateways.message_intake import Intake, Receipt, Submitted, as_properties
from demaq.gateways.received_spans import trace_properties
from demaq.gateways.reliability.sequence_requests import SequencedArrival, SequenceOutcome
from demaq.gateways.security.authentication import ANONYMOUS, Authenticator, Identity
from demaq.gateways.settings import IncomingSettings
from demaq.messages import PropertyValue
from demaq.records import record
from demaq.soap import (
    Interface,
    SoapRefusal,
    content_type,
    detect_version,
    fault_status,
    make_fault_answer,
    write_fault,
)
from demaq.soap.envelope import remove_secret_blocks
from demaq.soap.qualified_names import SOAP_1_1, SOAP_1_2
from demaq.soap.refusals import SERVER
from demaq.span_recorder import SpanRecorder
from demaq.store.request_names import digest_of
from demaq.system_properties import ANSWER_TO

FAULT_STATUSES = (400, 422, 504)
"""What is refused with them is answered with a fault where SOAP came in; all others are HTTP's own, before SOAP."""
KEPT_STATUSES = (400, 413, 415)
"""What is refused with them becomes an error message."""
PARSE_BESIDE_BYTES = 64 * 1024
"""A larger body is read in a thread, so that others do not wait; one of this size takes a few milliseconds, and most
take less than one. To hand one over costs as much as to parse it, where threads contend for the interpreter."""
HEADS_MAX = 1_000
"""So many heads are remembered: clients repeat theirs, and to read one takes as long as to parse 1 KB."""
HEAD_BYTES_MAX = 1_000
"""A longer one is not remembered."""
_HOST = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::[0-9]{1,5})?")
_NODE_MESSAGE = re.compile(r"[0-9a-f]{32}/[1-9][0-9]{0,18}")


_MESSAGE_HEADER, _SENDER_HEADER, _HOPS_HEADER = MESSAGE_HEADER.lower(), SENDER_HEADER.lower(), HOPS_HEADER.lower()

_log = logging.getLogger("demaq.http")

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedRequest:
    """What a request says."""

    document: Document
    properties: Mapping[str, str]
    received: ReceivedEnvelope | None = None
    """The envelope that it came in."""


@record
class PlainHead:
    """What the head of a request says that is for nothing but to store a message, and may be repeated."""

    content_type: str | None
    transport: Mapping[str, PropertyValue]
    """Properties of how a message came here."""
    properties: Mapping[str, str]
    """Properties that the sender sets."""
    hops: int


@dataclass(frozen=True, slots=True)
class TakenRequest:
    """A plain request whose message is being stored."""

    submitted: Submitted
    reservation: Reservation


class IncomingGateway:
    """Answers the requests for one queue."""

    def __init__(
        self,
        queue: str,
        settings: IncomingSettings,
        interface: Interface | None,
        may_answer: bool,
        intake: Intake,
        connections: Connections,
        authenticator: Authenticator,
        held: Held,
        soap: SoapService,
        served: Mapping[str, Interface] | None = None,
        spans: SpanRecorder | None = None,
    ) -> None:
        """`may_answer` says whether the application has any way to answer requests of this gateway.

        `served` are the interfaces of all gateways of the node, by their paths. Requests are recorded in `spans`.
        """
        self.queue = queue
        self._settings = settings
        self._interface = interface
        self._may_answer = may_answer
        self._intake = intake
        self._connections = connections
        self._authenticator = authenticator
        self._held = held
        self._soap = soap
        self._served = served or {}
        self._spans = spans
        self._allowed = "POST" if interface is None else "GET, HEAD, POST"
        is_plain = not settings.auth and interface is None and not soap.reader.needs_envelope
        self._may_take = is_plain and not may_answer and spans is None
        """Whether requests may be for nothing but to store a message."""
        self._heads: dict[tuple[Any, ...], PlainHead] = {}
        """By address and headers without the length."""

    # requests that need nothing but to be stored

    def take(self, scope: Scope, body: bytes) -> TakenRequest | None:
        """Begin to store the message of a request that is all there, without a task and without waiting.

        Return None if that is not possible, whatever the reason: then nothing has happened, and `answer` finds out.
        """
        if not self._may_take or scope["method"] != "POST" or not self._intake.is_open(self.queue):
            return None
        if len(body) > min(PARSE_BESIDE_BYTES, self._settings.body_bytes_max):
            return None
        head = self._find_head(scope)
        if head is None:
            return None
        try:
            self._held.pass_through(len(body))
            reservation = self._held.reserve(body)
        except Refusal:
            return None
        submitted = None
        try:
            submitted = self._begin_to_store(head, body, reservation)
        except (MessageError, Refusal, Overloaded):
            return None
        finally:
            if submitted is None:
                reservation.keep(0)
        return None if submitted is None else TakenRequest(submitted, reservation)

    def _find_head(self, scope: Scope) -> PlainHead | None:
        """Return what the head of a plain request says; None if the request is another one, or may be repeated."""
        address = address_of(scope)
        known = (address, *[header for header in scope["headers"] if header[0] != b"content-length"])
        head = self._heads.get(known)
        if head is None:
            head = self._read_head(address, QuickHeaders(scope["headers"]))
            if head is not None and sum([len(name) + len(value) for name, value in known[1:]]) <= HEAD_BYTES_MAX:
                if len(self._heads) >= HEADS_MAX:
                    self._heads.clear()
                self._heads[known] = head
        return head

    def _read_head(self, address: str, headers: Headers) -> PlainHead | None:
        if "idempotency-key" in headers or _MESSAGE_HEADER in headers or self._find_soap_version(headers) is not None:
            return None
        try:
            expect_xml(headers)
        except Refusal:
            return None
        transport = _make_transport(headers, header_properties(headers.items()), address)
        return PlainHead(
            content_type=headers.get("content-type"),
            transport=as_properties(transport),
            properties=_said_properties(headers),
            hops=hops_of(headers.get(_HOPS_HEADER)),
        )

    def _begin_to_store(self, head: PlainHead, body: bytes, reservation: Reservation) -> Submitted | None:
        """Return None for what is no plain message. Raises a MessageError or a Refusal for what is none at all."""
        document = _parse(body, head.content_type, reservation)
        if detect_version(document.tree) is not None:
            return None
        return self._intake.begin(
            self.queue,
            body,
            transport=head.transport,
            properties=head.properties,
            request=None,
            document=document,
            hops=head.hops,
        )

    def find_answer(self, taken: TakenRequest) -> HttpAnswer | None:
        """Return the answer to a request that was taken if its message is stored; otherwise `finish` returns one."""
        receipt = taken.submitted.find_receipt()
        if receipt is None or receipt.message is None:
            return None
        taken.reservation.keep(0)
        _log.debug("gateway %s has received message %s", self.queue, receipt.message)
        return make_accepted(receipt.message)

    async def finish(self, taken: TakenRequest) -> HttpAnswer:
        """Return the answer to a request that was taken."""
        try:
            receipt = await self._intake.finish(taken.submitted)
        except MessageError as error:
            return respond_to_error(error)
        except Overloaded as error:
            return _respond_overloaded(error)
        finally:
            taken.reservation.keep(0)
        assert receipt.message is not None, "only a message in a sequence may be held back"
        return make_accepted(receipt.message)

    # all requests

    async def answer(self, request: Request) -> HttpAnswer:
        """Return what to answer. Raises a Refusal if the request is none for this gateway."""
        if request.method in ("GET", "HEAD"):
            return self._description(request)
        if request.method != "POST":
            raise Refusal(405, "messages are sent with POST", {"Allow": self._allowed})
        if self._spans is None:
            return await self._receive(request)
        return await record_received(self._spans, self.queue, request.headers, lambda: self._receive(request))

    async def _receive(self, request: Request) -> HttpAnswer:
        identity = ANONYMOUS
        if self._settings.auth:
            found = await identify_sender(self._authenticator, self.queue, request)
            if isinstance(found, HttpAnswer):
                return found
            identity = found
        try:
            self._intake.admit(self.queue)
        except Overloaded as error:
            return _respond_overloaded(error)
        came_as = self._find_soap_version(request.headers)
        try:
            expect_xml(request.headers)
            key = idempotency_key(request.headers)
            settings = self._settings
            body = await read_body(request, settings.body_bytes_max, settings.body_seconds_max, self._held)
        except Refusal as error:
            await self._keep(error, await self._read_rest(request) if error.status == 415 else b"")
            return _respond_refused(came_as, error)
        try:
            reservation = self._held.reserve(body)
        except Refusal as error:
            return _respond_refused(came_as, error)
        try:
            return await self._take(request, identity, body, key, came_as, reservation)
        finally:
            reservation.keep(0)

    async def _read_rest(self, request: Request) -> bytes:
        """Return the body of a request that is refused, if it is not too large."""
        settings = self._settings
        try:
            return await read_body(request, settings.body_bytes_max, settings.body_seconds_max, self._held)
        except Refusal:
            return b""

    async def _keep(self, error: Refusal, body: bytes) -> None:
        """Tell the application's operators what came and was no message. What is too large is not kept."""
        if error.status in KEPT_STATUSES and not isinstance(error, Unfinished):
            with contextlib.suppress(Overloaded):
                await self._intake.refuse(self.queue, body, MessageError("refused", error.reason))

    # asking about the gateway

    def _description(self, request: Request) -> HttpAnswer:
        wanted = {name.lower(): value for name, value in request.query_params.items()}
        if self._interface is None or not wanted.keys() & {"wsdl", "xsd"}:
            hint = "; ask for ?wsdl to see what it takes" if self._interface is not None else ""
            raise Refusal(405, f"messages are sent here with POST{hint}", {"Allow": self._allowed})
        origin = _origin(request)
        address = origin + quote(request.scope["path"])
        others = [(interface, origin + quote(path)) for path, interface in self._served.items()]
        name = wanted.get("wsdl") or wanted.get("xsd") or ""
        interface = self._interface
        data = interface.publish_file(name, address, others) if name else interface.publish(address, others)
        if data is None:
            raise Refusal(404, f"the interface has no part {name[:80]!r}")
        return HttpAnswer(status=200, body=data, content_type="text/xml; charset=utf-8")

    # messages

    async def _take(
        self,
        request: Request,
        identity: Identity,
        body: bytes,
        key: str | None,
        came_as: str | None,
        reservation: Reservation,
    ) -> HttpAnswer:
        received: ReceivedEnvelope | None = None
        headers = request.headers
        is_large = len(body) > PARSE_BESIDE_BYTES
        name = await _run_in_thread(
            is_large and _may_be_named(headers, key), lambda: self._request_name(headers, identity, key, body)
        )
        try:
            try:
                document = await _run_in_thread(
                    is_large, lambda: _parse(body, headers.get("content-type"), reservation)
                )
                version = detect_version(document.tree)
                if version is None and (came_as == SOAP_1_2 or self._soap.reader.needs_envelope):
                    version = came_as or SOAP_1_1  # a sender that declares an envelope gets what is wrong with it
                if version is None and "soapaction" not in headers:
                    came_as = None  # it is no envelope, and none was declared
                if version is None:
                    is_checked = is_large and self._interface is not None
                    parsed = await _run_in_thread(is_checked, lambda: self._parse_plain(headers, document))
                else:
                    received = ReceivedEnvelope(version=version)
                    taken = reservation.double()  # what is inside gets a tree of its own
                    parsed_or_none = await self._parse_envelope(request, received, document, is_large)
                    document.forget_tree()
                    reservation.keep(taken)
                    if parsed_or_none is None:
                        return await self._change_sequences(received, identity)
                    parsed = parsed_or_none
            except MessageError as error:
                text = await _run_in_thread(is_large, lambda: text_of(body, headers.get("content-type")))
                return await self._refuse(request, identity, text, error, received, name, came_as)
            return await self._store_and_answer(request, identity, parsed, name, body, reservation)
        except MessageError as error:
            return await self._respond_error(error, received, came_as)
        except Refusal as error:
            await self._keep(error, body)
            return _respond_refused(received.version if received is not None else came_as, error)
        except Overloaded as error:
            return _respond_overloaded(error)

    def _parse_plain(self, headers: Headers, document: Document) -> ParsedRequest:
        if self._interface is not None:
            self._interface.check_input(document.tree)
        return ParsedRequest(document=document, properties=header_properties(headers.items()))

    async def _parse_envelope(
        self, request: Request, received: ReceivedEnvelope, document: Document, is_large: bool
    ) -> ParsedRequest | None:
        """Return what is in an envelope; None if that is no message, but something about sequences."""
        is_https = request.scope["scheme"] == "https"
        read = self._soap.reader.read
        # Signatures and keys take milliseconds.
        await _run_in_thread(
            is_large or self._soap.is_secured, lambda: read(received, document, request.headers, is_https=is_https)
        )
        if received.document is None:
            return None
        return ParsedRequest(document=received.document, properties=received.properties, received=received)

    async def _change_sequences(self, received: ReceivedEnvelope, identity: Identity) -> HttpAnswer:
        """Do what an envelope asks about sequences, and return the response."""
        outcome = SequenceOutcome(sequence=None)
        for asked in self._soap.list_sequence_requests(received, _peer(received, identity)):
            outcome = await self._intake.change_sequence(asked)
        return await self._soap.respond_to_sequence(received, outcome)

    async def _refuse(
        self,
        request: Request,
        identity: Identity,
        text: bytes | str,
        error: MessageError,
        received: ReceivedEnvelope | None,
        name: str | None,
        came_as: str | None,
    ) -> HttpAnswer:
        """Keep a message that is refused, and return the response.

        In a sequence it is acknowledged: it is kept, and would be refused again.
        """
        _log.info("gateway %s refuses a message: %s", self.queue, error.kind)
        arrival, keys, outcome = None, None, None
        if received is not None:
            arrival = self._soap.find_arrival(received, _peer(received, identity))
            keys = received.replay_keys
        receipt = await self._intake.refuse(
            self.queue,
            self._conceal(text),
            error,
            request=name,
            hops=hops_of(request.headers.get(_HOPS_HEADER)),
            arrival=arrival,
            replay_keys=keys,
        )
        outcome = receipt.sequence
        if received is not None and outcome is not None and outcome.fault is not None:
            return await self._soap.respond_to_sequence(received, outcome)
        return await self._respond_error(error, received, came_as, outcome)

    def _conceal(self, text: bytes | str) -> bytes | str:
        """Return what may be kept of a request that is refused: no header block that may hold a password."""
        has_header = b"Security" in text if isinstance(text, bytes) else "Security" in text
        if not has_header and not self._soap.is_secured:
            return text
        try:
            return remove_secret_blocks(parse_document(text).tree)
        except MessageError:
            return b"" if self._soap.is_secured else text

    def _request_name(self, headers: Mapping[str, str], identity: Identity, key: str | None, body: bytes) -> str | None:
        """Return the name of a request that may be repeated: that of another node's message, or the sender's key."""
        other = headers.get(_MESSAGE_HEADER)
        is_from_node = other is not None and _NODE_MESSAGE.fullmatch(other) is not None
        if key is None and not is_from_node:
            return None
        digest = digest_of([*[headers.get(name) for name in ("content-type", "soapaction", _SENDER_HEADER)], body])
        if other is not None and is_from_node:
            return request_of("node", self.queue, identity, other, digest, is_guessable=True)
        assert key is not None, "it is known by one of the two"
        return request_of("http", self.queue, identity, key, digest, is_guessable=False)

    def _sequence_request_name(
        self, request: Request, identity: Identity, received: ReceivedEnvelope, arrival: SequencedArrival
    ) -> str:
        """Return the name of a message in a sequence. Each attempt has another envelope around the same document."""
        other = request.headers.get(_MESSAGE_HEADER)
        if other is not None and _NODE_MESSAGE.fullmatch(other) is not None and received.document is not None:
            digest = digest_of([received.document.text])  # in another sequence it is the same message
            return request_of("node", self.queue, identity, other, digest, is_guessable=True)
        header = arrival.header
        return f"wsrm:{self.queue}:{quote(arrival.owner.peer, safe='')}:{header.identifier}/{header.message_number}"

    async def _store_and_answer(
        self,
        request: Request,
        identity: Identity,
        parsed: ParsedRequest,
        name: str | None,
        body: bytes,
        reservation: Reservation,
    ) -> HttpAnswer:
        headers, received = request.headers, parsed.received
        arrival = self._soap.find_arrival(received, _peer(received, identity)) if received is not None else None
        if received is not None and arrival is not None:
            name = self._sequence_request_name(request, identity, received, arrival)
        verified = received.sender if received is not None else None
        sender = verified or identity.name or address_of(request.scope)
        transport = _make_transport(headers, parsed.properties, sender)
        waits = self._wants_reply(parsed, headers)
        connection = ""
        if self._may_answer:
            connection = connection_name(self.queue, name)
            transport["demaq:connection"] = connection
            if received is not None and not self._soap.wants_answer_here(received):
                transport[ANSWER_TO] = encode_destination(self.queue, received)
        reply = self._connections.open(connection, self.queue, self._check_of(parsed)) if waits else None
        try:
            receipt = await self._intake.receive(
                self.queue,
                self._conceal(body) if received is not None else body,
                transport=transport,
                properties=_said_properties(headers),
                request=name,
                document=parsed.document,
                hops=hops_of(headers.get(_HOPS_HEADER)),
                arrival=arrival,
                replay_keys=received.replay_keys if received is not None else None,
            )
            _log.debug("gateway %s has received message %s", self.queue, receipt.message)
            parsed.document.forget_tree()  # the sender may wait for long
            reservation.keep(len(body))
            if received is not None and receipt.error is not None:
                return await self._soap.respond_refusal(received, receipt.error, receipt.sequence)
            is_refused = receipt.sequence is not None and receipt.sequence.fault is not None
            if reply is None or is_refused:
                return await self._respond_accepted(parsed, receipt)
            if not receipt.is_new and name is not None:
                known = await self._intake.read_answer(connection)
                if known is not None:
                    answered = Reply(body=known.body, is_error=known.status >= 500)
                    return await self._respond_reply(parsed, answered, receipt)
            seconds = wait_seconds(headers, self._settings.reply_seconds_max)
            found = await _wait_for_reply(reply, request, seconds)
            if found is None:
                return await self._respond_late(parsed, receipt)
            return await self._respond_reply(parsed, found, receipt)
        finally:
            if reply is not None:
                self._connections.leave(connection, reply)

    def _check_of(self, parsed: ParsedRequest) -> Callable[[str], None]:
        """Return what an answer to a request must be."""
        interface = self._interface
        operation = parsed.received.operation if parsed.received is not None else None
        if interface is None or operation is None:
            return lambda body: None
        return lambda body: interface.check_answer(Document(body).tree, operation)

    def _wants_reply(self, parsed: ParsedRequest, headers: Headers) -> bool:
        """Return whether the sender is to wait for an answer: there can be one, and the sender does not decline it."""
        if not self._may_answer or prefers_no_answer(headers):
            return False
        received = parsed.received
        if received is None:
            return True
        is_one_way = received.operation is not None and received.operation.is_one_way
        return not is_one_way and self._soap.wants_answer_here(received)

    # answers

    async def _respond_accepted(self, parsed: ParsedRequest, receipt: Receipt) -> HttpAnswer:
        if parsed.received is None:
            assert receipt.message is not None, "only a message in a sequence may be held back"
            return make_accepted(receipt.message)
        return _with_id(await self._soap.respond_accepted(parsed.received, receipt.sequence), receipt)

    async def _respond_late(self, parsed: ParsedRequest, receipt: Receipt) -> HttpAnswer:
        is_acknowledged = receipt.sequence is not None
        if self._settings.late == "accepted" or is_acknowledged:  # in a sequence, the sender asks again
            return await self._respond_accepted(parsed, receipt)
        reason = Refusal(504, "the application has not answered in time", {ID_HEADER: str(receipt.message)})
        if parsed.received is None:
            return _respond_plain(reason, "timeout")
        late = SoapRefusal(SERVER, reason.reason, kind="timeout", version=parsed.received.version)
        return _with_id(await self._soap.respond_refusal(parsed.received, late), receipt)

    async def _respond_reply(self, parsed: ParsedRequest, reply: Reply, receipt: Receipt) -> HttpAnswer:
        if parsed.received is not None:
            return _with_id(await self._soap.respond_reply(parsed.received, reply, receipt.sequence), receipt)
        status = 500 if reply.is_error else 200
        return _with_id(HttpAnswer(status=status, body=reply.body.encode(), content_type=XML), receipt)

    async def _respond_error(
        self,
        error: MessageError,
        received: ReceivedEnvelope | None,
        came_as: str | None,
        outcome: SequenceOutcome | None = None,
    ) -> HttpAnswer:
        """Return the response to a message that was refused: a fault if it came, or should have come, by SOAP."""
        if received is not None:
            return await self._soap.respond_refusal(received, error, outcome)
        version = came_as or (SOAP_1_1 if isinstance(error, SoapRefusal) else None)
        if version is None:
            return respond_to_error(error)
        fault = make_fault_answer(version, error)
        return HttpAnswer(status=fault.status, body=fault.data, content_type=fault.content_type)

    def _find_soap_version(self, headers: Mapping[str, str]) -> str | None:
        """Return the version of SOAP that a request says it is in.

        Many say nothing: the content type of SOAP 1.1 is also that of plain XML, which has to be SOAP where there is
        an interface and nothing else can be read from the body.
        """
        kind = media_type(headers.get("content-type"))
        if kind == "application/soap+xml":
            return SOAP_1_2
        return SOAP_1_1 if "soapaction" in headers or (self._interface is not None and kind == "text/xml") else None


def _parse(body: bytes, content_type: str | None, reservation: Reservation) -> Document:
    """Return the document in a body. Raises a MessageError, or a Refusal if it is not even text."""
    text = text_of(body, content_type)
    return parse_document(text, reservation.marks if text is body else None)


def _make_transport(headers: Headers, read: Mapping[str, str], sender: str) -> dict[str, str]:
    """Return the properties of how a message came here: those that were read, and who it is from."""
    transport = {**read, "demaq:sender": sender}
    kind = headers.get("content-type")
    if kind is not None and kind.isprintable():
        transport["demaq:contentType"] = kind
    transport.update(trace_properties())
    return transport


def _said_properties(headers: Headers) -> dict[str, str]:
    """Return the properties that the sender sets."""
    said = headers.get(_SENDER_HEADER)
    return {"Sender": said} if said is not None and said.isprintable() else {}


def _may_be_named(headers: Headers, key: str | None) -> bool:
    """Return whether a request may have a name, for which its body is read."""
    return key is not None or _MESSAGE_HEADER in headers


def _respond_refused(version: str | None, error: Refusal) -> HttpAnswer:
    """Return a fault where the request came in this version of SOAP and it is about what SOAP processes."""
    if version is None or error.status not in FAULT_STATUSES:
        return _respond_plain(error)
    code = "Client" if error.status < 500 else "Server"
    data = write_fault(version, code, error.reason)
    status = fault_status(version, code)
    return HttpAnswer(status=status, body=data, content_type=content_type(version), headers=error.headers)


def _peer(received: ReceivedEnvelope, identity: Identity) -> str:
    """Return who a sender is, as far as that was proved."""
    return received.sender or identity.name or ""


def _with_id(answer: HttpAnswer, receipt: Receipt) -> HttpAnswer:
    if receipt.message is None:
        return answer
    return replace(answer, headers={**answer.headers, ID_HEADER: str(receipt.message)})


def _respond_overloaded(error: Overloaded) -> HttpAnswer:
    status = 429 if isinstance(error, RateExceeded) else 503
    return _respond_plain(
        Refusal(status, error.reason, {"Retry-After": str(max(1, math.ceil(error.retry_after_seconds)))})
    )


def _respond_plain(error: Refusal, kind: str = "refused") -> HttpAnswer:
    return make_refusal(error.status, kind, error.reason, error.headers)


async def _run_in_thread(is_large: bool, act: Callable[[], T]) -> T:
    """Return the result of a function, which is run in a thread if it takes long."""
    return await asyncio.to_thread(act) if is_large else act()


def _origin(request: Request) -> str:
    """Return where the sender has found the node: by the name that he knows it by, if that can be one."""
    host = request.headers.get("host", "")
    if not _HOST.fullmatch(host):
        name, port = request.scope["server"]
        host = f"[{name}]:{port}" if ":" in name else f"{name}:{port}"
    return f"{request.scope['scheme']}://{host}"


async def _wait_for_reply(reply: asyncio.Future[Reply | None], request: Request, seconds: float) -> Reply | None:
    """Return the answer, if it comes in time and while the sender is there."""
    gone = [
        asyncio.ensure_future(_wait_for_disconnect(request)),
        asyncio.ensure_future(request.scope["state"][HALF_CLOSED].wait()),
    ]
    all_of_it: list[asyncio.Future[Any]] = [reply, *gone]
    try:
        await asyncio.wait(all_of_it, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in gone:
            each.cancel()
    return reply.result() if reply.done() else None


async def _wait_for_disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
