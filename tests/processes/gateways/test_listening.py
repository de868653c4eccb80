"""The port that all gateways share."""

from __future__ import annotations

import asyncio
import socket

from demaq.gateways.http.server import listen


def test_an_answer_does_not_wait_until_the_one_before_it_is_acknowledged():
    async def is_quick() -> bool:
        found: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            accepted: socket.socket = writer.get_extra_info("socket")
            found.set_result(accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            writer.close()

        listener = listen("127.0.0.1", 0)
        async with await asyncio.start_server(serve, sock=listener):
            reader, writer = await asyncio.open_connection(*listener.getsockname())
            await reader.read()
            writer.close()
            await writer.wait_closed()
        return bool(await found)

    assert asyncio.run(is_quick())
