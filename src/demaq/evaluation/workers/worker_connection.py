"""A worker as its caller sees it, wherever it runs: asked, watched, killed if it exceeds a limit."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from demaq.errors import EvaluatorUnavailable, OperatorError, ProgramError
from demaq.evaluation.native.ledger import NativeNotes
from demaq.evaluation.workers.progress import Busy
from demaq.evaluation.workers.worker_protocol import ReplyKind, Request

START_TIMEOUT_SECONDS = 120.0
LOOK_EVERY_SECONDS = 0.05
"""How often a waiting caller looks at the time and memory that a request takes."""

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_LAST = frozenset([ReplyKind.RESULT, ReplyKind.RESULT_RECYCLE, ReplyKind.END, ReplyKind.STORE_ERROR])


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


class Channel(Protocol):
    """Carries objects in both directions (`SocketChannel`)."""

    def send(self, value: Any, /) -> None: ...

    def recv(self) -> Any: ...

    def poll(self, seconds: float, /) -> bool: ...

    def is_silent(self) -> bool: ...

    def end_with_peer(self, is_on: bool) -> None: ...

    def close(self) -> None: ...


class WorkerConnection(ABC):
    """A worker that was started. Not to be shared between threads."""

    is_on_spark = False

    def __init__(self, channel: Channel) -> None:
        self._connection = channel
        self._is_welcome = False
        """Whether the worker has replied that it is ready."""
        self.is_asked = False
        """Whether the last reply to a request has not come yet."""

    # of the process

    @property
    @abstractmethod
    def pid(self) -> int | None:
        """Its process id; None if it runs on another machine."""

    @abstractmethod
    def is_alive(self) -> bool: ...

    @abstractmethod
    def busy(self) -> Busy | None:
        """Return what it is busy with, if it is in a call that cannot be interrupted."""

    @abstractmethod
    def cpu_seconds(self) -> float | None:
        """Return its CPU time, on the clock of `Busy.since_cpu`; None if the system does not report it."""

    @abstractmethod
    def resident_bytes(self) -> int | None:
        """Return its memory; None if the system does not report it."""

    @abstractmethod
    def kill(self) -> None:
        """Kill it. May be called from any thread."""

    @abstractmethod
    def close(self) -> None:
        """End it: it holds nothing that is not in the store."""

    # requests

    def is_ready(self) -> bool:
        """Return whether it is ready. Raises like `wait_until_ready` if it did not start."""
        try:
            has_replied = self._is_welcome or self._connection.poll(0)
        except OSError:
            has_replied = True
        if not self._is_welcome and has_replied:
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

    def send(self, request: Request) -> RequestWatch:
        """Send a request. Return a watch over its limits. Raises EvaluatorGone."""
        self.is_asked = True
        try:
            self._connection.send(request)
        except OSError:
            raise self._gone() from None
        return RequestWatch(time.monotonic())

    def receive(self, watch: RequestWatch, limits: Limits) -> tuple[ReplyKind, Any, NativeNotes | None]:
        """Return the next reply to a request, with notes about native rules if it is the last.

        Raises EvaluatorGone; then the worker is to be closed.
        """
        try:
            while not self._connection.poll(max(0.0, min(LOOK_EVERY_SECONDS, watch.left(limits)))):
                self._look(watch, limits)
            answer: tuple[ReplyKind, Any, NativeNotes | None] = self._connection.recv()
        except (EOFError, OSError):
            raise self._gone() from None
        self.is_asked = answer[0] not in _LAST
        return answer

    def _look(self, watch: RequestWatch, limits: Limits) -> None:
        busy = self.busy()
        numbers = () if busy is None else busy.numbers
        if limits.memory_bytes is not None and watch.growth_bytes(self.resident_bytes()) > limits.memory_bytes:
            raise EvaluatorGone(out_of_memory(limits.memory_bytes), numbers=numbers)
        if not limits.is_patient and busy is not None and busy.is_slow(self.cpu_seconds()):
            raise EvaluatorGone(f"it takes longer than {busy.patience_seconds:.2g} s", numbers=numbers)
        if watch.left(limits) <= 0:
            raise EvaluatorGone(f"it did not end within {limits.seconds:g} s", numbers=numbers)

    def _gone(self) -> EvaluatorGone:
        try:
            busy = self.busy()
        except (EOFError, OSError):  # it cannot be asked any more
            busy = None
        numbers = () if busy is None else busy.numbers
        return EvaluatorGone("the process that evaluated it came to its end", died=True, numbers=numbers)


@dataclass(slots=True)
class RequestWatch:
    """The begin of a request."""

    since: float
    resident_bytes: int | None = None
    """The memory of the worker when it was looked at first. Most requests end before, and asking takes a while."""

    def left(self, limits: Limits) -> float:
        return limits.seconds - (time.monotonic() - self.since)

    def growth_bytes(self, resident: int | None) -> int:
        """Return by how much the worker has grown since the first look; 0 if the system does not report it."""
        if self.resident_bytes is None:
            self.resident_bytes = resident
        return 0 if resident is None or self.resident_bytes is None else resident - self.resident_bytes


class WaitingWorkers:
    """Workers that were started elsewhere, as tasks on Spark, and wait for an evaluator. May be used by any thread."""

    def __init__(self) -> None:
        self._waiting: list[WorkerConnection] = []
        self._lock = threading.Lock()

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, worker: WorkerConnection) -> None:
        with self._lock:
            self._waiting.append(worker)

    def take(self) -> WorkerConnection | None:
        """Return one that is ready, if there is one."""
        with self._lock:
            self._sweep()
            ready = next((worker for worker in self._waiting if worker.is_ready()), None)
            if ready is not None:
                self._waiting.remove(ready)
        return ready

    def sweep(self) -> None:
        """Drop those that have ended. Others are started where these came from."""
        with self._lock:
            self._sweep()

    def clear(self) -> None:
        """End all that wait."""
        with self._lock:
            while self._waiting:
                self._waiting.pop().close()

    def _sweep(self) -> None:
        for worker in list(self._waiting):
            try:
                if not worker.is_ready() or worker.is_alive():
                    continue
            except (ProgramError, OperatorError):
                pass
            self._waiting.remove(worker)
            worker.close()


def out_of_memory(limit_bytes: int) -> str:
    """Return why an evaluation was ended that took too much memory."""
    return f"it took more than {limit_bytes / 1_000_000:,g} MB of memory, which --rule-memory allows"


def cpu_seconds_of(pid: int) -> float | None:
    """Return the CPU time of a process; None if the system has no /proc."""
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:
            fields = file.read().rpartition(b")")[2].split()
            return (int(fields[11]) + int(fields[12])) / _TICKS_PER_SECOND
    except (OSError, IndexError, ValueError):
        return None


def resident_bytes_of(pid: int) -> int | None:
    """Return the resident memory of a process; None if the system does not report it."""
    try:
        with open(f"/proc/{pid}/statm", "rb", buffering=0) as file:
            return int(file.read().split()[1]) * PAGE_BYTES
    except (OSError, IndexError, ValueError):
        return _resident_bytes_by_ps(pid)


def _resident_bytes_by_ps(pid: int) -> int | None:
    """Return the resident memory of a process without /proc."""
    try:
        done = subprocess.run(["ps", "-o", "rss=", "-p", str(pid)], capture_output=True, text=True, check=False)
    except OSError:
        return None
    return int(done.stdout) * 1024 if done.stdout.strip().isdigit() else None
