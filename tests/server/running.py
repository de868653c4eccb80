"""Real nodes in real processes, for tests that kill them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from demaq.server.control import RemoteNode, running_node

START_SECONDS_MAX = 60.0


class RunningNode:
    """`demaq run` in a process of its own."""

    def __init__(self, application: Path, store: Path, *options: str) -> None:
        self.store = store
        self._log = (store.parent / "node.log").open("ab")
        command = [sys.executable, "-m", "demaq.cli", "run", str(application), "--store", str(store), *options]
        self._process = subprocess.Popen(command, stdout=self._log, stderr=self._log, start_new_session=True)
        self.remote = self._wait()

    def _wait(self) -> RemoteNode:
        until = time.monotonic() + START_SECONDS_MAX
        while time.monotonic() < until:
            remote = running_node(self.store)
            if remote is not None:
                return remote
            assert self._process.poll() is None, (self.store.parent / "node.log").read_text()
            time.sleep(0.02)
        raise AssertionError("the node did not start")

    def kill(self) -> None:
        """As if the machine had lost power: the node and its evaluator."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._log.close()

    def stop(self) -> int:
        self._process.send_signal(signal.SIGTERM)
        code = self._process.wait(timeout=60)
        self._log.close()
        return code
