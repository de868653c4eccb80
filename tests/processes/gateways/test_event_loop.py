"""The event loop of the gateways is never blocked: not by a commit, not by a disk, not by a name server."""

from __future__ import annotations

import asyncio
import shutil
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from demaq.gateways.admission import LOAD_SECONDS
from demaq.gateways.security.recipients import Recipients
from demaq.gateways.settings import OutgoingSettings, Settings
from tests.support.gateways.client import Response
from tests.support.gateways.nodes import Running, running, wait_until

APPLICATION = """
create queue work kind incomingGateway
create queue asked kind incomingGateway endpoint "/asked"
create queue answers kind outgoingGateway
create queue out kind outgoingGateway endpoint "https://127.0.0.1:1/"
create queue box
create rule pass for work if (/m) then do enqueue <n/> into box
create rule answer for asked if (/m) then do enqueue <answer/> into answers
"""
BLOCKED_SECONDS = 2.5
GAP_SECONDS_MAX = 1.0
"""A machine with much to do may let the loop wait for a while, but not for as long as the store is blocked."""


class Watchdog:
    """Counts how long the loop goes without a turn."""

    def __init__(self) -> None:
        self.longest = 0.0
        self._last = 0.0

    async def run(self) -> None:
        self._last = time.monotonic()
        while True:
            await asyncio.sleep(0.005)
            now = time.monotonic()
            self.longest = max(self.longest, now - self._last)
            self._last = now


@contextmanager
def watched(here: Running) -> Iterator[Watchdog]:
    loop = here.gateways._loop
    assert loop is not None
    dog = Watchdog()
    task = asyncio.run_coroutine_threadsafe(dog.run(), loop)
    try:
        yield dog
        time.sleep(0.05)  # what has blocked until now is counted at the next turn
    finally:
        task.cancel()


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    settings = Settings(outgoing_default=OutgoingSettings(recipients=Recipients.of(["*:*"]), attempts=1))
    with running(tmp_path_factory.mktemp("loop"), APPLICATION, settings) as found:
        yield found


@pytest.fixture
def senders() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(20) as pool:
        yield pool


def timed(here: Running, method: str, path: str, **more: Any) -> tuple[float, Response]:
    began = time.monotonic()
    answer = here.client.request(method, path, **more)
    return time.monotonic() - began, answer


def post(here: Running, path: str, key: str | None = None) -> tuple[float, Response]:
    headers = {"Content-Type": "application/xml"} | ({"Idempotency-Key": key} if key else {})
    return timed(here, "POST", path, content=b"<m/>", headers=headers)


def test_a_slow_commit_holds_up_only_those_whose_messages_it_keeps_from_the_store(
    here: Running, senders: ThreadPoolExecutor
):
    assert post(here, "/asked", "known")[1].text == "<answer/>"
    time.sleep(2 * LOAD_SECONDS)  # what is remembered about the store is old
    began = time.monotonic()
    storing: list[Future[tuple[float, Response]]] = []
    with watched(here) as dog:
        with here.node.store._database.lock:  # as during a commit
            storing += [senders.submit(post, here, "/work") for _ in range(3)]
            storing += [senders.submit(post, here, "/asked", "known") for _ in range(8)]
            while time.monotonic() - began < BLOCKED_SECONDS:
                for path, status in (("/healthz", 200), ("/readyz", 200), ("/metrics", 200), ("/nowhere", 404)):
                    seconds, answer = timed(here, "GET", path)
                    assert (path, answer.status_code) == (path, status)
                    assert seconds < GAP_SECONDS_MAX, path
            assert not any([each.done() for each in storing])
        answers = [each.result(30) for each in storing]
    assert [answer.status_code for _, answer in answers] == [202] * 3 + [200] * 8
    assert dog.longest < GAP_SECONDS_MAX


@pytest.mark.parametrize("what", ["disk", "certificates", "names"])
def test_the_loop_continues_while_the_system_takes_its_time(
    here: Running, senders: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch, what: str
):
    began = threading.Event()

    def slowly(inner: Any) -> Any:
        def act(*given: Any, **named: Any) -> Any:
            if "127.0.0.1" not in given:  # whom the test itself asks
                began.set()
                time.sleep(2 * GAP_SECONDS_MAX)
            return inner(*given, **named)

        return act

    time.sleep(2 * LOAD_SECONDS)
    with watched(here) as dog:
        if what == "disk":
            monkeypatch.setattr(shutil, "disk_usage", slowly(shutil.disk_usage))
            senders.submit(timed, here, "GET", "/readyz")
        elif what == "certificates":
            monkeypatch.setattr(OutgoingSettings, "client_context", slowly(OutgoingSettings.client_context))
            here.node.enqueue("out", "<m/>")
        else:
            monkeypatch.setattr(socket, "getaddrinfo", slowly(socket.getaddrinfo))
            here.node.enqueue("out", "<m/>", {"Recipient": "http://somebody.invalid/"})
        assert began.wait(20)
        seconds, answer = timed(here, "GET", "/healthz")
        assert (answer.status_code, seconds < GAP_SECONDS_MAX) == (200, True)
        time.sleep(2 * GAP_SECONDS_MAX)
    assert dog.longest < GAP_SECONDS_MAX
    monkeypatch.undo()
    wait_until(lambda: timed(here, "GET", "/readyz")[1].status_code == 200)


def test_the_watchdog_notices_a_loop_that_is_blocked(tmp_path: Path):
    with running(tmp_path, "create queue work kind incomingGateway") as node, watched(node) as dog:
        loop = node.gateways._loop
        assert loop is not None
        time.sleep(0.1)
        loop.call_soon_threadsafe(time.sleep, 0.5)
        wait_until(lambda: dog.longest >= 0.5)
