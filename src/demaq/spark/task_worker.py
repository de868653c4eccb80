"""A worker as a task on Spark: it connects to the node and replies to its requests until the node has no more.

On one machine the node watches and kills the process, as it does with processes of its own. On a cluster a second
process next to the worker does that for it: Saxon holds the GIL while it evaluates, so no thread of the worker could.
If the connection to the node is lost, the worker ends, and Spark starts the task again.
"""

from __future__ import annotations

import os
import signal
import socket
import struct
import tempfile
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from demaq.evaluation.workers.progress import Progress, progress_file
from demaq.evaluation.workers.socket_channel import SocketChannel
from demaq.evaluation.workers.worker_connection import cpu_seconds_of, resident_bytes_of
from demaq.spark.task_channel import TaskAddress, connect

if TYPE_CHECKING:
    from demaq.evaluation.workers.worker_connection import Channel

RETRY_SECONDS = 1.0
"""How long a task waits that could not reach its node, before Spark starts it again."""
ORPHAN_LOOK_SECONDS = 1.0
"""How often the process that watches a worker looks whether it is still there."""
CALLER, WATCHER = "worker", "watcher"
LOOK, KILL = "look", "kill"
HELLO = struct.Struct("!q")
"""What a task says first to a node on its machine: its process id."""


class EvaluatorTask:
    """The function of a task. Raises an error if the node is lost, so that Spark starts it again."""

    def __init__(self, address: TaskAddress) -> None:
        self._address = address

    def __call__(self, part: Iterable[int]) -> list[int]:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is for the node
        try:
            serve_node(self._address)
        except (OSError, EOFError):
            time.sleep(RETRY_SECONDS)
            raise
        return list(part)


def serve_node(address: TaskAddress) -> None:
    """Reply to the requests of a node. Raises an OSError or EOFError if it cannot be reached, or is lost."""
    peer = connect(address)
    if isinstance(address.where, str):
        peer.sendall(HELLO.pack(os.getpid()))
        _, [shared], *_ = socket.recv_fds(peer, 1, 1)  # memory that the node reads, too
        progress = Progress(shared)
        os.close(shared)
        _serve(SocketChannel(peer), progress)
        return
    name = os.urandom(16)
    with progress_file() as shared:
        progress = Progress(shared)
    watcher = _start_watcher(address, name, progress)
    try:
        channel = SocketChannel(peer)
        channel.send((CALLER, name))
        _serve(channel, progress)
    finally:
        with suppress(ProcessLookupError):
            os.kill(watcher, signal.SIGKILL)
        os.waitpid(watcher, 0)


def _serve(channel: Channel, progress: Progress) -> None:
    from demaq.evaluation.workers.worker import serve
    from demaq.spark.packaging import restore_answer, unpack_files

    files, companions, *start = channel.recv()
    files_here, root = unpack_files(files, companions, Path(_folder()))
    try:
        serve(channel, (files_here, *start), progress, lambda answer: restore_answer(answer, root))
    finally:
        channel.close()


def _folder() -> str:
    from pyspark import SparkFiles

    try:
        return SparkFiles.getRootDirectory()
    except AssertionError:  # not on an executor
        return tempfile.gettempdir()


# --- on a cluster, the process that watches a worker -----------------------------------------------------------------


def _start_watcher(address: TaskAddress, name: bytes, progress: Progress) -> int:
    """Fork before there is anything in this process that must not be forked. Return the pid."""
    worker = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    with suppress(BaseException):
        os.closerange(3, os.sysconf("SC_OPEN_MAX"))  # Spark notices the end of the worker by what these belong to
        channel = SocketChannel(connect(address))
        channel.send((WATCHER, name))
        watch_worker(channel, worker, progress)
    if os.getppid() == worker:
        os.kill(worker, signal.SIGKILL)  # it cannot be watched any more
    os._exit(0)


def watch_worker(channel: Channel, worker: int, progress: Progress) -> None:
    """Tell the node what the worker is busy with whenever it asks. Return when the worker is to be killed."""
    while os.getppid() == worker:
        if not channel.poll(ORPHAN_LOOK_SECONDS):
            continue
        if channel.recv() == KILL:
            return
        channel.send(describe(worker, progress))


def describe(worker: int, progress: Progress) -> tuple[Any, ...]:
    """Return for how long it has been busy, the CPU time of that, with what, and the memory of the worker."""
    busy, cpu = progress.read(), cpu_seconds_of(worker)
    resident = resident_bytes_of(worker)
    if busy is None:
        return None, None, None, (), resident
    used = None if cpu is None else cpu - busy.since_cpu
    return time.monotonic() - busy.since, used, busy.patience_seconds, busy.numbers, resident
