"""A hand-written baseline for this one gateway: Starlette, lxml, SQLite.

It promises what a node promises: a request is accepted when it is parsed and safe on the disk, and requests that come
together share a commit. It knows no encodings, no bounds, no senders, no repeated requests, and no rules.

    python -m demaq_bench.baseline_gateway FILE     prints where it listens
"""

from __future__ import annotations

import asyncio
import sqlite3
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import uvicorn
from lxml import etree
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from demaq.gateways.http.server import CONNECTIONS_MAX, KEEP_ALIVE_SECONDS, listen
from demaq.store.sql_statements import load_statements
from demaq.xml_parsers import file_parser

TABLES = (
    "CREATE TABLE messages (id INTEGER PRIMARY KEY, queue TEXT NOT NULL, created REAL NOT NULL, body TEXT NOT NULL)",
    "CREATE INDEX messages_by_queue ON messages (queue, id)",
)
INSERT = "INSERT INTO messages (id, queue, created, body) VALUES (?, ?, ?, ?)"
PRAGMAS = ("page_size", "write_ahead", "synchronous", "cache", "checkpoint")
"""As a node's store has them."""
XML = "application/xml"

Row = tuple[str, str]
"""A queue and a body."""


class Writer:
    """Stores what has come meanwhile in one transaction, in one thread."""

    def __init__(self, file: str) -> None:
        self._connection = sqlite3.connect(file, isolation_level=None, check_same_thread=False)
        opening = load_statements("sqlite", "connection")
        for name in PRAGMAS:
            self._connection.execute(opening[name]).fetchall()
        for table in TABLES:
            self._connection.execute(table)
        self._newest = 0
        self._waiting: list[tuple[Row, asyncio.Future[int]]] = []
        self._thread = ThreadPoolExecutor(1)
        self._task: asyncio.Task[None] | None = None

    async def store(self, queue: str, body: str) -> int:
        done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._waiting.append(((queue, body), done))
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._store_all())
        return await done

    async def _store_all(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            together, self._waiting = self._waiting, []
            numbers = await loop.run_in_executor(self._thread, self._write, [row for row, _ in together])
            for (_, done), number in zip(together, numbers, strict=True):
                if not done.done():
                    done.set_result(number)

    def _write(self, rows: list[Row]) -> list[int]:
        now = time.time()
        numbers = list(range(self._newest + 1, self._newest + 1 + len(rows)))
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.executemany(
            INSERT, [(n, queue, now, body) for n, (queue, body) in zip(numbers, rows, strict=True)]
        )
        self._connection.execute("COMMIT")
        self._newest += len(rows)
        return numbers


def application(writer: Writer) -> Starlette:
    async def mailbox(request: Request) -> Response:
        body = await request.body()
        if _parse(body) is None:
            return Response(status_code=400)
        number = await writer.store("mailbox", body.decode())
        return Response(f'<accepted message="{number}"/>', 202, media_type=XML)

    async def orders(request: Request) -> Response:
        """Return the conversation: the order is safe first, then its three steps and their answer."""
        body = await request.body()
        order = _parse(body)
        if order is None:
            return Response(status_code=400)
        await writer.store("orders", body.decode())
        confirmation = etree.tostring(_confirm(_pack(_check(order))), encoding="unicode")
        await writer.store("confirmations", confirmation)
        return Response(confirmation, 200, media_type=XML)

    return Starlette(routes=[Route(f"/{each.__name__}", each, methods=["POST"]) for each in (mailbox, orders)])


def _parse(body: bytes) -> etree._Element | None:
    try:
        return etree.fromstring(body, file_parser())
    except etree.XMLSyntaxError:
        return None


def _check(order: etree._Element) -> etree._Element:
    lines = [line for line in order.iter("line") if int(line.findtext("quantity") or 0) > 0]
    return _element("checked", [*order.iter("orderID"), *lines])


def _pack(checked: etree._Element) -> etree._Element:
    parcels = etree.Element("parcels")
    parcels.text = str(len(checked.findall("line")))
    return _element("packed", [*checked.iter("orderID"), parcels])


def _confirm(packed: etree._Element) -> etree._Element:
    return _element("confirmation", [*packed.iter("orderID"), *packed.iter("parcels")])


def _element(name: str, children: list[etree._Element]) -> etree._Element:
    made = etree.Element(name)
    made.extend(children)
    return made


def main(file: str) -> None:
    listener = listen("127.0.0.1", 0)
    config = uvicorn.Config(
        application(Writer(file)),
        interface="asgi3",
        loop="asyncio",
        http="httptools",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=CONNECTIONS_MAX,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
    )
    print(f"listening on http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
    asyncio.run(uvicorn.Server(config).serve(sockets=[listener]))


if __name__ == "__main__":
    main(sys.argv[1])
