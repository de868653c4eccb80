"""A server that takes whatever is posted to it, at once or after a while, and tells how much that was.

python -m demaq_bench.counting_sink [SECONDS]     prints where it listens
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time
from dataclasses import asdict, dataclass
from urllib.request import urlopen

ANSWER = b"HTTP/1.1 204 No Content\r\n\r\n"
BUFFER_BYTES = 64 * 1024
ASK_SECONDS_MAX = 30.0
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)


@dataclass(slots=True)
class Taken:
    """What a sink has taken so far."""

    requests: int = 0
    connections: int = 0
    """Over which requests came."""
    first: float = 0.0
    """When the first one came, by the clock that all processes of a machine have."""
    last: float = 0.0


def ask(address: str) -> Taken:
    """Return what a sink has taken so far."""
    with urlopen(f"{address}/", timeout=ASK_SECONDS_MAX) as response:
        return Taken(**json.load(response))


class _SinkConnection(asyncio.BufferedProtocol):
    def __init__(self, taken: Taken, seconds: float) -> None:
        self._taken = taken
        self._seconds = seconds
        self._buffer = memoryview(bytearray(BUFFER_BYTES))
        self._left = 0
        """So many bytes of a request are still to come."""
        self._is_counted = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        self._transport = transport

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        if not self._left:  # a request begins, with its whole head: who asks sends it in one piece
            data = bytes(self._buffer[:nbytes])
            if data.startswith(b"GET "):
                self._tell()
                return
            found = _LENGTH.search(data)
            self._left = data.index(b"\r\n\r\n") + 4 + (int(found[1]) if found else 0)
        self._left -= nbytes
        if not self._left:
            self._count()
            if self._seconds:
                asyncio.get_running_loop().call_later(self._seconds, self._transport.write, ANSWER)
            else:
                self._transport.write(ANSWER)

    def _count(self) -> None:
        taken = self._taken
        taken.last = time.monotonic()
        taken.first = taken.first or taken.last
        taken.requests += 1
        taken.connections += not self._is_counted
        self._is_counted = True

    def _tell(self) -> None:
        body = json.dumps(asdict(self._taken)).encode()
        head = f"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
        self._transport.write(head.encode() + body)
        self._transport.close()


async def _serve(seconds: float) -> None:
    taken = Taken()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _SinkConnection(taken, seconds), "127.0.0.1", 0)
    print(f"listening on http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_serve(float(sys.argv[1]) if len(sys.argv) > 1 else 0.0))
