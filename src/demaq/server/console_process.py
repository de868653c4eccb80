"""The console of a node: a process of its own, so that nothing it does can slow the node down.

It listens on a port of its own, or on a socket of this machine to which the node passes requests on. A console that has
ended is started again for the next request, or after a moment. One that `demaq run` offers without being asked for it
is started with its first request.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass

import httptools
from starlette.requests import Request

from demaq.gateways.http.request import address_of
from demaq.gateways.http.request_body import Held, read_body
from demaq.gateways.http.responses import HttpAnswer, make_refusal
from demaq.gateways.security.tls import OwnCertificate
from demaq.socket_folder import make_socket_folder

FOLDER_PREFIX = "demaq-console-"
SOCKET = "socket"
AT_ONCE_MAX = 24
"""How many requests are passed on at once; further ones are refused."""
ANSWER_SECONDS_MAX = 30.0
"""How long a request may take, the start of the process included."""
LOOK_SECONDS = 0.5
"""How often it is looked whether the process that is waited for has ended."""
RESTART_SECONDS = 2.0
REQUEST_BYTES_MAX = 21_000_000
REQUEST_SECONDS_MAX = 30.0
RESPONSE_BYTES_MAX = 128_000_000
PIECE_BYTES = 1 << 16
CLIENT_HEADER = "demaq-console-client"
"""The address of the client, which the node alone says."""
HOP_HEADERS = frozenset({"connection", "keep-alive", "transfer-encoding", "upgrade", "te", "trailer", "expect"})
"""They are about one connection, and not passed on."""

_log = logging.getLogger("demaq.console")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleStart:
    """What the process is given."""

    settings: str
    """As JSON: see `demaq.console.console_settings`."""
    certificate: OwnCertificate | None = None
    """For a port of its own."""
    is_asked: bool = False
    """Whether someone has asked for a console: then it is started before its first request."""


class ConsoleProcess:
    """Starts the process of a console on a socket, and ends it. May be called from any thread."""

    def __init__(self, start: ConsoleStart, listener: socket.socket, *, is_proxied: bool) -> None:
        self._start = start
        self._listener = listener
        self._is_proxied = is_proxied
        self._process: subprocess.Popen[bytes] | None = None
        self._starting = threading.Lock()
        self._closed = threading.Event()

    def ensure(self) -> None:
        """Start the process unless it runs."""
        with self._starting:
            if self._closed.is_set() or (self._process is not None and self._process.poll() is None):
                return
            number = self._listener.fileno()
            self._process = subprocess.Popen(
                [sys.executable, "-m", "demaq.console"],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                pass_fds=[number],
                start_new_session=True,  # Ctrl-C is for the node
            )
            own = self._start.certificate
            given = {
                "settings": self._start.settings,
                "listener": number,
                "is_proxied": self._is_proxied,
                "certificate": None if own is None else str(own.certificate),
                "key": None if own is None or own.key is None else str(own.key),
                "key_password": None if own is None or own.key_password is None else own.key_password.reveal(),
            }
            assert self._process.stdin is not None, "it is a pipe"
            with contextlib.suppress(OSError):
                self._process.stdin.write(f"{json.dumps(given)}\n".encode())
                self._process.stdin.flush()

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    def keep_running(self) -> None:
        """Start it now, and again whenever it has ended, from a thread."""
        threading.Thread(target=self._watch, name="demaq-console", daemon=True).start()

    def _watch(self) -> None:
        while not self._closed.is_set():
            try:
                self.ensure()
            except OSError as error:
                _log.warning("the console does not start: %s", error)
            self._closed.wait(RESTART_SECONDS)

    def close(self) -> None:
        self._closed.set()
        with self._starting:
            process = self._process
        if process is None:
            return
        process.kill()  # it has nothing to finish: what it acts on is the node's
        process.wait()
        if process.stdin is not None:
            with contextlib.suppress(OSError):
                process.stdin.close()


class ConsoleProxy:
    """Passes requests at the node's own port on to the process. Belongs to one event loop."""

    def __init__(self, start: ConsoleStart) -> None:
        self._folder = make_socket_folder(FOLDER_PREFIX, SOCKET)
        self._path = str(self._folder / SOCKET)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self._path)
        self._listener.listen(AT_ONCE_MAX)
        self.process = ConsoleProcess(start, self._listener, is_proxied=True)
        self._held = Held()
        self._running = 0
        if start.is_asked:
            threading.Thread(target=self._start_early, name="demaq-console-start", daemon=True).start()

    async def answer(self, request: Request) -> HttpAnswer:
        """Return what the console answers."""
        if self._running >= AT_ONCE_MAX:
            return make_refusal(503, "refused", "the console has too much to do", {"Retry-After": "2"})
        self._running += 1
        try:
            body = await read_body(request, REQUEST_BYTES_MAX, REQUEST_SECONDS_MAX, self._held)
            return await asyncio.wait_for(self._exchange(request, body), ANSWER_SECONDS_MAX)
        except (OSError, TimeoutError, httptools.HttpParserError, _Cut):
            return make_refusal(502, "refused", "the console gives no answer", {"Retry-After": "2"})
        finally:
            self._running -= 1

    async def close(self) -> None:
        await asyncio.to_thread(self.process.close)
        self._listener.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _start_early(self) -> None:
        with contextlib.suppress(OSError):  # the first request tries again
            self.process.ensure()

    async def _exchange(self, request: Request, body: bytes) -> HttpAnswer:
        await asyncio.to_thread(self.process.ensure)
        reader, writer = await asyncio.open_unix_connection(self._path)
        try:
            # At once: what is refused by its head is answered, and its connection closed, before the rest comes.
            writer.write(_write_head(request, len(body)) + body)
            await writer.drain()
            response = _Response(is_head=request.method == "HEAD")
            while not response.is_complete:
                try:
                    piece = await asyncio.wait_for(reader.read(PIECE_BYTES), LOOK_SECONDS)
                except TimeoutError:
                    if self.process.is_running:
                        continue
                    raise _Cut from None
                if not piece:
                    raise _Cut
                response.feed(piece)
            return response.answer()
        finally:
            writer.close()


class _Cut(Exception):
    """The process has ended in the middle of a response."""


class _Response:
    """A response as it comes in."""

    def __init__(self, *, is_head: bool) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._is_head = is_head
        self._headers: list[tuple[bytes, bytes]] = []
        self._pieces: list[bytes] = []
        self._size = 0
        self.is_complete = False

    def feed(self, piece: bytes) -> None:
        self._parser.feed_data(piece)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        if self._is_head:
            self.is_complete = True

    def on_body(self, piece: bytes) -> None:
        self._pieces.append(piece)
        self._size += len(piece)
        if self._size > RESPONSE_BYTES_MAX:
            raise _Cut

    def on_message_complete(self) -> None:
        self.is_complete = True

    def answer(self) -> HttpAnswer:
        headers: dict[str, str] = {}
        kind: str | None = None
        for raw, value in self._headers:
            name = raw.decode("latin-1").lower()
            if name == "content-type":
                kind = value.decode("latin-1")
            elif name not in HOP_HEADERS and name not in ("content-length", "date", "server"):
                headers[name] = value.decode("latin-1")
        return HttpAnswer(
            status=self._parser.get_status_code(), body=b"".join(self._pieces), content_type=kind, headers=headers
        )


def _write_head(request: Request, size: int) -> bytes:
    """Return the head of a request as it is passed on."""
    target: bytes = request.scope.get("raw_path") or request.scope["path"].encode()
    query: bytes = request.scope["query_string"]
    lines = [request.method.encode() + b" " + target + (b"?" + query if query else b"") + b" HTTP/1.1"]
    named: Mapping[bytes, bytes] = {b"content-length": str(size).encode(), b"connection": b"close"}
    skipped = {*named, CLIENT_HEADER.encode(), *[name.encode() for name in HOP_HEADERS]}
    lines += [name + b": " + value for name, value in request.scope["headers"] if name.lower() not in skipped]
    lines += [name + b": " + value for name, value in named.items()]
    lines.append(CLIENT_HEADER.encode() + b": " + address_of(request.scope).encode())
    return b"\r\n".join([*lines, b"", b""])
