"""One incoming gateway over HTTP: a request becomes a message, and the sender gets an answer."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import quote

from starlette.datastructures import Headers
from starlette.requests import Request

from demaq.documents import Document, parse_document
from demaq.errors import MessageError
from demaq.gateways.admission import Overloaded
from demaq.gateways.connections import Connections, Reply, connection_name
from demaq.gateways.http.headers import HOPS_HEADER, MESSAGE_HEADER, SENDER_HEADER, hops_of
from demaq.gateways.http.http_protocol import HALF_CLOSED
from demaq.gateways.http.request import address_of, identify_sender
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
from demaq.gateways.http.responses import (
    ID_HEADER,
    XML,
    HttpAnswer,
    Refusal,
    make_accepted,
    make_refusal,
    respond_to_error,
)
from demaq.gateways.idempotency import request_of
from demaq.gateways.message_intake import Intake, Receipt
from demaq.gateways.security.authentication import ANONYMOUS, Authenticator, Identity
from demaq.gateways.settings import IncomingSettings
from demaq.soap import (
    AddressingHeaders,
    Interface,
    Operation,
    SoapAnswer,
    SoapRefusal,
    content_type,
    detect_version,
    fault_status,
    make_answer,
    make_answer_headers,
    make_fault_answer,
    read_action,
    read_addressing,
    read_call,
    read_envelope,
    write_fault,
)
from demaq.soap.addressing.answer_routes import check_connection_only
from demaq.soap.envelope import read_block_properties
from demaq.soap.qualified_names import SOAP_1_1, SOAP_1_2
from demaq.store.request_names import digest_of

FAULT_STATUSES = (400, 422, 504)
"""What is refused with them is answered with a fault where SOAP came in; all others are HTTP's own, before SOAP."""
KEPT_STATUSES = (400, 413, 415)
"""What is refused with them becomes an error message."""
PARSE_BESIDE_BYTES = 32 * 1024
"""A larger body is read in a thread, so that others do not wait; one of this size takes a few milliseconds."""
_HOST = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::[0-9]{1,5})?")
_NODE_MESSAGE = re.compile(r"[0-9a-f]{32}/[1-9][0-9]{0,18}")


_MESSAGE_HEADER, _SENDER_HEADER, _HOPS_HEADER = MESSAGE_HEADER.lower(), SENDER_HEADER.lower(), HOPS_HEADER.lower()

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedRequest:
    """What a request says."""

    document: Document
    properties: Mapping[str, str]
    version: str | None = None
    """The version of SOAP it came in."""
    operation: Operation | None = None
    addressing: AddressingHeaders | None = None


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
        served: Mapping[str, Interface] | None = None,
    ) -> None:
        """`may_answer` says whether the application has any way to answer requests of this gateway.

        `publish` are the interfaces of all gateways of the node, by their paths.
        """
        self.queue = queue
        self._settings = settings
        self._interface = interface
        self._may_answer = may_answer
        self._intake = intake
        self._connections = connections
        self._authenticator = authenticator
        self._held = held
        self._served = served or {}
        self._allowed = "POST" if interface is None else "GET, HEAD, POST"

    async def answer(self, request: Request) -> HttpAnswer:
        """Return what to answer. Raises a Refusal if the request is none for this gateway."""
        if request.method in ("GET", "HEAD"):
            return self._description(request)
        if request.method != "POST":
            raise Refusal(405, "messages are sent with POST", {"Allow": self._allowed})
        identity = ANONYMOUS
        if self._settings.auth:
            found = await identify_sender(self._authenticator, self.queue, request)
            if isinstance(found, HttpAnswer):
                return found
            identity = found
        came_as = self._find_soap_version(request.headers)
        try:
            expect_xml(request)
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
        version: str | None = None
        text: bytes | str = body
        is_large = len(body) > PARSE_BESIDE_BYTES
        name = await _run_in_thread(is_large, lambda: self._request_name(request.headers, identity, key, body))
        try:
            try:
                kind = request.headers.get("content-type")
                text = await _run_in_thread(is_large, lambda: text_of(body, kind))
                document = await _run_in_thread(is_large, lambda: parse_document(text))
                version = detect_version(document.tree)
                if version is None and came_as == SOAP_1_2:
                    version = came_as  # a sender that declares an envelope gets what is wrong with it
                if version is None and "soapaction" not in request.headers:
                    came_as = None  # it is no envelope, and none was declared
                taken = reservation.double() if version is not None else None  # what is inside gets a tree of its own
                parsed = await _run_in_thread(is_large, lambda: self._parse_request(request, document, version))
                if parsed.document is not document:
                    document.forget_tree()
                if taken is not None:
                    reservation.keep(taken)
            except MessageError as error:
                hops = hops_of(request.headers.get(_HOPS_HEADER))
                raise await self._intake.refuse(self.queue, text, error, request=name, hops=hops) from None
            return await self._store_and_answer(request, identity, parsed, name, body, reservation)
        except MessageError as error:
            version = version or came_as or (SOAP_1_1 if isinstance(error, SoapRefusal) else None)
            return _wrap_in_fault(make_fault_answer(version, error)) if version is not None else respond_to_error(error)
        except Refusal as error:
            await self._keep(error, body)
            return _respond_refused(version or came_as, error)
        except Overloaded as error:
            return _respond_plain(
                Refusal(503, error.reason, {"Retry-After": str(max(1, round(error.retry_after_seconds)))})
            )

    def _parse_request(self, request: Request, document: Document, version: str | None) -> ParsedRequest:
        """Return what is in the request: the document itself, or what a SOAP envelope holds."""
        headers = header_properties(request.headers.items())
        if version is None:
            if self._interface is not None:
                self._interface.check_input(document.tree)
            return ParsedRequest(document=document, properties=headers)
        action = read_action(request.headers.get("content-type"), request.headers.get("soapaction"))
        envelope = read_envelope(document.tree)
        headers |= read_block_properties(envelope.headers)
        addressing = read_addressing(envelope.headers, envelope.version)
        if addressing is not None:
            check_connection_only(addressing, envelope.version)
        if self._interface is not None:
            if action is None and addressing is not None:
                action = addressing.action
            found = read_call(self._interface, envelope, action)
            return ParsedRequest(
                document=parse_document(found.message),
                properties=headers,
                version=envelope.version,
                operation=found.operation,
                addressing=addressing,
            )
        if envelope.body is None:
            raise MessageError("enqueueError", "the SOAP body is empty, so there is no message in it")
        return ParsedRequest(
            document=parse_document(envelope.body),
            properties=headers,
            version=envelope.version,
            addressing=addressing,
        )

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

    async def _store_and_answer(
        self,
        request: Request,
        identity: Identity,
        parsed: ParsedRequest,
        name: str | None,
        body: bytes,
        reservation: Reservation,
    ) -> HttpAnswer:
        headers = request.headers
        transport = dict(parsed.properties)
        transport["demaq:sender"] = identity.name or address_of(request)
        kind = headers.get("content-type")
        if kind is not None and kind.isprintable():
            transport["demaq:contentType"] = kind
        properties = {}
        said = headers.get(_SENDER_HEADER)
        if said is not None and said.isprintable():
            properties["Sender"] = said
        waits = self._wants_reply(parsed, headers)
        connection = ""
        if self._may_answer:
            connection = connection_name(self.queue, name)
            transport["demaq:connection"] = connection
        reply = self._connections.open(connection, self.queue, self._check_of(parsed)) if waits else None
        try:
            receipt = await self._intake.receive(
                self.queue,
                body,
                transport=transport,
                properties=properties,
                request=name,
                document=parsed.document,
                hops=hops_of(headers.get(_HOPS_HEADER)),
            )
            parsed.document.forget_tree()  # the sender may wait for long
            reservation.keep(len(body))
            if reply is None:
                return self._respond_accepted(parsed, receipt)
            if not receipt.is_new and name is not None:
                known = await self._intake.read_answer(connection)
                if known is not None:
                    answered = Reply(body=known.body, is_error=known.status >= 500)
                    return self._respond_reply(parsed, answered, receipt)
            seconds = wait_seconds(headers, self._settings.reply_seconds_max)
            found = await _wait_for_reply(reply, request, seconds)
            return self._respond_late(parsed, receipt) if found is None else self._respond_reply(parsed, found, receipt)
        finally:
            if reply is not None:
                self._connections.leave(connection, reply)

    def _check_of(self, parsed: ParsedRequest) -> Callable[[str], None]:
        """Return what an answer to a request must be."""
        interface, operation = self._interface, parsed.operation
        if interface is None or operation is None:
            return lambda body: None
        return lambda body: interface.check_answer(Document(body).tree, operation)

    def _wants_reply(self, parsed: ParsedRequest, headers: Headers) -> bool:
        """Return whether the sender is to wait for an answer: there can be one, and the sender does not decline it."""
        if not self._may_answer or prefers_no_answer(headers):
            return False
        return parsed.operation is None or not parsed.operation.is_one_way

    # answers

    def _respond_accepted(self, parsed: ParsedRequest, receipt: Receipt) -> HttpAnswer:
        answer = make_accepted(receipt.message)
        if parsed.version is None:
            return answer
        return HttpAnswer(status=202, headers=answer.headers)

    def _respond_late(self, parsed: ParsedRequest, receipt: Receipt) -> HttpAnswer:
        if self._settings.late == "accepted":
            return self._respond_accepted(parsed, receipt)
        reason = Refusal(504, "the application has not answered in time", {ID_HEADER: str(receipt.message)})
        return _respond_plain(reason, "timeout") if parsed.version is None else _respond_refused(parsed.version, reason)

    def _respond_reply(self, parsed: ParsedRequest, reply: Reply, receipt: Receipt) -> HttpAnswer:
        headers = {ID_HEADER: str(receipt.message)}
        version = parsed.version
        if version is None:
            return HttpAnswer(
                status=500 if reply.is_error else 200, body=reply.body.encode(), content_type=XML, headers=headers
            )
        blocks: tuple[str, ...] = ()
        if parsed.addressing is not None:
            blocks = make_answer_headers(parsed.addressing, message_id=f"urn:demaq:{receipt.message}:answer")
        if reply.is_error:
            data = write_fault(version, "Server", _error_text(reply.body), reply.body, blocks)
            return HttpAnswer(status=500, body=data, content_type=content_type(version), headers=headers)
        answer = make_answer(parsed.operation, reply.body, version, blocks)
        return HttpAnswer(status=answer.status, body=answer.data, content_type=answer.content_type, headers=headers)

    def _find_soap_version(self, headers: Mapping[str, str]) -> str | None:
        """Return the version of SOAP that a request says it is in.

        Many say nothing: the content type of SOAP 1.1 is also that of plain XML, which has to be SOAP where there is
        an interface and nothing else can be read from the body.
        """
        kind = media_type(headers.get("content-type"))
        if kind == "application/soap+xml":
            return SOAP_1_2
        return SOAP_1_1 if "soapaction" in headers or (self._interface is not None and kind == "text/xml") else None


def _respond_refused(version: str | None, error: Refusal) -> HttpAnswer:
    """Return a fault where the request came in this version of SOAP and it is about what SOAP processes."""
    if version is None or error.status not in FAULT_STATUSES:
        return _respond_plain(error)
    code = "Client" if error.status < 500 else "Server"
    data = write_fault(version, code, error.reason)
    status = fault_status(version, code)
    return HttpAnswer(status=status, body=data, content_type=content_type(version), headers=error.headers)


def _wrap_in_fault(answer: SoapAnswer) -> HttpAnswer:
    return HttpAnswer(status=answer.status, body=answer.data, content_type=answer.content_type)


def _respond_plain(error: Refusal, kind: str = "refused") -> HttpAnswer:
    return make_refusal(error.status, kind, error.reason, error.headers)


def _error_text(body: str) -> str:
    description = parse_document(body).tree.findtext("description")
    return description or "the request could not be processed"


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
