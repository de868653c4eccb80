"""Somebody else's server: answers as a test says, and remembers what it got."""

from __future__ import annotations

import threading
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


@dataclass
class OtherSide:
    address: str
    got: list[Got] = field(default_factory=list)
    answer: Callable[[Got], Answer] = lambda got: (202, {}, b"")

    def bodies(self) -> list[str]:
        return [got.body.decode() for got in self.got]


@contextmanager
def other_side(answer: Callable[[Got], Answer] | None = None, port: int = 0) -> Iterator[OtherSide]:
    here = OtherSide("")
    if answer is not None:
        here.answer = answer

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            size = int(self.headers.get("Content-Length", 0))
            got = Got(self.path, self.rfile.read(size), {n.lower(): v for n, v in self.headers.items()})
            here.got.append(got)
            status, headers, body = here.answer(got)
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Nobody reads it."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        allow_reuse_address = True

    server = Server(("127.0.0.1", port), Handler)
    here.address = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield here
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
