"""A worker process beside its caller, and spare ones."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from demaq.evaluation.native.native_settings import DEFAULT, NativeSettings
from demaq.evaluation.workers.bare_worker import take_bare_worker
from demaq.evaluation.workers.progress import Busy
from demaq.evaluation.workers.socket_channel import SocketChannel
from demaq.evaluation.workers.worker_connection import WorkerConnection, cpu_seconds_of, resident_bytes_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """What a worker needs to start; the same for all workers of a node."""

    files: Mapping[str, str]
    """The program's modules by path, as they were when it was checked."""
    store: str | Path
    orphan_seconds: float
    """The longest time limit of a request, so that a worker whose node was killed ends by itself."""
    native: NativeSettings = DEFAULT


class EvaluatorProcess(WorkerConnection):
    """A worker process that was launched."""

    def __init__(self, start: Start) -> None:
        bare = take_bare_worker()
        self._process = bare.process
        self._progress = bare.progress
        super().__init__(SocketChannel(bare.socket))
        with suppress(OSError):  # it has died already, as wait_until_ready will find
            self._connection.send((dict(start.files), str(start.store), start.orphan_seconds, start.native))

    @property
    def pid(self) -> int:
        return self._process.pid

    def is_alive(self) -> bool:
        return self._process.poll() is None

    def busy(self) -> Busy | None:
        return self._progress.read()

    def cpu_seconds(self) -> float | None:
        return cpu_seconds_of(self.pid)

    def resident_bytes(self) -> int | None:
        return resident_bytes_of(self.pid)

    def kill(self) -> None:
        self._process.kill()

    def close(self) -> None:
        self._connection.close()
        self._process.kill()
        self._process.wait()
        self._progress.close()


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
