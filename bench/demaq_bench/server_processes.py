"""Servers in processes of their own, that say where they listen."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from demaq_bench.node_process import NodeProcess

START_SECONDS_MAX = 60.0
STOP_SECONDS_MAX = 30.0
POLL_SECONDS = 0.02
_ADDRESS = re.compile(r"listening on (http://\S+)")


class ModuleProcess:
    """A module of ours that serves until it is stopped. What it says goes into a file."""

    def __init__(self, module: str, log: Path, *arguments: str) -> None:
        self._log = log
        command = [sys.executable, "-m", module, *arguments]
        with log.open("wb") as said:
            self._process = subprocess.Popen(command, stdout=said, stderr=said)

    def __enter__(self) -> Self:
        self.address = _address(self.said)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        self._process.wait(STOP_SECONDS_MAX)

    def said(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace")


class ListeningNode:
    """`demaq run --http` on a store of its own."""

    def __init__(self, application: Path, store: Path, *options: str) -> None:
        self.store = store
        self._process = NodeProcess(application, store, "--http", "127.0.0.1:0", *options)

    def __enter__(self) -> Self:
        try:
            self.remote = self._process.wait_until_running()
            self.address = _address(self._process.said)
        except BaseException:
            self._process.kill()
            raise
        return self

    @property
    def pid(self) -> int:
        return self._process.pid

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.stop()


def _address(said: Callable[[], str]) -> str:
    until = time.monotonic() + START_SECONDS_MAX
    while time.monotonic() < until:
        found = _ADDRESS.search(said())
        if found is not None:
            return found[1]
        time.sleep(POLL_SECONDS)
    raise RuntimeError(f"the server did not start within {START_SECONDS_MAX:g} s: {said()}")
