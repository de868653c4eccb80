"""How a connection behaves before a request has begun: what it may send, and for how long.

uvicorn by itself limits neither the number of headers nor the time that they take. An application that has a function
`take` gets requests that are all there first, and may answer them without a task and in one piece.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, MutableMapping, Sequence
from typing import Any, NoReturn, cast

import httptools
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from demaq.gateways.http.request_head import (
    TARGET_BYTES_MAX,
    BadHead,
    expect_small,
    expect_sound,
    remove_host,
)

HEAD_BYTES_MAX = 64 * 1024
"""So long a request's first line and headers may be together."""
HEAD_SECONDS_MAX = 20.0
"""So long they may take."""
WHOLE = "whole"
"""In the state of a request that has come as a whole."""
HALF_CLOSED = "half closed"
"""Where a request's state says that its sender has closed his side: he has gone, or only has nothing more to say."""


class CarefulProtocol(HttpToolsProtocol):
    """A connection of a sender."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._coalescing = CoalescingTransport(transport, self.loop)
        super().connection_made(cast(asyncio.Transport, self._coalescing))
        self.access_log = False  # uvicorn's own has whole addresses, with what senders write into the query
        self._fruitless_bytes = 0
        """What came since there was a whole head or a piece of a body."""
        self._in_head = True
        """Whether what comes next belongs to the head of a request, rather than to a body."""
        self._head_bytes = 0
        """Of the request's target and headers, or of its trailers."""
        self._trailers = 0
        """How many came."""
        self._bad: BadHead | None = None
        """What is wrong with the head that is being read."""
        self._asks_for_upgrade = False
        """Whether the head that was read asks for another protocol, so that it is read again without that."""
        self.parser = UpgradesIgnored(self)  # type: ignore[assignment]
        self._take: Callable[[WholeRequest], bool] | None = getattr(self.app, "take", None)
        self._is_head_complete = False
        """Whether the head of a request has just been read."""
        self._begun: RequestResponseCycle | None = None
        """A request whose head is there, and its body may be soon."""
        self._head_timer: asyncio.TimerHandle | None = None
        self._expect_head()
        ssl_object = transport.get_extra_info("ssl_object")
        self._certificate: dict[str, Any] | None = ssl_object.getpeercert() if ssl_object is not None else None
        if self.limit_concurrency is not None and len(self.connections) >= self.limit_concurrency:
            self.connections.discard(self)  # uvicorn counts when a request is there, and then refuses those of others
            self._refuse(503, "too many connections; try again later")

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return  # it was closed meanwhile
        self._fruitless_bytes += len(data)
        # A body may come with the head in one piece. Only what is not over after so much is too long.
        if self._fruitless_bytes > HEAD_BYTES_MAX + len(data):
            self._refuse(431, f"the headers of a request have at most {HEAD_BYTES_MAX:,} bytes")
            return
        super().data_received(data)
        if self._begun is not None:
            self._serve_begun()
        if self._in_head and self._fruitless_bytes and self._head_timer is None:
            self._expect_head()  # most heads come in one piece, and need no watch

    def eof_received(self) -> bool:  # type: ignore[override]  # asyncio looks at the answer
        """Some clients close their side after a request, and still wait for the answer."""
        cycle = getattr(self, "cycle", None)
        if self.scheme == "https" or cycle is None or cycle.response_complete or cycle.more_body:
            return False
        cycle.keep_alive = False
        cycle.scope["state"][HALF_CLOSED].set()
        return True

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._head_bytes = self._trailers = 0
        self.scope["state"][HALF_CLOSED] = asyncio.Event()
        if self._certificate is not None:
            self.scope["state"]["certificate"] = self._certificate

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        if len(self.url) > TARGET_BYTES_MAX:
            self._give_up(BadHead(414, f"the target of a request has at most {TARGET_BYTES_MAX:,} bytes"))

    def on_header(self, name: bytes, value: bytes) -> None:
        self._head_bytes += len(name) + len(value)
        if self._head_bytes > HEAD_BYTES_MAX:
            self._give_up(BadHead(431, f"the headers of a request have at most {HEAD_BYTES_MAX:,} bytes"))
        if self._in_head:
            super().on_header(name, value)
        else:
            self._trailers += 1  # after a body: no header, whatever its name is (RFC 9110, 6.5.1)
        try:
            expect_small(len(self.headers) + self._trailers, name, value)
        except BadHead as bad:
            self._give_up(bad)

    def on_headers_complete(self) -> None:
        self._fruitless_bytes = self._head_bytes = self._trailers = 0
        self._stop_waiting()
        version = self.parser.get_http_version()
        try:
            host = expect_sound(self.parser.get_method(), self.url, version, self.headers)
        except BadHead as bad:
            self._give_up(bad)
        self._asks_for_upgrade = self.parser.should_upgrade()
        if self._asks_for_upgrade:
            return
        if host is not None:
            self.headers[:] = [(b"host", host), *remove_host(self.headers)]
        if version == "1.0":
            self.expect_100_continue = False  # RFC 9110, 10.1.1
        self._is_head_complete = True
        super().on_headers_complete()
        self._is_head_complete = self._in_head = False

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        if self._take is not None and self._is_head_complete and app is self.app and not self.expect_100_continue:
            self._begun = cycle  # its body may have come with it
        else:
            super()._start_asgi_task(cycle, app)

    def _serve_begun(self) -> None:
        cycle, self._begun = self._begun, None
        assert cycle is not None, "one has begun"
        super()._start_asgi_task(cycle, self.app)

    def on_body(self, body: bytes) -> None:
        self._fruitless_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        if self._asks_for_upgrade:
            return  # the parser takes all that follows for the other protocol
        self._in_head = True
        self.scope["state"][WHOLE] = True
        super().on_message_complete()
        cycle = self._begun
        if cycle is None:
            return
        assert self._take is not None, "otherwise it is served at once"
        if self._take(WholeRequest(self, cycle)):
            self._begun = None
            cycle.body = bytearray()  # connections that stay open do not keep it
        else:
            self._serve_begun()

    def serve_taken(self, cycle: RequestResponseCycle, app: Any) -> None:
        """Let an application answer a request that was taken."""
        super()._start_asgi_task(cycle, app)

    def write_at_once(self, data: bytes) -> None:
        """Write without waiting for more."""
        self._coalescing.write_at_once(data)

    def head_without_upgrade(self) -> bytes:
        """Return the head that was read, without asking for another protocol."""
        version = self.parser.get_http_version().encode()
        lines = [b"%s %s HTTP/%s" % (self.parser.get_method(), self.url, version)]
        for name, value in self.headers:
            if name == b"connection":
                value = b", ".join([word for word in map(bytes.strip, value.split(b",")) if not _is_upgrade(word)])
            if not _is_upgrade(name):
                lines.append(b"%s: %s" % (name, value))
        return b"\r\n".join([*lines, b"", b""])

    def send_400_response(self, msg: str) -> None:
        bad = self._bad
        self._refuse(*((400, "this is no request of HTTP") if bad is None else (bad.status, bad.reason)))

    def _give_up(self, bad: BadHead) -> NoReturn:
        """End the parsing: the parser raises an error of its own, and `send_400_response` follows."""
        self._bad = bad
        raise bad

    def _expect_head(self) -> None:
        self._head_timer = self.loop.call_later(HEAD_SECONDS_MAX, self._time_out)

    def _stop_waiting(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _time_out(self) -> None:
        self._head_timer = None
        if self._owes_an_answer():
            self._expect_head()
        elif not self.transport.is_closing():
            self._refuse(408, "the request takes too long")

    def _owes_an_answer(self) -> bool:
        """Return whether an earlier request is not answered yet. What is said now would be taken for its answer."""
        cycle = getattr(self, "cycle", None)  # there is none before the first request
        return self._in_head and cycle is not None and not cycle.response_complete

    def _refuse(self, status: int, reason: str) -> None:
        is_answered = not self._in_head and self.cycle.response_started
        if not is_answered and not self._owes_an_answer():
            text = f"{reason}\n".encode()
            again = "retry-after: 1\r\n" if status == 503 else ""
            head = f"content-type: text/plain\r\ncontent-length: {len(text)}\r\n{again}connection: close\r\n\r\n"
            self.transport.write(STATUS_LINE[status] + head.encode() + text)
        self.transport.close()


class WholeRequest:
    """A request that is all there."""

    __slots__ = ("_cycle", "_protocol", "body", "scope")

    def __init__(self, protocol: CarefulProtocol, cycle: RequestResponseCycle) -> None:
        self._protocol = protocol
        self._cycle = cycle
        self.scope = cast(MutableMapping[str, Any], cycle.scope)
        self.body = bytes(cycle.body)

    @property
    def is_read(self) -> bool:
        """Whether its sender reads the answers to earlier requests, so that another one can be written."""
        return not self._cycle.flow.write_paused

    def serve(self, app: Any) -> None:
        """Let an ASGI application answer it."""
        self._protocol.serve_taken(self._cycle, app)

    def answer(self, status: int, headers: Sequence[tuple[bytes, bytes]], body: bytes) -> None:
        """Answer it in one piece. The headers are correct, and say nothing about the connection."""
        cycle = self._cycle
        if cycle.disconnected:
            return
        lines = [b"%s: %s\r\n" % header for header in (*cycle.default_headers, *headers)]
        if not cycle.keep_alive:
            lines.append(b"connection: close\r\n")
        cycle.response_started = cycle.response_complete = True
        self._protocol.write_at_once(b"".join([STATUS_LINE[status], *lines, b"\r\n", body]))
        cycle.message_event.set()
        if not cycle.keep_alive:
            cycle.transport.close()
        on_response, cycle.on_response = cycle.on_response, _do_nothing  # the connection and it would hold each other
        on_response()


def _do_nothing() -> None: ...


def _is_upgrade(name: bytes) -> bool:
    """Return whether a header, or a word of `Connection`, is about another protocol."""
    return name.lower() in (b"upgrade", b"http2-settings")


class UpgradesIgnored:
    """A parser for which a request that asks for another protocol is one without that (RFC 9110, 7.8).

    The parser of httptools does not read its body. Java's own client asks for HTTP/2 in this way in its first request.
    """

    def __init__(self, protocol: CarefulProtocol) -> None:
        self._protocol = protocol
        self._begin()

    def _begin(self) -> None:
        parser = self._parser = httptools.HttpRequestParser(self._protocol)
        self.get_method, self.get_http_version = parser.get_method, parser.get_http_version
        self.should_upgrade, self.should_keep_alive = parser.should_upgrade, parser.should_keep_alive

    def feed_data(self, data: bytes) -> None:
        while data:
            try:
                self._parser.feed_data(data)
                return
            except httptools.HttpParserUpgrade as upgrade:
                again = self._protocol.head_without_upgrade()
                self._begin()
                data = again + data[upgrade.args[0] :]


class CoalescingTransport:
    """A transport that sends in one piece what is written in one turn of the loop: an answer's head with its body."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._held: list[bytes] = []
        self.is_closing = transport.is_closing

    def write(self, data: bytes) -> None:
        if not self._held:
            self._loop.call_soon(self._send)
        self._held.append(data)

    def write_at_once(self, data: bytes) -> None:
        if self._held:
            self._held.append(data)
            self._send()
        else:
            self._transport.write(data)

    def close(self) -> None:
        self._send()
        self._transport.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def _send(self) -> None:
        if self._held:
            held, self._held = self._held, []
            self._transport.write(b"".join(held))
