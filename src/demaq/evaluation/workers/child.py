"""A worker process as its caller sees it: started, asked, watched, killed if it exceeds a limit."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from demaq.errors import EvaluatorUnavailable, OperatorError, ProgramError
from demaq.evaluation.native.ledger import NativeNotes
from demaq.evaluation.native.native_settings import DEFAULT, NativeSettings
from demaq.evaluation.workers.progress import Progress, progress_file
from demaq.evaluation.workers.worker_protocol import ReplyKind, Request

START_TIMEOUT_SECONDS = 120.0
LOOK_EVERY_SECONDS = 0.05
"""How often a waiting caller looks at the time and memory that a request takes."""

_PROGRAM = (
    "import sys; sys.path.append(sys.argv[3]); from demaq.evaluation.workers.worker import main; "
    "main(int(sys.argv[1]), int(sys.argv[2]))"
)
_PACKAGE_FOLDER = str(Path(__file__).resolve().parents[2])
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class EvaluatorGone(Exception):
    """The worker did not reply in time, took too much memory, or died."""

    def __init__(self, reason: str, died: bool = False, numbers: Sequence[int] = ()) -> None:
        super().__init__(reason)
        self.died = died
        """Whether it died, which need not be the fault of a rule."""
        self.numbers = frozenset(numbers)
        """The seqs of the messages it was busy with, as far as known."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one request."""

    seconds: float
    memory_bytes: int | None = None
    """By how much the process may grow; None for any amount."""
    is_patient: bool = True
    """If not, the request is also given up as soon as one call of Saxon takes unusually long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """What a worker needs to start; the same for all workers of a node."""

    files: Mapping[str, str]
    """The program's modules by path, as they were when it was checked."""
    store: str | Path
    orphan_seconds: float
    """The longest time limit of a request, so that a worker whose node was killed ends by itself."""
    native: NativeSettings = DEFAULT


class EvaluatorProcess:
    """A worker process that was launched. Not to be shared between threads."""

    def __init__(self, start: Start) -> None:
        ours, theirs = socket.socketpair()
        with theirs, progress_file() as shared:
            descriptors = [theirs.fileno(), shared]
            # Not by multiprocessing, which would import the main module of the embedding program again.
            with _without_interrupts():
                self._process = subprocess.Popen(
                    [sys.executable, "-P", "-c", _PROGRAM, *[str(number) for number in descriptors], _PACKAGE_FOLDER],
                    pass_fds=descriptors,
                    stdin=subprocess.DEVNULL,
                )
            self._progress = Progress(shared)
        self._connection = Connection(ours.detach())
        with suppress(OSError):  # it has died already, as wait_until_ready will find
            self._connection.send((dict(start.files), str(start.store), start.orphan_seconds, start.native))
        self._is_welcome = False
        """Whether the worker has replied that it is ready."""

    @property
    def pid(self) -> int:
        return self._process.pid

    def is_alive(self) -> bool:
        return self._process.poll() is None

    def is_ready(self) -> bool:
        """Return whether it is ready. Raises like `wait_until_ready` if it did not start."""
        if not self._is_welcome and self._connection.poll(0):
            self.wait_until_ready()
        return self._is_welcome

    def wait_until_ready(self) -> None:
        """Wait for the worker. Raises a ProgramError if the program cannot be compiled, a StoreError if the store is
        unavailable, and EvaluatorUnavailable if it did not start."""
        if self._is_welcome:
            return
        try:
            is_there = self._connection.poll(START_TIMEOUT_SECONDS)
            refused: list[ProgramError | OperatorError] | None = self._connection.recv() if is_there else None
        except (EOFError, OSError):
            refused = None
        if refused is None:
            self.close()
            raise EvaluatorUnavailable("the process that evaluates rules did not start")
        if refused:
            self.close()
            first, *others = refused
            if isinstance(first, ProgramError):
                first.others = tuple([other for other in others if isinstance(other, ProgramError)])
            raise first
        self._is_welcome = True

    def send(self, request: Request) -> _Watch:
        """Send a request. Return a watch over its limits. Raises EvaluatorGone."""
        try:
            self._connection.send(request)
        except OSError:
            raise self._gone() from None
        return _Watch(time.monotonic(), resident_bytes(self.pid))

    def receive(self, watch: _Watch, limits: Limits) -> tuple[ReplyKind, Any, NativeNotes | None]:
        """Return the next reply to a request, with notes about native rules if it is the last.

        Raises EvaluatorGone; then the worker is to be closed.
        """
        try:
            while not self._connection.poll(max(0.0, min(LOOK_EVERY_SECONDS, watch.left(limits)))):
                self._look(watch, limits)
            answer: tuple[ReplyKind, Any, NativeNotes | None] = self._connection.recv()
            return answer
        except (EOFError, OSError):
            raise self._gone() from None

    def _look(self, watch: _Watch, limits: Limits) -> None:
        busy = self._progress.read()
        numbers = () if busy is None else busy.numbers
        if limits.memory_bytes is not None and watch.growth_bytes(self.pid) > limits.memory_bytes:
            raise EvaluatorGone(out_of_memory(limits.memory_bytes), numbers=numbers)
        if not limits.is_patient and busy is not None and busy.is_slow(_cpu_seconds(self.pid)):
            raise EvaluatorGone(f"it takes longer than {busy.patience_seconds:.2g} s", numbers=numbers)
        if watch.left(limits) <= 0:
            raise EvaluatorGone(f"it did not end within {limits.seconds:g} s", numbers=numbers)

    def _gone(self) -> EvaluatorGone:
        busy = self._progress.read()
        numbers = () if busy is None else busy.numbers
        return EvaluatorGone("the process that evaluated it came to its end", died=True, numbers=numbers)

    def kill(self) -> None:
        """Kill it. May be called from any thread."""
        self._process.kill()

    def close(self) -> None:
        self._connection.close()
        self._process.kill()  # it holds nothing that is not in the store
        self._process.wait()
        self._progress.close()


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Start processes with SIGINT blocked: it reaches the whole group, also before they can ignore it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@dataclass(slots=True)
class _Watch:
    """The begin of a request."""

    since: float
    resident_bytes: int | None
    """The memory of the worker; None if that was not cheap to ask."""

    def left(self, limits: Limits) -> float:
        return limits.seconds - (time.monotonic() - self.since)

    def growth_bytes(self, pid: int) -> int:
        """Return by how much the worker has grown; 0 if the system does not report it."""
        resident = resident_bytes(pid) or _resident_bytes_by_ps(pid)
        if self.resident_bytes is None:
            self.resident_bytes = resident
        return 0 if resident is None or self.resident_bytes is None else resident - self.resident_bytes


def out_of_memory(limit_bytes: int) -> str:
    """Return why an evaluation was ended that took too much memory."""
    return f"it took more than {limit_bytes / 1_000_000:,g} MB of memory, which --rule-memory allows"


class Spares:
    """Workers that are started in advance: starting takes a second, in which nothing would be evaluated."""

    def __init__(self, count: int = 0) -> None:
        self._count = count
        self._ready: list[EvaluatorProcess] = []
        self._lock = threading.Lock()
        self._is_closed = False

    def launch(self, start: Start) -> None:
        """Start as many as there are to be, without waiting for them."""
        with self._lock:
            while len(self._ready) < self._count and not self._is_closed:
                self._ready.append(EvaluatorProcess(start))

    def take(self, start: Start) -> EvaluatorProcess:
        """Return a worker, a spare one if there is one; it may not be ready yet."""
        with self._lock:
            spare = self._ready.pop(0) if self._ready else None  # the oldest: it has come up
        if spare is None:
            return EvaluatorProcess(start)
        self.launch(start)
        if spare.is_alive():
            return spare
        spare.close()
        return EvaluatorProcess(start)

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            for process in self._ready:
                process.close()
            self._ready.clear()


def _cpu_seconds(pid: int) -> float | None:
    """Return the CPU time of a process; None if the system has no /proc."""
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:
            fields = file.read().rpartition(b")")[2].split()
            return (int(fields[11]) + int(fields[12])) / _TICKS_PER_SECOND
    except (OSError, IndexError, ValueError):
        return None


def resident_bytes(pid: int) -> int | None:
    """Return the resident memory of a process; None if the system has no /proc."""
    try:
        with open(f"/proc/{pid}/statm", "rb", buffering=0) as file:
            return int(file.read().split()[1]) * PAGE_BYTES
    except (OSError, IndexError, ValueError):
        return None


def _resident_bytes_by_ps(pid: int) -> int | None:
    """Return the resident memory of a process without /proc."""
    try:
        done = subprocess.run(["ps", "-o", "rss=", "-p", str(pid)], capture_output=True, text=True, check=False)
    except OSError:
        return None
    return int(done.stdout) * 1024 if done.stdout.strip().isdigit() else None
