"""A node with its gateways, on free ports of loopback, in the process of a test."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

from demaq.gateways.settings import Settings
from demaq.server.gateways import Gateways
from demaq.server.node import Node
from demaq.store.protocol import StoredMessage
from tests.support.gateways.client import Client, Response

ANY_PORT = ("127.0.0.1", 0)
WAIT_SECONDS_MAX = 30.0


class Running:
    """What a test looks at."""

    def __init__(self, node: Node, gateways: Gateways, reports: list[str], keeps_all: bool = True) -> None:
        self.node = node
        self.keeps_all = keeps_all
        self.gateways = gateways
        self.reports = reports
        address = gateways.http_address
        assert address is not None
        self.address = address
        self.client = Client(address, WAIT_SECONDS_MAX)

    def post(
        self, path: str, body: str | bytes, content_type: str | None = "application/xml", **headers: str
    ) -> Response:
        known = {name.replace("_", "-"): value for name, value in headers.items()}
        if content_type is not None:
            known["Content-Type"] = content_type
        return self.client.post(path, body, known)

    def stored(self, queue: str) -> list[StoredMessage]:
        return self.node.store.stored(queue, 0, 1000)

    def bodies(self, queue: str) -> list[str]:
        return [message.body for message in self.stored(queue)]

    def wait_for(self, queue: str, count: int = 1) -> list[StoredMessage]:
        """Until so many messages are in a queue."""
        wait_until(lambda: len(self.stored(queue)) >= count)
        return self.stored(queue)


def wait_until(holds: Callable[[], bool]) -> None:
    until = time.monotonic() + WAIT_SECONDS_MAX
    while not holds():
        assert time.monotonic() < until, "it did not happen in time"
        time.sleep(0.01)


def written(folder: Path, files: Mapping[str, str]) -> Path:
    """The folder, with these files in it."""
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder


@contextmanager
def running(
    folder: Path,
    application: str,
    settings: Settings | None = None,
    store: str = "store",
    http: tuple[str, int] = ANY_PORT,
    smtp: tuple[str, int] | None = None,
    keep: timedelta = timedelta(days=1),
    **files: str,
) -> Iterator[Running]:
    """An application on a store in the folder. Messages are kept, so that everything can be looked at. With `keep` of 0,
    as is usual, messages that are no longer needed are removed, or not even stored."""
    for name, text in files.items():
        (folder / name.replace("_", ".")).write_text(text)
    (folder / "app.dmq").write_text(application)
    reports: list[str] = []
    node = Node(folder / "app.dmq", folder / store, keep=keep)
    gateways = Gateways(node, settings or Settings(), http=http, smtp=smtp, tell=reports.append)
    gateways.start()
    node.start()
    here = Running(node, gateways, reports, keeps_all=bool(keep))
    try:
        yield here
    finally:
        gateways.stop_receiving()
        node.stop()
