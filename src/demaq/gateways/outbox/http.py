"""Send messages over HTTP, plain or in SOAP envelopes, and read the responses."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from dataclasses import replace

from demaq.documents import Document, parse_document
from demaq.errors import MessageError
from demaq.gateways.http.headers import HOPS_HEADER, MESSAGE_HEADER, SENDER_HEADER
from demaq.gateways.http.request_body import text_of
from demaq.gateways.http.responses import Refusal
from demaq.gateways.outbox.content_coding import NotUnpacked, TooLarge, unpack
from demaq.gateways.outbox.delivery_results import Delivered, DeliveryFailed, refuse_recipient
from demaq.gateways.outbox.guarded_network import GuardedNetwork, Network, NotAllowed
from demaq.gateways.outbox.http_client import HttpClient
from demaq.gateways.outbox.http_connection import HttpResponse
from demaq.gateways.outbox.http_results import judge_error, judge_fault, judge_refusal, judge_unusable
from demaq.gateways.outbox.http_url import HttpUrl, parse_url
from demaq.gateways.settings import OutgoingSettings
from demaq.language.endpoints import Destination
from demaq.soap import Fault, Interface, SoapRequest, detect_version, make_request, read_fault, read_response
from demaq.store.epochs import Epochs
from demaq.store.protocol import StoredMessage

ANSWER_BYTES_MAX = 64_000_000
PARSE_INLINE_BYTES_MAX = 32 * 1024
"""A larger response is read in a thread, so that the event loop does not wait for it."""
ANSWERED_LATER = 202
"""The server has taken the message and answers it some other way, if at all."""
XML = "application/xml; charset=utf-8"


class HttpSender:
    """Belongs to one event loop."""

    def __init__(
        self,
        epochs: Epochs,
        interfaces: Mapping[str, Interface],
        own_addresses: Mapping[str, str | None],
        wants_reply: Mapping[str, bool],
    ) -> None:
        """`epochs` names messages for others; the rest says, by gateway, how it speaks and what it expects."""
        self._epochs = epochs
        self._interfaces = interfaces
        self._own_addresses = own_addresses
        self._wants_reply = wants_reply
        self._clients: dict[tuple[str, str | None], HttpClient] = {}
        """By gateway, and by scheme where it is for recipients that messages name."""
        self._contexts: dict[tuple[str, str | None], asyncio.Future[ssl.SSLContext]] = {}
        """What clients are being made of."""

    async def send(
        self, message: StoredMessage, to: Destination, settings: OutgoingSettings
    ) -> Delivered | DeliveryFailed:
        queue = message.queue
        headers = self._headers(message, to, settings)
        soap: SoapRequest | None = None
        interface = self._interfaces.get(queue)
        data = message.body.encode("utf-8")
        if interface is not None:
            try:
                soap = make_request(interface, message.body)
                interface.check_input(Document(message.body).tree, soap.operation)
            except MessageError as error:
                return DeliveryFailed(kind=error.kind, reason=error.message, again=False)
            data = soap.data
            headers.update({"Content-Type": soap.content_type, **soap.headers})
        try:
            async with asyncio.timeout(settings.timeout_seconds):  # for all of it: a response may come in drops
                response = await self._post(queue, to.address, data, headers, settings)
        except NotAllowed as error:
            return refuse_recipient(queue, str(error))
        except _UnusableResponse as error:
            return self._judge_by_status(queue, error, interface, soap)
        except Exception as error:
            return judge_error(error)
        if len(response.body) > PARSE_INLINE_BYTES_MAX:
            return await asyncio.to_thread(self._read, queue, response, interface, soap)
        return self._read(queue, response, interface, soap)

    async def close(self) -> None:
        for client in self._clients.values():
            await client.close()

    def _headers(self, message: StoredMessage, to: Destination, settings: OutgoingSettings) -> dict[str, str]:
        name = self._epochs.message_name(message.seq)
        headers = {
            "User-Agent": "demaq",
            "Accept": "application/soap+xml, application/xml, text/xml",
            "Accept-Encoding": "gzip",
            "Content-Type": XML,
            MESSAGE_HEADER: name,
            "Idempotency-Key": name,
            HOPS_HEADER: str(message.hops + 1),
        }
        sender = message.properties.get("Sender")
        if sender is not None and sender.text.isascii() and sender.text.isprintable():
            headers[SENDER_HEADER] = sender.text
        authorization = settings.authorization(to.address, self._own_addresses.get(message.queue))
        if authorization is not None:
            headers["Authorization"] = authorization
        return headers

    async def _post(
        self, queue: str, address: str, data: bytes, headers: dict[str, str], settings: OutgoingSettings
    ) -> HttpResponse:
        url = parse_url(address)
        client = await self._client(queue, url, settings)
        response = await client.post(url, headers, data, ANSWER_BYTES_MAX)
        if response.is_cut:
            raise _UnusableResponse(response, TooLarge(ANSWER_BYTES_MAX))
        coding = response.headers.get("content-encoding", "")
        if not coding or not response.body:
            return response
        try:
            return replace(response, body=await asyncio.to_thread(unpack, response.body, coding, ANSWER_BYTES_MAX))
        except NotUnpacked as error:
            raise _UnusableResponse(response, error) from None

    async def _client(self, queue: str, url: HttpUrl, settings: OutgoingSettings) -> HttpClient:
        """Return one that connects to the gateway's own server, or to those whom messages may name."""
        own = self._own_addresses.get(queue)
        is_own = own is not None and parse_url(own).server == url.server
        name = (queue, None if is_own else url.scheme)
        if name not in self._clients:
            context = await self._context(name, settings) if url.scheme == "https" else None
            network = Network() if is_own else GuardedNetwork(settings.allowed())
            self._clients.setdefault(name, HttpClient(network, context, settings.connections))
        return self._clients[name]

    async def _context(self, name: tuple[str, str | None], settings: OutgoingSettings) -> ssl.SSLContext:
        """Made once, however many wait for it, and in a thread: it reads all certificates of the system."""
        if name not in self._contexts:
            self._contexts[name] = asyncio.ensure_future(asyncio.to_thread(settings.client_context))
        making = self._contexts[name]
        try:
            return await asyncio.shield(making)
        finally:
            if making.done() and self._contexts.get(name) is making:
                del self._contexts[name]  # where it failed, the next message tries again

    def _judge_by_status(
        self, queue: str, error: _UnusableResponse, interface: Interface | None, soap: SoapRequest | None
    ) -> Delivered | DeliveryFailed:
        """Return what a response means whose body cannot be read: its status alone says whether the message arrived.

        If it did, it is not sent again: the other side would only process it once more.
        """
        response = error.response
        if not response.is_success:
            return judge_refusal(response)
        if not self._expects_reply(queue, response.status, interface, soap):
            return Delivered(status=response.status_text)
        return judge_unusable(error.kind, str(error), response)

    def _expects_reply(self, queue: str, status: int, interface: Interface | None, soap: SoapRequest | None) -> bool:
        if interface is not None and soap is not None:
            return not soap.operation.is_one_way
        return self._wants_reply.get(queue, False) and status != ANSWERED_LATER

    def _read(
        self, queue: str, response: HttpResponse, interface: Interface | None, soap: SoapRequest | None
    ) -> Delivered | DeliveryFailed:
        status, said = response.status, response.status_text
        content_type = response.headers.get("content-type")
        if interface is not None and soap is not None:
            fault = _find_fault(response)
            if fault is not None:
                return judge_fault(fault, response)
        if not response.is_success:
            return judge_refusal(response)
        if not self._expects_reply(queue, status, interface, soap):
            return Delivered(status=said)
        if interface is not None and soap is not None:
            try:
                reply = read_response(interface, soap.operation, status, content_type, response.body)
            except MessageError as error:
                return judge_unusable(error.kind, error.message, response)
            if isinstance(reply, Fault):
                return judge_fault(reply, response)
            return Delivered(status=said, reply=reply)
        if not response.body.strip():
            return Delivered(status=said)
        try:
            return Delivered(status=said, reply=parse_document(text_of(response.body, content_type)).text)
        except MessageError as error:
            return judge_unusable(error.kind, error.message, response)
        except Refusal as error:  # its content type names an encoding that it is not in
            return judge_unusable("notWellFormed", error.reason, response)


class _UnusableResponse(Exception):
    """A server has answered, and the body of its response cannot be read."""

    def __init__(self, response: HttpResponse, error: NotUnpacked) -> None:
        super().__init__(str(error))
        self.response = replace(response, body=b"")
        self.kind = "refused" if isinstance(error, TooLarge) else "notWellFormed"


def _find_fault(response: HttpResponse) -> Fault | None:
    """Return the SOAP fault that a response is, whatever its status; None if it is none that can be read."""
    if not response.body.strip():
        return None
    try:
        tree = parse_document(response.body).tree
        return read_fault(tree) if detect_version(tree) is not None else None
    except MessageError:
        return None
