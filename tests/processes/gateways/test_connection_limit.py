"""Many connections at once: more than a node has room for are turned away, and the others are served."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from demaq.gateways.http import server
from tests.support.gateways.nodes import Running, running, wait_until

APPLICATION = "create queue orders kind incomingGateway"
CONNECTIONS_MAX = 10
REQUEST = b"POST /orders HTTP/1.1\r\nHost: x\r\nContent-Type: application/xml\r\nContent-Length: 4\r\n\r\n<a/>"
OPEN_FILES = """
import resource, sys
from demaq.open_files import allow_open_files
resource.setrlimit(resource.RLIMIT_NOFILE, (100, int(sys.argv[1])))
allowed = allow_open_files(1000)
assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == allowed
print(allowed, allow_open_files(50))
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    monkeypatch.setattr(server, "CONNECTIONS_MAX", CONNECTIONS_MAX)
    with running(tmp_path, APPLICATION) as found:
        yield found


def test_connections_that_say_nothing_count_and_do_not_keep_out_who_is_there(here: Running):
    host, port = here.address.removeprefix("http://").split(":")

    def connect() -> socket.socket:
        return silent.enter_context(socket.create_connection((host, int(port)), timeout=20))

    with socket.create_connection((host, int(port)), timeout=20) as early:
        early.sendall(REQUEST)
        assert early.recv(4096).startswith(b"HTTP/1.1 202 ")
        with ExitStack() as silent:
            others = [connect() for _ in range(2 * CONNECTIONS_MAX)]
            assert others[-1].recv(4096).startswith(b"HTTP/1.1 503 ")
            assert others[-1].recv(4096) == b""
            early.sendall(REQUEST)
            assert early.recv(4096).startswith(b"HTTP/1.1 202 ")

    def may_come() -> bool:
        with socket.create_connection((host, int(port)), timeout=20) as late:
            late.sendall(REQUEST)
            return late.recv(4096).startswith(b"HTTP/1.1 202 ")

    wait_until(may_come)  # when the others have gone


@pytest.mark.parametrize(("most", "allowed"), [(4000, 1000), (500, 500), (100, 100)])
def test_as_many_files_are_allowed_as_the_system_lets_us_open(most: int, allowed: int):
    said = subprocess.run([sys.executable, "-c", OPEN_FILES, str(most)], stdout=subprocess.PIPE, text=True, check=True)
    assert said.stdout.split() == [str(allowed), "50"]
