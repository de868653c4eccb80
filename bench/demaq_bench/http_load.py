"""Ask a server over and over on some connections that stay open, and tell how long each answer took.

A process of its own, which does nothing but this, and parses no more of an answer than where it ends: it must not be
what is measured. It reads a task as JSON and prints what it found as JSON.

    python -m demaq_bench.http_load < task.json
"""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from urllib.parse import urlsplit

from demaq_bench.figures import WrongResult

SECONDS_MAX = 600.0
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    address: str
    bodies: tuple[str, ...]
    """Sent in turns."""
    connections: int
    requests: int
    status: int
    """What every answer must be."""
    pause_seconds: float = 0.0
    """Between an answer and the next request of a connection."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    seconds: float
    """From the first request until the last answer."""
    milliseconds: tuple[float, ...]
    """For each request."""

    @property
    def speed(self) -> float:
        """Requests in a second."""
        return len(self.milliseconds) / self.seconds


def run(task: Task) -> Answered:
    """In a process of its own. Raises WrongResult if an answer is not what it must be."""
    asked = subprocess.run(
        [sys.executable, "-m", "demaq_bench.http_load"],
        input=json.dumps(asdict(task)).encode(),
        capture_output=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    if asked.returncode:
        raise WrongResult(asked.stderr.decode(errors="replace").strip().splitlines()[-1])
    found = json.loads(asked.stdout)
    return Answered(seconds=found["seconds"], milliseconds=tuple(found["milliseconds"]))


class _LoadRun:
    """What is left to be asked, and what was found."""

    def __init__(self, task: Task, requests: Sequence[bytes]) -> None:
        self.status = str(task.status).encode()
        self.pause_seconds = task.pause_seconds
        self.milliseconds: list[float] = []
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._requests = requests
        self._count = task.requests
        self._begun = 0

    def next(self) -> bytes | None:
        if self._begun == self._count:
            return None
        self._begun += 1
        return self._requests[self._begun % len(self._requests)]

    def answered(self, seconds: float) -> None:
        self.milliseconds.append(seconds * 1e3)
        if len(self.milliseconds) == self._count and not self.over.done():
            self.over.set_result(None)

    def fail(self, reason: str) -> None:
        if not self.over.done():
            self.over.set_exception(WrongResult(reason))


class _LoadConnection(asyncio.Protocol):
    def __init__(self, load: _LoadRun) -> None:
        self._load = load
        self._answer = b""
        self._size: int | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        self._transport = transport

    def ask(self) -> None:
        request = self._load.next()
        if request is not None:
            self._asked = time.perf_counter()
            self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        self._answer += data
        if self._size is None:
            end = self._answer.find(b"\r\n\r\n")
            if end < 0:
                return
            length = _LENGTH.search(self._answer, 0, end)
            self._size = end + 4 + (int(length[1]) if length else 0)
        if len(self._answer) < self._size:
            return
        self._load.answered(time.perf_counter() - self._asked)
        if self._answer[9:12] != self._load.status:
            self._load.fail(f"an answer is not {self._load.status.decode()}: {self._answer[:300]!r}")
            return
        self._answer, self._size = b"", None
        if self._load.pause_seconds:
            asyncio.get_running_loop().call_later(self._load.pause_seconds, self.ask)
        else:
            self.ask()

    def connection_lost(self, exc: Exception | None) -> None:
        self._load.fail("a connection was closed")


async def _answers(task: Task) -> Answered:
    loop = asyncio.get_running_loop()
    load = _LoadRun(task, [_request(task.address, body.encode()) for body in task.bodies])
    where = urlsplit(task.address)
    host, port = where.hostname or "", where.port or 0
    connections = [
        (await loop.create_connection(lambda: _LoadConnection(load), host, port))[1]
        for _ in range(min(task.connections, task.requests))
    ]
    started = time.perf_counter()
    for connection in connections:
        connection.ask()
    await load.over
    return Answered(seconds=time.perf_counter() - started, milliseconds=tuple(load.milliseconds))


def _request(address: str, body: bytes) -> bytes:
    where = urlsplit(address)
    head = f"POST {where.path} HTTP/1.1\r\nHost: {where.netloc}\r\nContent-Type: application/xml\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def main() -> None:
    given = json.load(sys.stdin)
    print(json.dumps(asdict(asyncio.run(_answers(Task(**given))))))


if __name__ == "__main__":
    main()
