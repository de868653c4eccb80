"""`demaq run` in a process of its own, to be spoken to, stopped and killed."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from demaq.control.client import RemoteNode, running_node

START_SECONDS_MAX = 60.0
STOP_SECONDS_MAX = 60.0
POLL_SECONDS = 0.01
LOG = "node.log"


class NodeProcess:
    """A node on a store. What it says goes into `node.log` beside the store's folder."""

    def __init__(self, application: Path, store: Path, *options: str) -> None:
        self.store = store
        self._log = (store.parent / LOG).open("ab")
        command = [sys.executable, "-P", "-m", "demaq.cli", "run", str(application), "--store", str(store), *options]
        self._process = subprocess.Popen(command, stdout=self._log, stderr=self._log, start_new_session=True)

    def wait_until_running(self, seconds_max: float = START_SECONDS_MAX) -> RemoteNode:
        """Raises a RuntimeError when the node ends instead."""
        until = time.monotonic() + seconds_max
        while time.monotonic() < until:
            remote = running_node(self.store)
            if remote is not None:
                return remote
            if self._process.poll() is not None:
                raise RuntimeError(f"the node has ended: {self.said()}")
            time.sleep(POLL_SECONDS)
        raise RuntimeError(f"the node did not start within {seconds_max:g} s: {self.said()}")

    def wait_until_said(self, text: str, after: int = 0, seconds_max: float = START_SECONDS_MAX) -> None:
        """Wait until the node has written a text, after so many bytes of its log. Raises a RuntimeError if it ends."""
        until = time.monotonic() + seconds_max
        log = self.store.parent / LOG
        while text.encode() not in log.read_bytes()[after:]:
            if self._process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"the node has not started: {self.said()}")
            time.sleep(POLL_SECONDS)

    @property
    def pid(self) -> int:
        return self._process.pid

    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def said(self) -> str:
        return (self.store.parent / LOG).read_text(encoding="utf-8", errors="replace")

    def kill(self, evaluator_too: bool = True) -> None:
        """SIGKILL; with its evaluator, as if the machine had lost power, or alone."""
        with contextlib.suppress(ProcessLookupError):
            if evaluator_too:
                os.killpg(self._process.pid, signal.SIGKILL)
            else:
                self._process.kill()
        self._process.wait()
        self._log.close()

    def stop(self) -> int:
        """SIGTERM. Return the exit code."""
        self._process.send_signal(signal.SIGTERM)
        code = self._process.wait(timeout=STOP_SECONDS_MAX)
        self._log.close()
        return code
