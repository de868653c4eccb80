"""Worker processes without a program: launched, and importing what they need until they get one.

Importing is most of what a worker does when it starts, and needs neither program nor store. So a process that is to be
a node launches its first workers before it imports anything large itself, and all import at the same time. What is
imported here is small for that reason.
"""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from demaq.evaluation.workers.progress import Progress, progress_file

_PROGRAM = (
    "import sys; sys.path.append(sys.argv[3]); from demaq.evaluation.workers.worker import main; "
    "main(int(sys.argv[1]), int(sys.argv[2]))"
)
_PACKAGE_FOLDER = str(Path(__file__).resolve().parents[3])

_launched: list[BareWorker] = []
"""Those that were not taken yet. They end with this process, which holds the other end of their sockets."""


class BareWorker:
    """A process that waits for its program on a socket."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs, progress_file() as shared:
            descriptors = [theirs.fileno(), shared]
            # Not by multiprocessing, which would import the main module of the embedding program again.
            with _without_interrupts():
                self.process = subprocess.Popen(
                    [sys.executable, "-P", "-c", _PROGRAM, *[str(number) for number in descriptors], _PACKAGE_FOLDER],
                    pass_fds=descriptors,
                    stdin=subprocess.DEVNULL,
                )
            self.progress = Progress(shared)
        self.socket = ours
        """Our end of the socket."""


def launch_ahead(count: int) -> None:
    """Launch so many; the next workers that are needed are those."""
    _launched.extend([BareWorker() for _ in range(count)])


def take_bare_worker() -> BareWorker:
    """Return one that was launched ahead, or a new one."""
    return _launched.pop(0) if _launched else BareWorker()


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Start processes with SIGINT blocked: it reaches the whole group, also before they can ignore it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
