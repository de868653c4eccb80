"""Nodes with gateways in processes of their own, on addresses that stay the same when they are killed."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from demaq.store.protocol import StoredMessage
from demaq.store.sqlite import SqliteStore
from tests.support.server.running import RunningNode

QUICKLY = """
[outgoing]
retry_first = "0.05s"
retry_max = "2s"
attempts = 1000
breaker_pause = "1s"
"""
"""Settings of gateways in tests: another attempt follows soon."""
KEEP = "1d"


class GatewayNode:
    """`demaq run` with gateways. It is started by `start`, and may be killed and started again."""

    def __init__(self, folder: Path, application: Path, port: int) -> None:
        self.store = folder / "store"
        self.address = f"http://127.0.0.1:{port}"
        self._application = application
        self._settings = folder / "settings.toml"
        self._settings.write_text(QUICKLY)
        self._port = port
        self._running: RunningNode | None = None

    def start(self) -> RunningNode:
        options = ("--http", f"127.0.0.1:{self._port}", "--settings", str(self._settings))
        self._running = RunningNode(self._application, self.store, *options, "--keep", KEEP, "--pipeline", "inline")
        return self._running

    def kill(self) -> None:
        if self._running is not None:
            self._running.kill()
            self._running = None

    def stored(self, queue: str) -> list[StoredMessage]:
        reader = SqliteStore.open_readonly(self.store)
        try:
            return reader.stored(queue, 0, 100_000)
        finally:
            reader.close()


@contextmanager
def killed_at_the_end(*nodes: GatewayNode) -> Iterator[None]:
    try:
        yield
    finally:
        for node in nodes:
            node.kill()


def free_ports(count: int) -> list[int]:
    """Ports of loopback that are free now."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [taken.getsockname()[1] for taken in sockets]
    for taken in sockets:
        taken.close()
    return ports
