"""The console's process never loads Saxon: two threads that use it end a process, and pages are made in four."""

from __future__ import annotations

import http.client
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from demaq.store.opening import open_store_readonly
from tests.support.console.shop import make_shop

pytestmark = pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="it is seen in /proc")
LIBRARY = "libsaxonc"


@dataclass
class OfflineConsole:
    """A console on a store without a node, as `demaq console` serves it."""

    process: subprocess.Popen[str]
    port: int

    def ask(self, path: str, fields: dict[str, object] | None = None) -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            body, kind = (None, {}) if fields is None else (json.dumps(fields), {"Content-Type": "application/json"})
            connection.request("GET" if fields is None else "POST", path, body, kind)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def ask_at_once(self, *paths: str) -> list[int]:
        with ThreadPoolExecutor(len(paths)) as threads:
            return [status for status, _ in threads.map(self.ask, paths)]

    def has_loaded_saxon(self) -> bool:
        return LIBRARY in Path(f"/proc/{self.process.pid}/maps").read_text()


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_shop(tmp_path_factory.mktemp("offline"))


@pytest.fixture(scope="module")
def console(store: Path) -> Iterator[OfflineConsole]:
    command = [sys.executable, "-m", "demaq.cli", "console", "--store", str(store), "--http", "127.0.0.1:0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        address = re.search(r":(\d+)/console", process.stderr.readline())
        assert address is not None
        yield OfflineConsole(process, int(address[1]))
    finally:
        process.terminate()
        process.communicate(timeout=30)


def test_slices_that_are_not_there_do_not_end_a_console(console: OfflineConsole):
    for _ in range(5):
        assert console.ask_at_once(*["/api/slices/order?key=none"] * 4) == [200] * 4
    assert console.process.poll() is None


def test_what_needs_saxon_is_done_without_loading_it_into_the_console(console: OfflineConsole, store: Path):
    opened = open_store_readonly(store)
    try:
        error = opened.visible("troubles", 0, 1)[0].seq
        sent = opened.visible("partner", 0, 1)[0].seq
    finally:
        opened.close()
    for path in ("/console", "/console/plans", f"/console/errors/{error}", "/console/messages/1"):
        assert console.ask(path)[0] == 200, path
    for path in ("/console/messages/1/why", "/api/search?xpath=//item", "/console/requeue?error=*"):
        assert console.ask(path)[0] == 200, path
    done = {
        "/api/pause": {"kind": "queue", "name": "checked"},
        "/api/resume": {"kind": "queue", "name": "checked"},
        "/api/redeliver": {"id": str(sent)},
        "/api/requeue": {"id": str(error)},
        "/api/purge": {"queue": "reports"},
    }
    for path, fields in done.items():
        status, answer = console.ask(path, {"why": "a test", **fields})
        assert status == 200, (path, answer)
    assert not console.has_loaded_saxon()
