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
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import cycle, islice
from urllib.parse import urlsplit

from demaq_bench.figures import WrongResult, cpu_seconds

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
    headers: Mapping[str, str] = field(default_factory=lambda: {"Content-Type": "application/xml"})
    scripts: tuple[tuple[str, ...], ...] = ()
    """For each connection the bodies that it sends, each of them once and in this order; instead of `bodies`."""
    server: int = 0
    """The process whose CPU time is measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    seconds: float
    """From the first request until the last answer."""
    milliseconds: tuple[float, ...]
    """For each request."""
    client_cpu_seconds: float = 0.0
    """What asking has taken in the process of the client."""
    server_cpu_seconds: float = 0.0
    """What the server's process has taken meanwhile; 0 if it was not asked for, or the system does not tell."""

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
    return Answered(**{**found, "milliseconds": tuple(found["milliseconds"])})


class _LoadRun:
    """What all connections have in common: what an answer must be, and what was found."""

    def __init__(self, task: Task) -> None:
        self.status = str(task.status).encode()
        self.pause_seconds = task.pause_seconds
        self.milliseconds: list[float] = []
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._count = task.requests

    def answered(self, seconds: float) -> None:
        self.milliseconds.append(seconds * 1e3)
        if len(self.milliseconds) == self._count and not self.over.done():
            self.over.set_result(None)

    def fail(self, reason: str) -> None:
        if not self.over.done():
            self.over.set_exception(WrongResult(reason))


class _LoadConnection(asyncio.Protocol):
    def __init__(self, load: _LoadRun, requests: Iterator[bytes]) -> None:
        self._load = load
        self._requests = requests
        self._answer = b""
        self._size: int | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        self._transport = transport

    def ask(self) -> None:
        request = next(self._requests, None)
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
    load = _LoadRun(task)
    where = urlsplit(task.address)
    host, port = where.hostname or "", where.port or 0
    made = [partial(_LoadConnection, load, requests) for requests in _requests(task)]
    connections = [(await loop.create_connection(make, host, port))[1] for make in made]
    server, client, started = cpu_seconds(task.server), time.process_time(), time.perf_counter()
    for connection in connections:
        connection.ask()
    await load.over
    return Answered(
        seconds=time.perf_counter() - started,
        milliseconds=tuple(load.milliseconds),
        client_cpu_seconds=time.process_time() - client,
        server_cpu_seconds=cpu_seconds(task.server) - server,
    )


def _requests(task: Task) -> list[Iterator[bytes]]:
    """Return for each connection what it sends. All of it is written before the first request."""
    if task.scripts:
        return [iter([_request(task, body) for body in script]) for script in task.scripts]
    shared = islice(cycle([_request(task, body) for body in task.bodies]), task.requests)
    return [shared] * min(task.connections, task.requests)


def _request(task: Task, body: str) -> bytes:
    where, data = urlsplit(task.address), body.encode()
    headers = {"Host": where.netloc, **task.headers, "Content-Length": str(len(data))}
    lines = [f"{name}: {value}\r\n" for name, value in headers.items()]
    return f"POST {where.path} HTTP/1.1\r\n{''.join(lines)}\r\n".encode() + data


def main() -> None:
    given = json.load(sys.stdin)
    print(json.dumps(asdict(asyncio.run(_answers(Task(**given))))))


if __name__ == "__main__":
    main()
