"""Send requests over HTTP/1.1, on connections that are kept open for the next request to the same server.

No proxies, no redirections, no cookies: a message goes to the server that the gateway or the message names.
"""

from __future__ import annotations

import asyncio
import re
import ssl
import time
from collections.abc import Mapping

from demaq.gateways.outbox.guarded_network import Network
from demaq.gateways.outbox.http_connection import HttpConnection, HttpError, HttpResponse
from demaq.gateways.outbox.http_url import HttpUrl

IDLE_SECONDS_MAX = 5.0
"""So long a connection is kept that is not used."""
HANDSHAKE_SECONDS_MAX = 3600.0
"""TLS has no time-out of its own: the one of the request is shorter."""
_VALUE = re.compile(r"[^\x00-\x08\x0a-\x1f\x7f]*")


class HttpClient:
    """Belongs to one event loop. Time-outs are the caller's: a request that is cancelled closes its connection."""

    def __init__(self, network: Network, context: ssl.SSLContext | None, idle_max: int) -> None:
        """`context` is for addresses with https, which need one. Not more than `idle_max` connections are kept."""
        self._network = network
        self._context = context
        if context is not None:
            context.set_alpn_protocols(["http/1.1"])
        self._idle_max = idle_max
        self._idle: list[tuple[float, tuple[str, str, int], HttpConnection]] = []
        """When each was used last, and for which server. The last one of a server is used next."""
        self._sweep_timer: asyncio.TimerHandle | None = None
        self._is_closed = False

    async def post(self, url: HttpUrl, headers: Mapping[str, str], body: bytes, body_bytes_max: int) -> HttpResponse:
        """Send a body and return the response. Raises HttpError, OSError, UnicodeError, or NotAllowed.

        A response whose body has more than `body_bytes_max` bytes is cut.
        """
        head = write_head(url, headers, len(body))
        connection = self._take(url) or await self._connect(url)
        try:
            return await connection.exchange(head, body, body_bytes_max)
        finally:
            if connection.is_reusable:
                self._keep(url, connection)

    async def close(self) -> None:
        self._is_closed = True
        if self._sweep_timer is not None:
            self._sweep_timer.cancel()
        for _, _, connection in self._idle:
            connection.abort()
        self._idle.clear()
        await asyncio.sleep(0)  # asyncio closes the sockets in its next turn

    async def _connect(self, url: HttpUrl) -> HttpConnection:
        loop = asyncio.get_running_loop()
        connected = await self._network.connect(url.scheme, url.host, url.port)
        if url.scheme != "https":
            return (await loop.create_connection(HttpConnection, sock=connected))[1]
        assert self._context is not None, "without it the certificate would not be checked"
        _, connection = await loop.create_connection(
            HttpConnection,
            sock=connected,
            ssl=self._context,
            server_hostname=url.host,
            ssl_handshake_timeout=HANDSHAKE_SECONDS_MAX,
        )
        return connection

    def _take(self, url: HttpUrl) -> HttpConnection | None:
        """Return an idle connection to a server, if there is one that the server has not closed."""
        oldest = time.monotonic() - IDLE_SECONDS_MAX
        for index in range(len(self._idle) - 1, -1, -1):
            used, server, connection = self._idle[index]
            if server == url.server:
                del self._idle[index]
                if used > oldest and connection.is_quiet():
                    return connection
                connection.abort()
        return None

    def _keep(self, url: HttpUrl, connection: HttpConnection) -> None:
        if self._is_closed:
            connection.abort()
            return
        self._idle.append((time.monotonic(), url.server, connection))
        if len(self._idle) > self._idle_max:
            self._idle.pop(0)[2].abort()
        if self._sweep_timer is None:
            self._sweep_timer = asyncio.get_running_loop().call_later(IDLE_SECONDS_MAX, self._sweep)

    def _sweep(self) -> None:
        """Close connections that have not been used for long."""
        oldest = time.monotonic() - IDLE_SECONDS_MAX
        while self._idle and self._idle[0][0] <= oldest:
            self._idle.pop(0)[2].abort()
        self._sweep_timer = None
        if self._idle:
            delay = self._idle[0][0] - oldest
            self._sweep_timer = asyncio.get_running_loop().call_later(delay, self._sweep)


def write_head(url: HttpUrl, headers: Mapping[str, str], body_bytes: int) -> bytes:
    """Return the head of a request. Raises HttpError or UnicodeError if a header cannot be sent."""
    if not _VALUE.fullmatch("\t".join(headers.values())):
        name = next(iter([name for name, value in headers.items() if not _VALUE.fullmatch(value)]))
        raise HttpError(f"the header {name} has characters that no header may have")
    lines = [f"POST {url.target} HTTP/1.1", f"Host: {url.authority}", "Connection: keep-alive"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, f"Content-Length: {body_bytes}", "", ""]).encode("ascii")
