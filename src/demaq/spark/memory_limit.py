"""A memory limit for tasks, enforced by a small watcher process for each Python worker.

A thread of the worker could not enforce it: Saxon holds the GIL while it evaluates. The watcher is started with the
first task, reads from a pipe how large the worker may become, and ends when the worker does.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO

from demaq.evaluation.workers.child import LOOK_EVERY_SECONDS, PAGE_BYTES, resident_bytes

_PROGRAM = """
import os, select, signal, sys
worker, page_bytes, every = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
handle = os.pidfd_open(worker)  # unlike a process id it is never reused
if os.getppid() != worker:
    sys.exit()
most, begun = 0, b""
while True:
    if select.select([0], [], [], every if most else None)[0]:
        read = os.read(0, 4096)
        if not read:
            break
        *lines, begun = (begun + read).split(b"\\n")
        most = int(lines[-1]) if lines else most
    elif int(open(f"/proc/{worker}/statm").read().split()[1]) * page_bytes > most:
        signal.pidfd_send_signal(handle, signal.SIGKILL)
        break
"""


class MemoryLimit:
    """Ends this process if it becomes too large during a task. Linux only: elsewhere it does nothing."""

    def __init__(self) -> None:
        self._watcher: subprocess.Popen[bytes] | None = None

    @contextmanager
    def limit(self, growth_bytes: int | None) -> Iterator[None]:
        """End this process if it grows by more than so many bytes within the block; None for no limit."""
        resident = resident_bytes(os.getpid())
        if growth_bytes is None or resident is None or not hasattr(os, "pidfd_open"):
            yield
            return
        self._send_limit(resident + growth_bytes)
        try:
            yield
        finally:
            self._send_limit(0)

    def _send_limit(self, most_bytes: int) -> None:
        """Send the watcher how large this process may be from now on; 0 for no limit."""
        line = b"%d\n" % most_bytes
        with suppress(OSError):
            self._pipe().write(line)
            return
        self._watcher = None  # it was killed
        if most_bytes:
            self._pipe().write(line)

    def _pipe(self) -> IO[bytes]:
        if self._watcher is None:
            self._watcher = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _PROGRAM, *map(str, (os.getpid(), PAGE_BYTES, LOOK_EVERY_SECONDS))],
                stdin=subprocess.PIPE,
                bufsize=0,
            )
        assert self._watcher.stdin is not None, "it is a pipe"
        return self._watcher.stdin
