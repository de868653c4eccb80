"""Send messages over HTTP, as plain documents, or in the envelopes that a `SoapSender` makes."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from demaq.documents import parse_document
from demaq.errors import MessageError
from demaq.gateways.http.headers import HOPS_HEADER, MESSAGE_HEADER, SENDER_HEADER, trace_headers
from demaq.gateways.http.request_body import text_of
from demaq.gateways.http.responses import Refusal
from demaq.gateways.outbox.answer_replays import AnswerReplays
from demaq.gateways.outbox.content_coding import NotUnpacked, TooLarge, unpack
from demaq.gateways.outbox.delivery_results import Delivered, DeliveryFailed, DeliveryResult, refuse_recipient
from demaq.gateways.outbox.guarded_network import GuardedNetwork, Network, NotAllowed
from demaq.gateways.outbox.http_client import HttpClient
from demaq.gateways.outbox.http_connection import HttpResponse
from demaq.gateways.outbox.http_results import judge_error, judge_refusal, judge_unusable
from demaq.gateways.outbox.http_url import HttpUrl, parse_url
from demaq.gateways.outbox.message_ids import identify_message
from demaq.gateways.outbox.soap_client import ClientPolicy, RequestComposer, RequestSecurity
from demaq.gateways.outbox.soap_sender import PARSE_INLINE_BYTES_MAX, SoapAttempt, SoapSender, UnreadableResponse
from demaq.gateways.reliability.outbound_channels import OutboundChannels
from demaq.gateways.reliability.outbound_lifecycle import ReliableGateway
from demaq.gateways.settings import OutgoingSettings
from demaq.language.endpoints import Destination
from demaq.soap import Interface
from demaq.soap.policy import GatewayPolicy
from demaq.store.epochs import Epochs
from demaq.store.protocol import StoredMessage

ANSWER_BYTES_MAX = 64_000_000
ANSWERED_LATER = 202
"""The server has taken the message and answers it some other way, if at all."""
XML = "application/xml; charset=utf-8"


@dataclass(frozen=True, slots=True, kw_only=True)
class SoapExtensions:
    """What gateways use besides SOAP itself, each by its name."""

    policies: Mapping[str, GatewayPolicy] = field(default_factory=dict)
    security: Mapping[str, RequestSecurity] = field(default_factory=dict)
    """Of those whose policy has WS-Security."""
    settings: Callable[[str], OutgoingSettings] = lambda queue: OutgoingSettings()
    channels: OutboundChannels | None = None
    """For WS-ReliableMessaging."""
    replays: AnswerReplays | None = None
    """For WS-Security."""


class HttpSender:
    """Belongs to one event loop."""

    def __init__(
        self,
        epochs: Epochs,
        interfaces: Mapping[str, Interface],
        own_addresses: Mapping[str, str | None],
        wants_reply: Mapping[str, bool],
        extensions: SoapExtensions | None = None,
    ) -> None:
        """`epochs` names messages for others; the rest says, by gateway, how it speaks and what it expects."""
        self._epochs = epochs
        self._own_addresses = own_addresses
        self._wants_reply = wants_reply
        self._clients: dict[tuple[str, str | None], HttpClient] = {}
        """By gateway, and by scheme where it is for recipients that messages name."""
        self._contexts: dict[tuple[str, str | None], asyncio.Future[ssl.SSLContext]] = {}
        """What clients are being made of."""
        self.soap_senders = {
            queue: self._make_soap_sender(queue, interface, extensions or SoapExtensions())
            for queue, interface in interfaces.items()
            if queue in own_addresses
        }
        """Of the gateways that speak SOAP."""

    async def send(self, message: StoredMessage, to: Destination, settings: OutgoingSettings) -> DeliveryResult:
        queue = message.queue
        headers = self._headers(message, to, settings)
        sender = self.soap_senders.get(queue)
        if sender is not None:
            return await sender.send(message, self._make_attempt(queue, to.address, settings, headers))
        got = await self.transfer(queue, to.address, message.body.encode("utf-8"), headers, settings)
        if isinstance(got, DeliveryFailed):
            return got
        if isinstance(got, UnreadableResponse):
            return self._judge_by_status(queue, got)
        if len(got.body) > PARSE_INLINE_BYTES_MAX:
            return await asyncio.to_thread(self._read, queue, got)
        return self._read(queue, got)

    async def transfer(
        self, queue: str, address: str, data: bytes, headers: Mapping[str, str], settings: OutgoingSettings
    ) -> HttpResponse | UnreadableResponse | DeliveryFailed:
        """Send a body for a gateway, and return the response to it. Never raises."""
        try:
            async with asyncio.timeout(settings.timeout_seconds):  # for all of it: a response may come in drops
                return await self._post(queue, address, data, dict(headers), settings)
        except NotAllowed as error:
            return refuse_recipient(queue, str(error))
        except Exception as error:
            return judge_error(error)

    async def close(self) -> None:
        for client in self._clients.values():
            await client.close()

    def _make_soap_sender(self, queue: str, interface: Interface, extensions: SoapExtensions) -> SoapSender:
        client = ClientPolicy(
            interface=interface,
            policy=extensions.policies.get(queue, GatewayPolicy()),
            security=extensions.security.get(queue),
            answer_address=extensions.settings(queue).answer_address,
        )
        composer = RequestComposer(client, partial(identify_message, self._epochs))
        sender = SoapSender(queue, client, composer, self.transfer, extensions.replays, extensions.channels)
        if extensions.channels is not None and client.reliability is not None:

            def make_attempt(address: str) -> SoapAttempt:
                settings = extensions.settings(queue)
                return self._make_attempt(queue, address, settings, self._common_headers(queue, address, settings))

            extensions.channels.add_gateway(ReliableGateway(sender=sender, make_attempt=make_attempt))
        return sender

    def _make_attempt(
        self, queue: str, address: str, settings: OutgoingSettings, headers: Mapping[str, str]
    ) -> SoapAttempt:
        is_trusted = settings.is_trusted_with_credentials(address, self._own_addresses.get(queue))
        return SoapAttempt(address=address, settings=settings, headers=headers, may_have_password=is_trusted)

    def _headers(self, message: StoredMessage, to: Destination, settings: OutgoingSettings) -> dict[str, str]:
        name = self._epochs.message_name(message.seq)
        headers = {
            **self._common_headers(message.queue, to.address, settings),
            MESSAGE_HEADER: name,
            "Idempotency-Key": name,
            HOPS_HEADER: str(message.hops + 1),
            **trace_headers(),
        }
        sender = message.properties.get("Sender")
        if sender is not None and sender.text.isascii() and sender.text.isprintable():
            headers[SENDER_HEADER] = sender.text
        return headers

    def _common_headers(self, queue: str, address: str, settings: OutgoingSettings) -> dict[str, str]:
        """Return the headers of all requests, also of those that are about sequences."""
        headers = {
            "User-Agent": "demaq",
            "Accept": "application/soap+xml, application/xml, text/xml",
            "Accept-Encoding": "gzip",
            "Content-Type": XML,
        }
        authorization = settings.authorization(address, self._own_addresses.get(queue))
        return headers if authorization is None else {**headers, "Authorization": authorization}

    async def _post(
        self, queue: str, address: str, data: bytes, headers: dict[str, str], settings: OutgoingSettings
    ) -> HttpResponse | UnreadableResponse:
        url = parse_url(address)
        client = await self._client(queue, url, settings)
        response = await client.post(url, headers, data, ANSWER_BYTES_MAX)
        if response.is_cut:
            return _make_unreadable(response, TooLarge(ANSWER_BYTES_MAX))
        coding = response.headers.get("content-encoding", "")
        if not coding or not response.body:
            return response
        try:
            return replace(response, body=await asyncio.to_thread(unpack, response.body, coding, ANSWER_BYTES_MAX))
        except NotUnpacked as error:
            return _make_unreadable(response, error)

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

    def _judge_by_status(self, queue: str, unreadable: UnreadableResponse) -> Delivered | DeliveryFailed:
        """Return what a response means whose body cannot be read: its status alone says whether the message arrived.

        If it did, it is not sent again: the other side would only process it once more.
        """
        response = unreadable.response
        if not response.is_success:
            return judge_refusal(response)
        if not self._expects_reply(queue, response.status):
            return Delivered(status=response.status_text)
        return judge_unusable(unreadable.kind, unreadable.reason, response)

    def _expects_reply(self, queue: str, status: int) -> bool:
        return self._wants_reply.get(queue, False) and status != ANSWERED_LATER

    def _read(self, queue: str, response: HttpResponse) -> Delivered | DeliveryFailed:
        """Return what the response to a plain document means."""
        if not response.is_success:
            return judge_refusal(response)
        if not self._expects_reply(queue, response.status) or not response.body.strip():
            return Delivered(status=response.status_text)
        try:
            reply = parse_document(text_of(response.body, response.headers.get("content-type"))).text
        except MessageError as error:
            return judge_unusable(error.kind, error.message, response)
        except Refusal as error:  # its content type names an encoding that it is not in
            return judge_unusable("notWellFormed", error.reason, response)
        return Delivered(status=response.status_text, reply=reply)


def _make_unreadable(response: HttpResponse, error: NotUnpacked) -> UnreadableResponse:
    kind = "refused" if isinstance(error, TooLarge) else "notWellFormed"
    return UnreadableResponse(response=replace(response, body=b""), kind=kind, reason=str(error))
