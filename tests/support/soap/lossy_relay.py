"""An HTTP relay on loopback that loses, doubles, delays and reorders requests and responses.

A fixed share of them meets each misfortune, in random order.
"""

from __future__ import annotations

import http.client
import http.server
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final
from urllib.parse import urlsplit

from tests.support.gateways.client import NO_ANSWER, TIMEOUT_SECONDS

PASSED: Final = "passed"
REQUEST_LOST: Final = "request lost"
RESPONSE_LOST: Final = "response lost"
REQUEST_DOUBLED: Final = "request doubled"
DOUBLED_AND_LOST: Final = "request doubled, both responses lost"
REQUEST_DELAYED: Final = "request delayed, so that others overtake it"
RESPONSE_DELAYED: Final = "response delayed"
REPEATED_LATE: Final = "request repeated after others"
DELAY_SECONDS_MAX: Final = 0.3
MISFORTUNES: Final = (
    *(REQUEST_LOST, RESPONSE_LOST, REQUEST_DOUBLED, DOUBLED_AND_LOST),
    *(REQUEST_DELAYED, RESPONSE_DELAYED, REPEATED_LATE),
)
DECK: Final = (PASSED,) * 5 + MISFORTUNES
"""What happens to so many requests, in an order that is drawn anew each time. So all of it does happen."""


class LossyRelay:
    """Passes requests on to another address, more or less."""

    def __init__(self, address: str, chance: random.Random) -> None:
        self.seen: Counter[str] = Counter()
        self._target = urlsplit(address)
        self._chance = chance
        self._deck: list[str] = []
        self._lock = threading.Lock()
        self._late: list[threading.Timer] = []
        relay = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                relay._relay(self)

            def log_message(self, format: str, *arguments: object) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}"

    def _draw(self) -> str:
        with self._lock:
            if not self._deck:
                self._deck = list(DECK)
                self._chance.shuffle(self._deck)
            fate = self._deck.pop()
            self.seen[fate] += 1
            return fate

    def _relay(self, asked: http.server.BaseHTTPRequestHandler) -> None:
        body = asked.rfile.read(int(asked.headers["Content-Length"]))
        asked.close_connection = True
        fate = self._draw()
        if fate == REQUEST_LOST:
            return
        if fate == REQUEST_DELAYED:
            self._pause()
        response = self._forward(asked, body)
        if fate == RESPONSE_DELAYED:
            self._pause()
        if fate == REPEATED_LATE:
            self._repeat_late(asked, body)
        if fate in (REQUEST_DOUBLED, DOUBLED_AND_LOST):
            response = self._forward(asked, body)
        if response is None or fate in (RESPONSE_LOST, DOUBLED_AND_LOST):
            return
        status, headers, content = response
        asked.send_response(status)
        for name, value in headers:
            if name.lower() not in ("connection", "content-length", "date", "server"):
                asked.send_header(name, value)
        asked.send_header("Content-Length", str(len(content)))
        asked.send_header("Connection", "close")
        asked.end_headers()
        asked.wfile.write(content)

    def _pause(self) -> None:
        time.sleep(self._chance.uniform(0.0, DELAY_SECONDS_MAX))

    def _repeat_late(self, asked: http.server.BaseHTTPRequestHandler, body: bytes) -> None:
        """Send a request again, after some that come later."""
        late = threading.Timer(self._chance.uniform(0.0, DELAY_SECONDS_MAX), self._forward, (asked, body))
        self._late.append(late)
        late.start()

    def wait_for_late(self) -> None:
        """Wait for what is still to be repeated."""
        for late in self._late:
            late.join()

    def _forward(
        self, asked: http.server.BaseHTTPRequestHandler, body: bytes
    ) -> tuple[int, list[tuple[str, str]], bytes] | None:
        connection = http.client.HTTPConnection(self._target.hostname or "", self._target.port, timeout=TIMEOUT_SECONDS)
        headers = {name: value for name, value in asked.headers.items() if name.lower() not in ("connection", "host")}
        try:
            connection.request("POST", asked.path, body, headers)
            found = connection.getresponse()
            return found.status, found.getheaders(), found.read()
        except NO_ANSWER:
            return None
        finally:
            connection.close()


@contextmanager
def run_lossy_relay(address: str, chance: random.Random) -> Iterator[LossyRelay]:
    """Run a relay to an address; it ends with the block."""
    relay = LossyRelay(address, chance)
    thread = threading.Thread(target=relay.server.serve_forever)
    thread.start()
    try:
        yield relay
    finally:
        relay.server.shutdown()
        relay.wait_for_late()
        thread.join()
        relay.server.server_close()
