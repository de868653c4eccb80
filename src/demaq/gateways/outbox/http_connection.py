"""One connection to an HTTP server: a request is written, and the response to it is read (RFC 9112).

One request at a time, and only POST: a response to HEAD or CONNECT would end elsewhere. httptools finds the parts of a
response, and accepts some of what RFC 9112 forbids to servers. That is no danger to a client that expects one response:
if anything follows it, or its length is in doubt, the connection is closed.
"""

from __future__ import annotations

import asyncio
import functools
import http
import select
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NoReturn, cast

import httptools

RESPONSE_HEAD_BYTES_MAX = 100 * 1024
"""So long the headers of a response may be, with those of interim responses and trailers; and so long it may say
nothing else, such as extensions of chunks."""
JOINED_BYTES_MAX = 64 * 1024
"""A body that is not longer is sent in one piece with the head."""
BUFFER_BYTES = 64 * 1024
"""So many bytes of a response are read at once."""
STATUSES_MAX = 1_000
NO_RESPONSE = "Server disconnected without sending a response."


class HttpError(Exception):
    """There is no response, or none that could be read. Says why, without what may be secret."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpResponse:
    status: int
    headers: Mapping[str, str]
    """By names in small letters; values of repeated ones are joined with commas (RFC 9110, 5.3)."""
    body: bytes
    is_cut: bool = False
    """Whether the body has more bytes than were to be read, and was not read to its end."""

    @property
    def is_success(self) -> bool:
        return 200 <= self.status < 300

    @property
    def status_text(self) -> str:
        """The status with its usual words, whatever words the server has used."""
        return _describe_status(self.status)


@functools.lru_cache(STATUSES_MAX)
def _describe_status(status: int) -> str:
    try:
        return f"{status} {http.HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)


class HttpConnection(asyncio.BufferedProtocol):
    """Belongs to one event loop. Methods named `on_…` are called by the parser."""

    def __init__(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._parser.set_dangerous_leniencies(
            lenient_headers=True,  # a folded value is one line (RFC 9112, 5.2)
            lenient_chunked_length=True,  # chunks count, whatever Content-Length says (RFC 9112, 6.3)
            lenient_optional_cr_before_lf=True,  # RFC 9112, 2.2
            lenient_spaces_after_chunk_size=True,
        )
        # asyncio would allocate four times as much for every piece that arrives.
        self._buffer = memoryview(bytearray(BUFFER_BYTES))
        self._waiter: asyncio.Future[HttpResponse] | None = None
        self._poll: select.poll | None = None
        self._failure: HttpError | None = None
        """Why a method of ours has ended the parsing."""
        self._has_head = self._is_complete = self._is_cut = self._keeps_alive = False
        self._status = 0
        self._headers: dict[str, str] = {}
        self._body = bytearray()
        self._body_bytes_max = self._head_bytes = self._fruitless_bytes = 0
        self.is_reusable = False
        """Whether the last response has left the connection as it was before."""

    # for clients

    async def exchange(self, head: bytes, body: bytes, body_bytes_max: int) -> HttpResponse:
        """Send a request and return the response. Raises HttpError. Not more than `body_bytes_max` bytes are kept.

        The response is read while the request is still being written: a server may refuse it early.
        """
        assert self._waiter is None, "one request at a time"
        if self._transport.is_closing():
            raise HttpError(NO_RESPONSE)
        self._failure = None
        self._has_head = self._is_complete = self._is_cut = self._keeps_alive = self.is_reusable = False
        self._body, self._body_bytes_max = bytearray(), body_bytes_max
        self._head_bytes = self._fruitless_bytes = 0
        self._waiter = asyncio.get_running_loop().create_future()
        self._transport.resume_reading()
        if len(body) <= JOINED_BYTES_MAX:
            self._transport.write(head + body)
        else:
            self._transport.write(head)
            self._transport.write(body)
        try:
            return await self._waiter
        finally:
            self._waiter = None
            self._body = bytearray()  # the next response may be long in coming
            if not self.is_reusable:
                self.abort()

    def is_quiet(self) -> bool:
        """Return whether an idle connection is still open and nothing has arrived on it, not even its end."""
        if self._transport.is_closing():
            return False
        if self._poll is None:
            self._poll = select.poll()
            self._poll.register(self._transport.get_extra_info("socket"), select.POLLIN)
        return not self._poll.poll(0)

    def abort(self) -> None:
        self.is_reusable = False
        self._transport.abort()  # close() would first write the rest of the request, and wait for the end of TLS

    # for asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.pause_reading()  # a server may refuse before it is asked: then that is the response

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.data_received(bytes(self._buffer[:nbytes]))

    def data_received(self, data: bytes) -> None:
        if self._waiter is None or self._waiter.done():
            self.abort()  # nothing was asked
            return
        # A body may come with the head in one piece. Only what is not over after so much is too long.
        self._fruitless_bytes += len(data)
        if self._fruitless_bytes > RESPONSE_HEAD_BYTES_MAX + len(data):
            self._fail(HttpError(f"the head of the response has more than {RESPONSE_HEAD_BYTES_MAX:,} bytes"))
            return
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._keeps_alive = False
            if not self._is_complete:
                self._fail(self._failure or HttpError(f"the response is not HTTP: {error}"))
                return
        if self._is_complete:
            self._finish()

    def eof_received(self) -> bool:
        self._end(None)
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(exc)
        del self._parser  # which refers to us: without it the garbage collector has nothing to do

    # for the parser

    def on_message_begin(self) -> None:
        if self._is_complete:
            self._stop("more than one response")
        self._headers = {}

    def on_header(self, name: bytes, value: bytes) -> None:
        self._head_bytes += len(name) + len(value) + len(b": \r\n")
        if self._head_bytes > RESPONSE_HEAD_BYTES_MAX:
            self._stop(f"the head of the response has more than {RESPONSE_HEAD_BYTES_MAX:,} bytes")
        if b"\0" in value:
            self._stop("a header of the response has characters that no header may have")
        if self._has_head:
            return  # a trailer
        known, text = name.decode("ascii").lower(), value.decode("latin-1").strip(" \t")
        if known == "transfer-encoding" and b"\t" in value:
            self._stop("the response has a transfer coding that was not asked for")  # to the parser it is not chunked
        self._headers[known] = f"{self._headers[known]}, {text}" if known in self._headers else text

    def on_headers_complete(self) -> None:
        status = self._status = self._parser.get_status_code()
        if status < 100 or status == http.HTTPStatus.SWITCHING_PROTOCOLS:
            self._stop(f"the response has the status {status}, which was not asked for")
        if status < 200:
            return  # interim: another one follows (RFC 9110, 15.2)
        if self._headers.get("transfer-encoding", "chunked").lower() != "chunked":
            self._stop("the response has a transfer coding that was not asked for")
        self._has_head = True
        self._fruitless_bytes = 0

    def on_body(self, body: bytes) -> None:
        self._fruitless_bytes = 0
        self._body += body
        if len(self._body) > self._body_bytes_max:
            self._is_cut = self._is_complete = True
            self._stop("the body of the response is too long")

    def on_message_complete(self) -> None:
        if self._has_head:
            self._is_complete = True
            self._keeps_alive = self._parser.should_keep_alive() and not self._is_doubtful()

    # the end

    def _stop(self, reason: str) -> NoReturn:
        """End the parsing: the parser raises an error of its own."""
        self._failure = HttpError(reason)
        raise self._failure

    def _end(self, error: Exception | None) -> None:
        """The connection has ended, in order or by an error."""
        if self._waiter is None or self._waiter.done():
            return
        if error is not None:
            self._fail(HttpError(str(error) or type(error).__name__))
        elif not self._has_head:
            self._fail(HttpError(NO_RESPONSE))
        elif "transfer-encoding" in self._headers:
            self._fail(HttpError(f"{_INCOMPLETE} (incomplete chunked read)"))
        elif "content-length" in self._headers:
            length = self._headers["content-length"]
            self._fail(HttpError(f"{_INCOMPLETE} (received {len(self._body)} bytes, expected {length})"))
        else:
            self._finish()  # its end is that of the connection (RFC 9112, 6.3)

    def _finish(self) -> None:
        assert self._waiter is not None
        self.is_reusable = self._keeps_alive and self._transport.get_write_buffer_size() == 0
        self._waiter.set_result(
            HttpResponse(status=self._status, headers=self._headers, body=bytes(self._body), is_cut=self._is_cut)
        )

    def _fail(self, error: HttpError) -> None:
        assert self._waiter is not None
        self._waiter.set_exception(error)
        self._transport.abort()

    def _is_doubtful(self) -> bool:
        """Return whether the response says that it is the last one, or its end could be seen elsewhere."""
        if "close" in [option.strip(" \t").lower() for option in self._headers.get("connection", "").split(",")]:
            return True  # the parser does not see it before a tab
        return "transfer-encoding" in self._headers and (  # RFC 9112, 6.1 and 6.3
            "content-length" in self._headers or self._parser.get_http_version() != "1.1"
        )


_INCOMPLETE = "peer closed connection without sending complete message body"
