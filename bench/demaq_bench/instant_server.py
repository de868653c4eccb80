"""A server that answers whatever it is sent at once: what is left is what asking costs.

python -m demaq_bench.instant_server     prints where it listens
"""

from __future__ import annotations

import asyncio
import re

ANSWER = b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n"
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)


class _AnsweredConnection(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        self._transport = transport
        self._left = 0
        """So many bytes of a request are still to come."""

    def data_received(self, data: bytes) -> None:
        if not self._left:  # a request begins, with its whole head: who asks sends it in one piece
            found = _LENGTH.search(data)
            self._left = data.index(b"\r\n\r\n") + 4 + (int(found[1]) if found else 0)
        self._left -= len(data)
        if not self._left:
            self._transport.write(ANSWER)


async def _serve() -> None:
    server = await asyncio.get_running_loop().create_server(_AnsweredConnection, "127.0.0.1", 0)
    print(f"listening on http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_serve())
