"""The server of another system: answers as a test says, and remembers what it got."""

from __future__ import annotations

import ssl
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

Answer = tuple[int, dict[str, str], bytes]


@dataclass
class Got:
    path: str
    body: bytes
    headers: dict[str, str]
    at: float
    """When it came."""


@dataclass
class OtherSide:
    address: str
    got: list[Got] = field(default_factory=list)
    answer: Callable[[Got], Answer] = lambda got: (202, {}, b"")

    def bodies(self) -> list[str]:
        return [got.body.decode() for got in self.got]

    def at(self, path: str) -> list[Got]:
        """What came for one path."""
        return [got for got in self.got if got.path == path]


class Script:
    """Answers for each path: one after the other, the last one again and again."""

    def __init__(self) -> None:
        self.answers: dict[str, list[Answer | Callable[[Got], Answer]]] = {}
        self._lock = threading.Lock()
        self.busy: Counter[str] = Counter()
        """How many requests are being answered on each path."""
        self.busy_most: Counter[str] = Counter()

    def say(self, path: str, *answers: Answer | Callable[[Got], Answer] | int) -> None:
        self.answers[path] = [(answer, {}, b"") if isinstance(answer, int) else answer for answer in answers]

    def __call__(self, got: Got) -> Answer:
        with self._lock:
            self.busy[got.path] += 1
            self.busy_most[got.path] = max(self.busy_most[got.path], self.busy[got.path])
            waiting = self.answers.get(got.path, [(202, {}, b"")])
            answer = waiting.pop(0) if len(waiting) > 1 else waiting[0]
        try:
            return answer(got) if callable(answer) else answer
        finally:
            with self._lock:
                self.busy[got.path] -= 1


def slowly(seconds: float, answer: Answer = (202, {}, b"")) -> Callable[[Got], Answer]:
    def wait(got: Got) -> Answer:
        time.sleep(seconds)
        return answer

    return wait


@contextmanager
def other_side(
    answer: Callable[[Got], Answer] | None = None, port: int = 0, tls: ssl.SSLContext | None = None
) -> Iterator[OtherSide]:
    here = OtherSide("")
    if answer is not None:
        here.answer = answer

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            size = int(self.headers.get("Content-Length", 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            body = self.rfile.read(size)
            if len(body) < size:
                self.close_connection = True  # who was killed has not sent anything
                return
            got = Got(self.path, body, headers, time.monotonic())
            here.got.append(got)
            status, headers, body = here.answer(got)
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """It is not logged."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        allow_reuse_address = True
        request_queue_size = 128

        def handle_error(self, request: object, client_address: object) -> None:
            """Who does not like a certificate, or is killed, goes without a word."""

    server = Server(("127.0.0.1", port), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    here.address = f"{'http' if tls is None else 'https'}://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield here
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
