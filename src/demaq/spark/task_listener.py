"""The node's end of its tasks on Spark: lets them in, and makes each one a worker like a local process."""

from __future__ import annotations

import logging
import os
import secrets
import shutil
import signal
import socket
import threading
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from demaq.evaluation.workers.child import Start
from demaq.evaluation.workers.progress import Busy, Progress, progress_file
from demaq.evaluation.workers.socket_channel import SocketChannel
from demaq.evaluation.workers.worker_connection import (
    Channel,
    WaitingWorkers,
    WorkerConnection,
    cpu_seconds_of,
    resident_bytes_of,
)
from demaq.socket_folder import make_socket_folder
from demaq.spark.task_channel import (
    HANDSHAKE_SECONDS_MAX,
    SECRET_BYTES,
    TaskAddress,
    accept_peer,
    make_certificate,
    read_exactly,
)
from demaq.spark.task_worker import CALLER, HELLO, KILL, LOOK

TASKS_SOCKET = "socket"
STRANGERS_MAX = 64
"""How many connections may prove at the same time who they are; more are closed."""
WATCHER_SECONDS_MAX = 5.0
"""How long the watcher of a worker on another machine may take to answer before the worker counts as lost."""

_log = logging.getLogger("demaq.node")


class TaskWorker(WorkerConnection):
    """A worker that is a task on Spark."""

    is_on_spark = True

    def __init__(self, channel: Channel, forget: Callable[[TaskWorker], None]) -> None:
        super().__init__(channel)
        self._forget = forget
        self._ending = threading.Lock()
        self._is_over = False

    def is_alive(self) -> bool:
        """Return whether it is there, as far as its connection tells. Not to be asked during a request.

        The thread that looks after the tasks asks as well as the one that uses this one.
        """
        if self._is_over:
            return False
        try:
            return not self._is_welcome or self._connection.is_silent()  # it says nothing by itself
        except OSError:
            return False

    def is_there(self) -> bool:
        """Return whether it is being asked, or could be. May be called from any thread."""
        return self.is_asked or self.is_alive()

    def is_in_use(self) -> bool:
        """Return whether it was ready at last sight and is still there. May be called from any thread."""
        return self._is_welcome and self.is_there()

    def kill(self) -> None:
        with self._ending:
            if not self._is_over:
                self._kill()

    @abstractmethod
    def _kill(self) -> None:
        """Kill it, as the lock allows: later its process may do something else."""

    def dismiss(self) -> None:
        """Let the task end: it may not be asked any more. Kill it if it is busy."""
        with self._ending:
            if self._is_over:
                return
            if not self.is_asked and self._is_welcome:
                with suppress(OSError):
                    self._connection.send(None)
            else:
                self._kill()
            self._is_over = True

    def close(self) -> None:
        self.kill()
        with self._ending:
            self._is_over = True
        self._connection.close()
        self._forget(self)


class LocalTask(TaskWorker):
    """A task on this machine."""

    def __init__(self, channel: Channel, forget: Callable[[TaskWorker], None], pid: int, progress: Progress) -> None:
        super().__init__(channel, forget)
        self._pid = pid
        self._progress = progress
        # Unlike a process id it is never reused.
        self._handle = os.pidfd_open(pid) if hasattr(os, "pidfd_open") else None

    @property
    def pid(self) -> int:
        return self._pid

    def busy(self) -> Busy | None:
        return self._progress.read()

    def cpu_seconds(self) -> float | None:
        return cpu_seconds_of(self._pid)

    def resident_bytes(self) -> int | None:
        return resident_bytes_of(self._pid)

    def _kill(self) -> None:
        with suppress(ProcessLookupError):
            if self._handle is not None:
                signal.pidfd_send_signal(self._handle, signal.SIGKILL)
            else:
                os.kill(self._pid, signal.SIGKILL)

    def close(self) -> None:
        super().close()
        handle, self._handle = self._handle, None
        if handle is not None:
            os.close(handle)
        self._progress.close()


class RemoteTask(TaskWorker):
    """A task on another machine, which another process there watches."""

    def __init__(self, channel: Channel, forget: Callable[[TaskWorker], None], watcher: Channel) -> None:
        super().__init__(channel, forget)
        self._watcher = watcher
        self._cpu_seconds: float | None = None
        self._resident_bytes: int | None = None

    @property
    def pid(self) -> None:
        return None

    def busy(self) -> Busy | None:
        self._watcher.send(LOOK)
        if not self._watcher.poll(WATCHER_SECONDS_MAX):
            raise OSError("the watcher of a task does not answer")
        seconds, self._cpu_seconds, patience, numbers, self._resident_bytes = self._watcher.recv()
        return None if seconds is None else Busy(time.monotonic() - seconds, 0.0, patience, numbers)

    def cpu_seconds(self) -> float | None:
        return self._cpu_seconds

    def resident_bytes(self) -> int | None:
        return self._resident_bytes

    def _kill(self) -> None:
        with suppress(OSError):
            self._watcher.send(KILL)

    def close(self) -> None:
        super().close()
        self._watcher.close()


@contextmanager
def _cut_after(seconds: float, peer: socket.socket) -> Iterator[None]:
    """Cut a connection if the block takes longer, however little the other side sends at a time."""

    def cut() -> None:
        with suppress(OSError):
            socket.socket.shutdown(peer, socket.SHUT_RDWR)

    timer = threading.Timer(seconds, cut)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


class TaskListener:
    """Lets the tasks of a node in and hands them to its evaluators. Must be closed."""

    def __init__(
        self,
        start: Start,
        companions: dict[str, bytes],
        rounds: WaitingWorkers,
        arrivals: WaitingWorkers,
        folder: Path,
        host: str | None = None,
        bind: str | None = None,
        port: int = 0,
    ) -> None:
        """`rounds` get the tasks, and one of several is for `arrivals`. The folder must be private to its user.

        Listens on a socket file, or on TCP if there is a `host`, by which executors know this machine.
        """
        self._start = (dict(start.files), companions, str(start.store), start.orphan_seconds, start.native)
        self._rounds = rounds
        self._arrivals = arrivals
        self._lock = threading.Lock()
        self._workers: dict[TaskWorker, WaitingWorkers] = {}
        self._halves: dict[bytes, tuple[Channel, float]] = {}
        """Of tasks on other machines the first of two connections, and when it came."""
        self._strangers = threading.Semaphore(STRANGERS_MAX)
        self._is_closed = False
        self.refused = 0
        """How many connections were refused."""
        secret = secrets.token_bytes(SECRET_BYTES)
        self._tls = None
        if host is None:
            # Not in the folder of the store, whose path may be longer than that of a socket.
            self._private: Path | None = make_socket_folder("demaq-tasks-", TASKS_SOCKET)
            where = self._private / TASKS_SOCKET
            self._socket = socket.socket(socket.AF_UNIX)
            self._socket.bind(str(where))
            where.chmod(0o600)
            self.address = TaskAddress(str(where), secret)
        else:
            self._tls, certificate = make_certificate(folder)
            self._private = None
            family = socket.AF_INET6 if ":" in (bind or host) else socket.AF_INET
            self._socket = socket.create_server((bind or host, port), family=family)
            self.address = TaskAddress((host, self._socket.getsockname()[1]), secret, certificate)
        self._socket.listen()
        threading.Thread(target=self._accept, name="demaq-tasks", daemon=True).start()

    def count(self) -> tuple[int, int]:
        """Return how many tasks are ready, and how many of them are for rounds. Drop those that have ended unused."""
        self._rounds.sweep()
        self._arrivals.sweep()
        with self._lock:
            old = time.monotonic() - 2 * HANDSHAKE_SECONDS_MAX
            for name, (channel, since) in list(self._halves.items()):
                if since < old:
                    channel.close()
                    del self._halves[name]
            found = [waiting for worker, waiting in self._workers.items() if worker.is_in_use()]
        return len(found), sum([waiting is self._rounds for waiting in found])

    def close(self) -> None:
        """Let no more tasks in, and let those that are there end."""
        self._is_closed = True
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # wakes the thread
        self._socket.close()
        if self._private is not None:
            shutil.rmtree(self._private, ignore_errors=True)
        with self._lock:
            workers = list(self._workers)
            halves, self._halves = self._halves, {}
        for worker in workers:
            worker.dismiss()
        for channel, _ in halves.values():
            channel.close()
        self._rounds.clear()
        self._arrivals.clear()

    def _accept(self) -> None:
        while not self._is_closed:
            try:
                peer, _ = self._socket.accept()
            except OSError:
                if not self._is_closed:
                    time.sleep(0.1)  # too many open files
                continue
            if not self._strangers.acquire(blocking=False):
                peer.close()
                continue
            threading.Thread(target=self._let_in, args=[peer], name="demaq-task", daemon=True).start()

    def _let_in(self, peer: socket.socket) -> None:
        try:
            if self._tls is not None:
                peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                peer = self._tls.wrap_socket(peer, server_side=True, do_handshake_on_connect=False)
            with _cut_after(HANDSHAKE_SECONDS_MAX, peer):
                accept_peer(peer, self.address.secret)
            worker = self._make_worker(peer)
        except (OSError, EOFError) as error:
            peer.close()
            if not self._is_closed:
                self.refused += 1
                _log.warning("a connection to the tasks of this node was refused: %s", repr(error))
            return
        finally:
            self._strangers.release()
        if worker is not None:
            self._add(worker)

    def _make_worker(self, peer: socket.socket) -> TaskWorker | None:
        """Return a task that has proved to be one; None if its second connection has yet to come."""
        if self._tls is None:
            [pid] = HELLO.unpack(read_exactly(peer, HELLO.size))
            with progress_file() as shared:
                socket.send_fds(peer, [b"."], [shared])
                progress = Progress(shared)
            return LocalTask(SocketChannel(peer), self._forget, pid, progress)
        channel = SocketChannel(peer)
        kind, name = channel.recv()
        with self._lock:
            other, _ = self._halves.pop(name, (None, 0.0))
            if other is None:
                self._halves[name] = channel, time.monotonic()
                return None
        worker, watcher = (channel, other) if kind == CALLER else (other, channel)
        return RemoteTask(worker, self._forget, watcher)

    def _add(self, worker: TaskWorker) -> None:
        with self._lock:
            # Rounds first; of several tasks one is for arrivals. One that is lost may not have been noticed yet: Spark
            # starts the next one at once.
            served = [waiting for other, waiting in self._workers.items() if other.is_there()]
            waiting = self._arrivals if served and self._arrivals not in served else self._rounds
            self._workers[worker] = waiting
        with suppress(OSError):
            worker._connection.send(self._start)
        waiting.add(worker)
        if self._is_closed:
            worker.dismiss()
            waiting.clear()

    def _forget(self, worker: TaskWorker) -> None:
        with self._lock:
            self._workers.pop(worker, None)
