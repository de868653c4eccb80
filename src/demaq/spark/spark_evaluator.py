"""Evaluate rounds on Spark: messages that share a slice are in one task, and tasks run on the executors.

A task gets the numbers of its messages and of the snapshot, reads the store itself and returns outcomes, as a local
worker process does. Workers keep compiled programs and open stores between rounds. The messages of a lost task are
evaluated by the fallback, in local worker processes, which bisect to find the message that ends the worker.
"""

from __future__ import annotations

import hashlib
import logging
import os
import pickle
import signal
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from demaq.evaluation.native.ledger import NativeLedger
from demaq.evaluation.native.native_settings import DEFAULT, NativeSettings
from demaq.evaluation.round_request import RoundEvaluator, RoundRequest, RoundResult
from demaq.evaluation.workers.process import FURTHER_MESSAGE_SECONDS, RULE_MEMORY_BYTES, RULE_TIMEOUT_SECONDS
from demaq.evaluation.workers.worker_protocol import RunRound
from demaq.spark.jobs import JobFailed, TasksFailed, cores, has_ended, run_tasks
from demaq.spark.master import is_local
from demaq.spark.memory_limit import MemoryLimit
from demaq.spark.packaging import read_companion_files, restore_locations, unpack_files
from demaq.store.address import is_address
from demaq.store.opening import identify_file

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from demaq.evaluation.workers.worker import Worker

SPARK_MESSAGES_MAX = 5000
"""How many messages a round on Spark may have."""
RECYCLE_SECONDS = 0.5
"""How long after its task a worker that has grown ends itself."""

CHECK_SHARE = 0.01
"""The share of a worker's time that it spends on checking native results against Saxon."""

_log = logging.getLogger("demaq.node")


class SparkEvaluator:
    """A RoundEvaluator on Spark. The messages of a lost task are evaluated by the fallback."""

    messages_max = SPARK_MESSAGES_MAX
    rounds_max = 1

    def __init__(
        self,
        session: SparkSession,
        files: Mapping[str, str],
        store: str | Path,
        fallback: RoundEvaluator,
        rule_timeout_seconds: float = RULE_TIMEOUT_SECONDS,
        rule_memory_bytes: int | None = RULE_MEMORY_BYTES,
        native: NativeSettings = DEFAULT,
        ledger: NativeLedger | None = None,
    ) -> None:
        self._native = native
        self._ledger = ledger or NativeLedger()
        self._session = session
        self._files = dict(files)
        # Tasks on this machine read the files themselves.
        self._companions = {} if is_local(str(session.sparkContext.master)) else read_companion_files(files)
        known = sorted(self._files.items()), sorted(self._companions.items()), native
        self._digest = hashlib.sha256(repr(known).encode()).hexdigest()
        self._store = str(store if is_address(store) else Path(store).resolve())
        self._fallback = fallback
        self._rule_timeout_seconds = rule_timeout_seconds
        self._rule_memory_bytes = rule_memory_bytes
        self.tasks = cores(session)
        """How many tasks a round is divided into."""
        self.lost_tasks = 0
        """How many tasks were lost."""

    def probe(self) -> float:
        """Return how many seconds an empty job takes. Raises JobFailed if there are no executors."""
        started = time.perf_counter()
        try:
            run_tasks(self._session, [b""] * self.tasks, echo)
        except TasksFailed as failed:
            raise JobFailed(str(failed)) from failed
        seconds = time.perf_counter() - started
        self.tasks = cores(self._session)
        return seconds

    def warm_up(self) -> None:
        """Compile the program in the workers. Raises JobFailed if there are no executors."""
        self._run_tasks(
            [self._encode_assignment(RoundRequest(batch=(), snapshot=0, now=datetime.now(UTC)))] * self.tasks
        )

    def has_ended(self) -> bool:
        """Return whether Spark must be started again."""
        return has_ended(self._session)

    def run(self, request: RoundRequest) -> RoundResult:
        """Evaluate a round. Raises JobFailed if Spark cannot run the job."""
        self.tasks = cores(self._session)  # executors come and go
        shares = partition([message.slices for message in request.batch], self.tasks)
        assignments = [self._encode_assignment(request.select(share)) for share in shares]
        answers = self._run_tasks(assignments)
        result = RoundResult([None] * len(request.batch))
        for number, share in enumerate(shares):
            if number in answers:
                found, notes = pickle.loads(answers[number])
                self._ledger.add(notes)
                result.insert(share, found)
        lost = [position for number, share in enumerate(shares) if number not in answers for position in share]
        if lost:
            self.lost_tasks += len(shares) - len(answers)
            result.insert(lost, self._fallback.run(request.select(lost)))
        return result

    # tasks

    def _encode_assignment(self, request: RoundRequest) -> bytes:
        seconds = self._rule_timeout_seconds + len(request.batch) * FURTHER_MESSAGE_SECONDS
        limits = seconds, self._rule_memory_bytes
        program = (self._digest, self._files, self._companions, self._native, self._ledger.withdrawn)
        return pickle.dumps((program, self._store, limits, RunRound.of(request)))

    def _run_tasks(self, assignments: Sequence[bytes]) -> dict[int, bytes]:
        try:
            return dict(enumerate(run_tasks(self._session, assignments, evaluate_share)))
        except TasksFailed as failed:
            for number, reason in failed.failures.items():
                _log.warning("task %d of a round on Spark failed: %s", number, reason.strip().split("\n")[-1])
            return failed.answers


def partition(slices: Sequence[Iterable[tuple[str, str]]], tasks: int) -> list[list[int]]:
    """Divide the positions of messages into shares of about equal size.

    Messages with a common slice are in one share.
    """
    leader = list(range(len(slices)))

    def find_leader(position: int) -> int:
        while leader[position] != position:
            leader[position] = leader[leader[position]]
            position = leader[position]
        return position

    first: dict[tuple[str, str], int] = {}
    for position, keys in enumerate(slices):
        for key in keys:
            mine, other = find_leader(position), find_leader(first.setdefault(key, position))
            leader[max(mine, other)] = min(mine, other)
    groups: dict[int, list[int]] = {}
    for position in range(len(slices)):
        groups.setdefault(find_leader(position), []).append(position)
    shares: list[list[int]] = [[] for _ in range(min(tasks, len(groups)))]
    for group in groups.values():
        min(shares, key=len).extend(group)
    return [sorted(share) for share in shares]


# --- on an executor --------------------------------------------------------------------------------------------------

_workers: dict[tuple[str, str, tuple[int, int] | None], tuple[Worker, str]] = {}
"""At most one worker, by the program's digest, the store's address and the identity of its file, with the folder of its
files. It lives as long as the process.
"""
_memory = MemoryLimit()


def echo(assignment: bytes) -> bytes:
    """Do nothing, to measure the cost of a job."""
    return assignment


def evaluate_share(assignment: bytes) -> bytes:
    """Evaluate some messages of a round. Return their pickled result and the worker's notes."""
    from pyspark import SparkFiles

    from demaq.evaluation.workers.worker import Worker

    (digest, files, companions, native, withdrawn), store, limits, request = pickle.loads(assignment)
    opened = digest, store, identify_file(store)
    if opened not in _workers:
        _workers.clear()  # another application, version or file
        files_here, root = unpack_files(files, companions, Path(SparkFiles.getRootDirectory()))
        _workers[opened] = Worker(files_here, store, native), root
    worker, root = _workers[opened]
    with _limit(*limits):
        began = time.monotonic()
        worker.withdraw(withdrawn)
        result = worker.answer(request)
        restore_locations((*result.outcomes, *result.descendants), root)
        worker.check_within(CHECK_SHARE, time.monotonic() - began)  # now, because a worker without a task cannot do it
        answer = pickle.dumps((result, worker.notes()), pickle.HIGHEST_PROTOCOL)
    if worker.has_grown():
        threading.Timer(RECYCLE_SECONDS, os._exit, [0]).start()
    return answer


@contextmanager
def _limit(seconds: float, growth_bytes: int | None) -> Iterator[None]:
    """End this process if the block exceeds a time or memory limit. Python itself cannot interrupt Saxon."""
    with _memory.limit(growth_bytes):
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, seconds)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
