"""The HTTP server of a node: one port for all its gateways, and for the pages for operators."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.types import Message, Receive, Scope, Send

from demaq.errors import OperatorError
from demaq.gateways.counters import ResultCounts
from demaq.gateways.http.http_protocol import WholeRequest
from demaq.gateways.http.incoming_gateway import IncomingGateway, TakenRequest
from demaq.gateways.http.request import QuickRequest
from demaq.gateways.http.responses import HttpAnswer, Refusal, make_refusal
from demaq.gateways.http.web_server import make_web_server
from demaq.open_files import allow_open_files

CONNECTIONS_MAX = 2000
FILES_SHARE = 2
"""One of so many files that the process may have open is a connection; the others are for all else that it does."""
KEEP_ALIVE_SECONDS = 60
LISTEN_ON_SECONDS = 1.0
"""How long the rest of a refused request is read."""
SHORT_DIGITS_MAX = 5
"""A body whose length has more digits is not read to its end once it is refused."""
STOP_SECONDS = 5
"""How long requests that have begun may take when the server stops."""

_log = logging.getLogger("demaq.http")

Page = Callable[[Request], Awaitable[HttpAnswer]]


class HttpServer:
    """Belongs to one event loop."""

    def __init__(
        self,
        gateways: Mapping[str, IncomingGateway],
        pages: Mapping[str, Page],
        listener: socket.socket,
        tls: ssl.SSLContext | None,
        requests: ResultCounts,
        posted_pages: Mapping[str, Page] | None = None,
        below: Mapping[str, Page] | None = None,
    ) -> None:
        """Gateways and pages are by path; `posted_pages` are sent to. `requests` counts those for gateways.

        `below` answer all requests at a path and below it, whatever their method, if nothing else does.
        """
        self._below = below or {}
        self._posted_pages = posted_pages or {}
        self._gateways = gateways
        self._pages = pages
        self._listener = listener
        self._requests = requests
        self._server = make_web_server(
            self,
            tls,
            connections_max=allow_open_files(FILES_SHARE * CONNECTIONS_MAX) // FILES_SHARE,
            keep_alive_seconds=KEEP_ALIVE_SECONDS,
            stop_seconds=STOP_SECONDS,
        )

    async def run(self) -> None:
        """Serve until it is stopped."""
        await self._server.serve(sockets=[self._listener])

    def stop(self) -> None:
        self._server.should_exit = True

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, as an application of ASGI."""
        assert scope["type"] == "http", "nothing else is served"
        began = time.perf_counter()
        body = _Receiving(receive)
        request = QuickRequest(scope, body.receive)
        path = scope["path"]
        gateway = self._find_gateway(path)
        if gateway is not None:
            answer = await _answer(path, gateway.answer(request))
            self._requests.add(gateway.queue, str(answer.status), time.perf_counter() - began)
        else:
            answer = await _answer(path, self._answer_elsewhere(request, path))
        await _send(answer, request, body, send)

    def take(self, whole: WholeRequest) -> bool:
        """Begin to answer a request that needs nothing but to be stored. Return False if it is none, or may be none."""
        path = whole.scope["path"]
        gateway = self._find_gateway(path)
        if gateway is None:
            return False
        began = time.perf_counter()
        try:
            taken = gateway.take(whole.scope, whole.body)
        except Exception:
            _log.exception("a request at %s failed, and is tried again", path)
            return False
        if taken is None:
            return False
        taken.submitted.result.add_done_callback(lambda _: self._answer_taken(whole, gateway, taken, began))
        return True

    def _answer_taken(self, whole: WholeRequest, gateway: IncomingGateway, taken: TakenRequest, began: float) -> None:
        answer = gateway.find_answer(taken) if whole.is_read else None
        if answer is None:
            whole.serve(partial(self._finish, gateway, taken, began))
            return
        self._requests.add(gateway.queue, str(answer.status), time.perf_counter() - began)
        whole.answer(answer.status, _header_lines(answer), answer.body)

    async def _finish(
        self,
        gateway: IncomingGateway,
        taken: TakenRequest,
        began: float,
        scope: Scope,
        receive: Receive,
        send: Send,
    ) -> None:
        """Answer a request that was taken, if that takes longer."""
        answer = await _answer(scope["path"], gateway.finish(taken))
        self._requests.add(gateway.queue, str(answer.status), time.perf_counter() - began)
        body = _Receiving(receive, is_over=True)
        await _send(answer, QuickRequest(scope, body.receive), body, send)

    def _find_gateway(self, path: str) -> IncomingGateway | None:
        return self._gateways.get(path) or self._gateways.get(path.rstrip("/") or "/")

    async def _answer_elsewhere(self, request: Request, path: str) -> HttpAnswer:
        """Return the answer to a request that is not for a gateway."""
        if path in self._pages or path in self._posted_pages:
            return await self._page(request, path)
        page = self._find_page_above(path)
        if page is not None:
            return await page(request)
        return make_refusal(404, "refused", "no gateway listens at this path")

    def _find_page_above(self, path: str) -> Page | None:
        for above, page in self._below.items():
            if path == above or path.startswith(f"{above}/"):
                return page
        return None

    async def _page(self, request: Request, path: str) -> HttpAnswer:
        if path in self._posted_pages:
            if request.method != "POST":
                raise Refusal(405, "envelopes are sent here with POST", {"Allow": "POST"})
            return await self._posted_pages[path](request)
        if request.method not in ("GET", "HEAD"):
            raise Refusal(405, "this page is read with GET", {"Allow": "GET, HEAD"})
        return await self._pages[path](request)


class _Receiving:
    """A request as it comes in: knows whether all of it is there."""

    def __init__(self, receive: Receive, is_over: bool = False) -> None:
        self._receive = receive
        self.is_over = is_over

    async def receive(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.disconnect" or not message.get("more_body", False):
            self.is_over = True
        return message

    async def listen_on(self) -> None:
        """Read the rest of a refused request, for a limited time."""
        try:
            async with asyncio.timeout(LISTEN_ON_SECONDS):
                while not self.is_over:
                    await self.receive()
        except TimeoutError:
            return


async def _answer(path: str, answering: Awaitable[HttpAnswer]) -> HttpAnswer:
    """Return an answer, whatever goes wrong."""
    try:
        return await answering
    except Refusal as error:
        return make_refusal(error.status, "refused", error.reason, error.headers)
    except asyncio.CancelledError:
        raise
    except Exception:
        _log.exception("a request at %s failed", path)
        return make_refusal(500, "systemError", "the node has failed; nothing is known about the message")


def _header_lines(answer: HttpAnswer) -> list[tuple[bytes, bytes]]:
    headers = [(b"content-length", str(len(answer.body)).encode())]
    if answer.content_type is not None:
        headers.append((b"content-type", answer.content_type.encode()))
    headers += [(name.lower().encode(), value.encode("latin-1", "replace")) for name, value in answer.headers.items()]
    return headers


async def _send(answer: HttpAnswer, request: Request, body: _Receiving, send: Send) -> None:
    headers = _header_lines(answer)
    is_last = "Connection" in answer.headers
    if not body.is_over and not is_last and _has_short_body(request):
        await body.listen_on()  # it is there already, or nearly; the connection can go on
    if not body.is_over and not is_last:
        headers.append((b"connection", b"close"))
    start: dict[str, Any] = {"type": "http.response.start", "status": answer.status, "headers": headers}
    await send(start)
    data = b"" if request.method == "HEAD" else answer.body
    if not body.is_over:  # the connection will be closed, and who is still sending would lose the answer with it
        await send({"type": "http.response.body", "body": data, "more_body": True})
        await body.listen_on()
        data = b""
    await send({"type": "http.response.body", "body": data})


def _has_short_body(request: Request) -> bool:
    """Return whether the rest of a request is short. A client that waits for `100 Continue` has not sent it."""
    if "transfer-encoding" in request.headers or "expect" in request.headers:
        return False
    size = request.headers.get("content-length", "0")
    return len(size) <= SHORT_DIGITS_MAX and size.isdecimal()


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that is bound. Raises an OperatorError if that is not possible."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, address = found[0]
        # Said in so many words, or asyncio does not know it for TCP, and half of an answer waits for a receipt.
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    except OSError as error:
        raise OperatorError(f"the address {host}:{port} cannot be used: {error.strerror}") from None
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(1024)
        listener.setblocking(False)
    except OSError as error:
        listener.close()
        raise OperatorError(f"the address {host}:{port} cannot be used: {error.strerror}") from None
    return listener
