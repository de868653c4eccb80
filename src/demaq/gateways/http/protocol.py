"""How a connection behaves before a request has begun: what it may send, and for how long.

uvicorn reads as many headers as somebody sends, and waits for them as long as somebody likes.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

HEAD_BYTES_MAX = 64 * 1024
"""So long a request's first line and headers may be together."""
HEADERS_MAX = 200
HEAD_SECONDS_MAX = 20.0
"""So long they may take."""


class CarefulProtocol(HttpToolsProtocol):
    """A connection of a sender."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._head_bytes = 0
        self._in_head = True
        self._head_timer: asyncio.TimerHandle | None = None
        self._expect_head()
        ssl_object = transport.get_extra_info("ssl_object")
        self._certificate: dict[str, Any] | None = ssl_object.getpeercert() if ssl_object is not None else None

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._in_head:
            self._head_bytes += len(data)
            # A body may come with the head in one piece. Only what is not over after so much is too long.
            if self._head_bytes > HEAD_BYTES_MAX + len(data):
                self._refuse(431)
                return
        if self.parser is None:
            return  # it was closed meanwhile
        super().data_received(data)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if self._certificate is not None:
            self.scope["state"]["certificate"] = self._certificate
        self._in_head = True
        if self._head_timer is None:
            self._expect_head()

    def on_header(self, name: bytes, value: bytes) -> None:
        super().on_header(name, value)
        if len(self.headers) > HEADERS_MAX:
            raise ValueError("too many headers")

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._head_bytes = 0
        self._stop_waiting()
        super().on_headers_complete()

    def _expect_head(self) -> None:
        self._head_timer = self.loop.call_later(HEAD_SECONDS_MAX, self._too_slow)

    def _stop_waiting(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _too_slow(self) -> None:
        self._head_timer = None
        if not self.transport.is_closing():
            self._refuse(408)

    def _refuse(self, status: int) -> None:
        self.transport.write(STATUS_LINE[status] + b"content-length: 0\r\nconnection: close\r\n\r\n")
        self.transport.close()
