"""Send messages over HTTP, plain or in SOAP envelopes, and make sense of what comes back."""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import re
import socket
import ssl
import sys
import zlib
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import httpx

from demaq.documents import Document, parse_document
from demaq.encodings import encoding_named
from demaq.errors import MessageError
from demaq.gateways.http.headers import HOPS_HEADER, MESSAGE_HEADER, SENDER_HEADER
from demaq.gateways.http.request_body import text_of
from demaq.gateways.http.responses import Refusal
from demaq.gateways.outbox.delivery_results import Delivered, DeliveryFailed, refuse_recipient
from demaq.gateways.outbox.guarded_network import NotAllowed, guarded_client
from demaq.gateways.settings import OutgoingSettings
from demaq.language.endpoints import Destination
from demaq.masking import mask_address
from demaq.soap import (
    Fault,
    Interface,
    SoapRequest,
    describe_fault,
    detect_version,
    make_request,
    read_fault,
    read_response,
)
from demaq.store.epochs import Epochs
from demaq.store.protocol import StoredMessage

_WINDOWS = {"gzip": 31, "x-gzip": 31, "deflate": 15}
"""What zlib is to expect, by the name of the coding."""
PIECE_BYTES = 65_536


class NotUnpacked(ValueError):
    """An answer is packed in a way that is not asked for, damaged, or too large."""


class TooLarge(NotUnpacked):
    """An answer has more bytes than are read."""

    def __init__(self, bytes_max: int) -> None:
        super().__init__(f"it has more than {bytes_max:,} bytes")


def unpack(data: bytes, coding: str, bytes_max: int) -> bytes:
    """Return what a body of an answer is, by its Content-Encoding. Raises NotUnpacked."""
    name = coding.strip().lower()
    if name in ("", "identity"):
        return data
    if name not in _WINDOWS:
        raise NotUnpacked(f"it is packed with {name[:40]!r}, and gzip alone was asked for")
    unpacking = zlib.decompressobj(_WINDOWS[name])
    found = bytearray()
    rest = data
    try:
        while rest and not unpacking.eof:
            found += unpacking.decompress(rest, PIECE_BYTES)
            rest = unpacking.unconsumed_tail
            if len(found) > bytes_max:
                raise TooLarge(bytes_max)
    except zlib.error:
        raise NotUnpacked(f"it is no {name}, as it says") from None
    if not unpacking.eof:
        raise NotUnpacked("it is packed and breaks off")
    return bytes(found)


AGAIN_STATUSES = (408, 425, 429)
"""Besides those from 500 on: it may help to try again."""
NO_ACCESS_STATUSES = (401, 403, 407)
ANSWER_BYTES_MAX = 64_000_000
REASON_CHARACTERS_MAX = 300
BEGINNING_BYTES_MAX = 4 * REASON_CHARACTERS_MAX
_CHARSET = re.compile(r"(?i);\s*charset\s*=\s*\"?([A-Za-z0-9._:-]{1,40})")
PARSE_BESIDE_BYTES = 32 * 1024
"""A larger answer is read beside the loop, so that others do not wait."""
ANSWERED_LATER = 202
"""The other side has taken the message and answers it some other way, if at all."""
XML = "application/xml; charset=utf-8"

if importlib.util.find_spec("sniffio") is None:
    # For every request httpcore looks for this package in all folders that there are, which costs as much as the rest
    # of the request. With None in its place nobody looks (Python's language reference, 5.3.1).
    sys.modules.setdefault("sniffio", None)  # type: ignore[arg-type]


class _MaskedAddresses(logging.Filter):
    """Lets httpx tell of its requests without what may be secret in their addresses."""

    def filter(self, record: logging.LogRecord) -> bool:
        if isinstance(record.args, tuple):
            record.args = tuple([mask_address(str(a)) if isinstance(a, httpx.URL) else a for a in record.args])
        return True


logging.getLogger("httpx").addFilter(_MaskedAddresses())


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
        self._clients: dict[tuple[str, str | None], httpx.AsyncClient] = {}
        """By gateway, and by scheme where it is for recipients that messages name."""
        self._contexts: dict[tuple[str, str | None], asyncio.Future[ssl.SSLContext]] = {}
        """What clients are being made of."""

    async def send(
        self, message: StoredMessage, to: Destination, settings: OutgoingSettings
    ) -> Delivered | DeliveryFailed:
        queue = message.queue
        name = self._epochs.message_name(message.seq)
        headers = {
            "Content-Type": XML,
            "Accept": "application/soap+xml, application/xml, text/xml",
            MESSAGE_HEADER: name,
            "Idempotency-Key": name,
            HOPS_HEADER: str(message.hops + 1),
        }
        sender = message.properties.get("Sender")
        if sender is not None and sender.text.isascii() and sender.text.isprintable():
            headers[SENDER_HEADER] = sender.text
        authorization = settings.authorization(to.address, self._own_addresses.get(queue))
        if authorization is not None:
            headers["Authorization"] = authorization
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
            async with asyncio.timeout(settings.timeout_seconds):  # for all of it: an answer may come in drops
                response = await self._post(queue, to.address, data, headers, settings)
        except NotAllowed as error:
            return refuse_recipient(queue, str(error))
        except _UnusableAnswer as error:
            return self._judge_unusable(queue, error, interface, soap)
        except Exception as error:
            return _not_sent(error)
        if len(response.content) > PARSE_BESIDE_BYTES:
            return await asyncio.to_thread(self._read, queue, response, interface, soap)
        return self._read(queue, response, interface, soap)

    async def close(self) -> None:
        for client in self._clients.values():
            await client.aclose()

    async def _post(
        self, queue: str, address: str, data: bytes, headers: dict[str, str], settings: OutgoingSettings
    ) -> httpx.Response:
        client = await self._client(queue, address, settings)
        async with client.stream("POST", address, content=data, headers=headers) as response:
            read = bytearray()
            try:
                async for piece in response.aiter_raw():  # unpacked by httpx one could be a thousand times as large
                    read += piece
                    if len(read) > ANSWER_BYTES_MAX:
                        raise TooLarge(ANSWER_BYTES_MAX)
                content = bytes(read)
                coding = response.headers.get("content-encoding", "")
                if coding and content:
                    content = await asyncio.to_thread(unpack, content, coding, ANSWER_BYTES_MAX)
            except NotUnpacked as error:
                raise _UnusableAnswer(response, error) from None
            kept = [(n, v) for n, v in response.headers.items() if n not in ("content-encoding", "transfer-encoding")]
            return httpx.Response(response.status_code, headers=kept, content=content)

    async def _client(self, queue: str, address: str, settings: OutgoingSettings) -> httpx.AsyncClient:
        """Return one that connects to the gateway's own server, or to those whom messages may name."""
        url, own = httpx.URL(address), self._own_addresses.get(queue)
        is_own = own is not None and _server(httpx.URL(own)) == _server(url)
        name = (queue, None if is_own else url.scheme)
        if name not in self._clients:
            context = await self._context(name, settings) if url.scheme == "https" else _trust_nobody()
        if name not in self._clients:
            client = httpx.AsyncClient(
                verify=context,
                timeout=settings.timeout_seconds,
                limits=httpx.Limits(max_connections=None, max_keepalive_connections=settings.connections),
                follow_redirects=False,  # the message would go to somebody else than the application says
                trust_env=False,
                headers={"User-Agent": "demaq", "Accept-Encoding": "gzip"},
            )
            self._clients[name] = client if is_own else guarded_client(client, settings.allowed(), url.scheme)
        return self._clients[name]

    async def _context(self, name: tuple[str, str | None], settings: OutgoingSettings) -> ssl.SSLContext:
        """Made once, however many wait for it, and beside the loop: it reads all certificates of the system."""
        if name not in self._contexts:
            self._contexts[name] = asyncio.ensure_future(asyncio.to_thread(settings.client_context))
        making = self._contexts[name]
        try:
            return await asyncio.shield(making)
        finally:
            if making.done() and self._contexts.get(name) is making:
                del self._contexts[name]  # where it failed, the next message tries again

    def _judge_unusable(
        self, queue: str, error: _UnusableAnswer, interface: Interface | None, soap: SoapRequest | None
    ) -> Delivered | DeliveryFailed:
        """Return what an answer means whose body cannot be read: its status alone says whether the message arrived.

        If it did, it is not sent again: the other side would only process it once more.
        """
        response = httpx.Response(error.status, headers=error.headers)
        said = f"{error.status} {response.reason_phrase}".strip()
        if not response.is_success:
            return _refused(response, said)
        if not self._expects_answer(queue, error.status, interface, soap):
            return Delivered(status=said)
        return _unusable(error.kind, error.reason, said)

    def _expects_answer(self, queue: str, status: int, interface: Interface | None, soap: SoapRequest | None) -> bool:
        if interface is not None and soap is not None:
            return not soap.operation.is_one_way
        return self._wants_reply.get(queue, False) and status != ANSWERED_LATER

    def _read(
        self, queue: str, response: httpx.Response, interface: Interface | None, soap: SoapRequest | None
    ) -> Delivered | DeliveryFailed:
        status = response.status_code
        said = f"{status} {response.reason_phrase}".strip()
        content_type = response.headers.get("content-type")
        if interface is not None and soap is not None:
            fault = _fault(response)
            if fault is not None:
                return _faulty(fault, response, said)
        if not 200 <= status < 300:
            return _refused(response, said)
        if not self._expects_answer(queue, status, interface, soap):
            return Delivered(status=said)
        if interface is not None and soap is not None:
            try:
                answer = read_response(interface, soap.operation, status, content_type, response.content)
            except MessageError as error:
                return _unusable(error.kind, error.message, said)
            if isinstance(answer, Fault):
                return _faulty(answer, response, said)
            return Delivered(status=said, reply=answer)
        if not response.content.strip():
            return Delivered(status=said)
        try:
            return Delivered(status=said, reply=parse_document(text_of(response.content, content_type)).text)
        except MessageError as error:
            return _unusable(error.kind, error.message, said)
        except Refusal as error:  # its content type names an encoding that it is not in
            return _unusable("notWellFormed", error.reason, said)


class _UnusableAnswer(Exception):
    """The other side has answered, and the body of its answer cannot be read."""

    def __init__(self, response: httpx.Response, error: NotUnpacked) -> None:
        super().__init__(str(error))
        self.status = response.status_code
        self.headers = [(n, v) for n, v in response.headers.items() if n == "retry-after"]
        self.kind = "refused" if isinstance(error, TooLarge) else "notWellFormed"
        self.reason = str(error)


def _unusable(kind: str, reason: str, said: str) -> DeliveryFailed:
    """Return the failure of a message that was processed, while what came back is nothing to go on with."""
    return DeliveryFailed(kind=kind, reason=_short(f"the answer cannot be used: {reason}"), status=said, again=False)


def _trust_nobody() -> ssl.SSLContext:
    """Return what a client has that speaks no TLS: to have none would make it read all certificates of the system."""
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def _server(url: httpx.URL) -> tuple[str, str, int | None]:
    """Return what is connected to, as the client itself reads the address."""
    return url.scheme, url.host, url.port


def _fault(response: httpx.Response) -> Fault | None:
    """Return the SOAP fault that an answer is, whatever its status; None where it is none that can be read."""
    if not response.content.strip():
        return None
    try:
        tree = parse_document(response.content).tree
        return read_fault(tree) if detect_version(tree) is not None else None
    except MessageError:
        return None


def _faulty(fault: Fault, response: httpx.Response, said: str) -> DeliveryFailed:
    """A fault is an answer, and asking again will not change it, unless the other side says that it is busy."""
    status = response.status_code
    return DeliveryFailed(
        kind="refused",
        reason=_short(f"SOAP fault {fault.code}: {fault.reason}" + (f" {fault.detail}" if fault.detail else "")),
        status=said,
        again=status in AGAIN_STATUSES or status == 503,
        after_seconds=_retry_after(response),
        fault=describe_fault(fault),
    )


def _refused(response: httpx.Response, said: str) -> DeliveryFailed:
    status = response.status_code
    text = _short(" ".join(_beginning(response).split())) if response.content else ""
    again = status >= 500 or status in AGAIN_STATUSES
    kind = "authentication" if status in NO_ACCESS_STATUSES else "refused"
    reason = f"the other side said {said}" + (f": {text}" if text and text.isprintable() else "")
    if 300 <= status < 400:
        reason = (
            f"the other side sends messages on ({said}), and they are not sent to anybody the gateway does not name"
        )
    return DeliveryFailed(kind=kind, reason=reason, status=said, again=again, after_seconds=_retry_after(response))


def _beginning(response: httpx.Response) -> str:
    """Return what a refusal begins with, in an encoding that is allowed."""
    named = _CHARSET.search(response.headers.get("content-type", ""))
    encoding = encoding_named(named[1]) if named is not None else None
    return response.content[:BEGINNING_BYTES_MAX].decode(encoding or "utf-8", "replace")


def _not_sent(error: Exception) -> DeliveryFailed:
    match error:
        case httpx.TimeoutException() | TimeoutError():
            return DeliveryFailed(kind="timeout", reason=f"no answer in time ({type(error).__name__})")
        case httpx.ConnectError() if isinstance(_cause(error, ssl.SSLCertVerificationError), ssl.SSLError):
            return DeliveryFailed(kind="invalidCertificate", reason=_short(str(error)), again=False)
        case httpx.ConnectError() if _cause(error, socket.gaierror) is not None:
            return DeliveryFailed(kind="nameResolution", reason=_short(str(error)))
        case httpx.TransportError():
            return DeliveryFailed(kind="disconnectedTransport", reason=_short(str(error) or type(error).__name__))
        case httpx.InvalidURL() | UnicodeError():
            return DeliveryFailed(kind="routing", reason=_short(str(error)), again=False)
    return DeliveryFailed(kind="disconnectedTransport", reason=_short(f"{type(error).__name__}: {error}"))


def _cause(error: BaseException, kind: type[BaseException]) -> BaseException | None:
    """The first of the errors that led to this one that is of a kind."""
    seen: BaseException | None = error
    for _ in range(10):
        if seen is None or isinstance(seen, kind):
            return seen
        seen = seen.__cause__ or seen.__context__
    return None


def _retry_after(response: httpx.Response) -> float | None:
    """Seconds, or a date."""
    text = response.headers.get("retry-after", "").strip()
    if not text:
        return None
    if text.isdecimal() and len(text) < 10:
        return float(text)
    try:
        at = parsedate_to_datetime(text)
    except ValueError:
        return None
    if at.tzinfo is None:
        at = at.replace(tzinfo=UTC)
    return max((at - datetime.now(UTC)).total_seconds(), 0.0)


def _short(text: str) -> str:
    return text if len(text) <= REASON_CHARACTERS_MAX else text[: REASON_CHARACTERS_MAX - 1] + "…"
