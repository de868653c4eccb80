"""The console is a process of its own: whatever becomes of it, the node goes on."""

from __future__ import annotations

import http.client
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.support.console.browser import RunningConsole, run_console
from tests.support.console.shop import APPLICATION, ORDER
from tests.support.gateways.nodes import wait_until

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningConsole]:
    with run_console(APPLICATION, tmp_path_factory.mktemp("process") / "shop") as running:
        yield running


def ask(node: RunningConsole, method: str, path: str, body: str | None = None, **headers: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection(urlsplit(node.url).netloc, timeout=60)
    try:
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def find_children(pid: int, word: bytes) -> list[int]:
    """Return the child processes that have a word in their command line."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    children = {child for task in tasks for child in (task / "children").read_text().split()}
    return [int(child) for child in children if word in Path(f"/proc/{child}/cmdline").read_bytes()]


def find_console(node: RunningConsole) -> int:
    """Return the process of the console, which is a child of the node."""
    [found] = find_children(node.process.pid, b"demaq.console")
    return found


def test_a_console_that_was_asked_for_is_started_before_its_first_request(tmp_path: Path):
    with run_console(APPLICATION, tmp_path / "shop") as node:
        wait_until(lambda: len(find_children(node.process.pid, b"demaq.console")) == 1)


def test_rules_can_be_evaluated_soon_after_the_first_page(node: RunningConsole):
    assert ask(node, "GET", "/console/help")[0] == 200
    wait_until(lambda: len(find_children(find_console(node), b"multiprocessing.spawn")) == 1)


def test_a_console_that_was_killed_is_started_again(node: RunningConsole):
    assert ask(node, "GET", "/console/help")[0] == 200
    first = find_console(node)
    os.kill(first, signal.SIGKILL)
    time.sleep(0.5)
    assert ask(node, "POST", "/orders", ORDER.format(1, 30), **{"Content-Type": "application/xml"})[0] == 202
    assert ask(node, "GET", "/console/help")[0] == 200
    assert find_console(node) != first


def test_senders_do_not_wait_for_a_console_that_is_stopped(node: RunningConsole):
    assert ask(node, "GET", "/console/help")[0] == 200
    console = find_console(node)
    os.kill(console, signal.SIGSTOP)
    try:
        waiting = [threading.Thread(target=ask, args=(node, "GET", "/console"), daemon=True) for _ in range(40)]
        for thread in waiting:
            thread.start()
        time.sleep(0.5)
        began = time.monotonic()
        for number in range(20):
            kind = {"Content-Type": "application/xml"}
            assert ask(node, "POST", "/orders", ORDER.format(number, 30), **kind)[0] == 202
        assert ask(node, "GET", "/healthz")[0] == 200
        assert time.monotonic() - began < 10
        assert ask(node, "GET", "/console")[0] == 503  # more are not passed on
    finally:
        os.kill(console, signal.SIGCONT)
    for thread in waiting:
        thread.join(60)


def test_clients_cannot_say_where_they_come_from(node: RunningConsole):
    assert ask(node, "GET", "/console/help", **{"Demaq-Console-Client": "10.0.0.1"})[0] == 200
    assert ask(node, "GET", "/console/help", Host="evil.example")[0] == 421
    assert ask(node, "PUT", "/console")[0] == 405
    assert ask(node, "HEAD", "/console")[0] in (200, 405)
    assert ask(node, "GET", "/consolex")[0] == 404


def test_a_console_has_a_port_of_its_own_or_none(tmp_path: Path):
    with run_console(APPLICATION, tmp_path / "shop", "--console", "127.0.0.1:0") as node:
        until = time.monotonic() + 30
        while time.monotonic() < until:
            try:
                status, page = ask(node, "GET", "/console/help")
                break
            except OSError:
                time.sleep(0.2)
        assert status == 200, (page, node.said)
        assert ask(node, "GET", "/healthz")[0] == 404
