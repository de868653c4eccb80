"""Rounds on Spark: messages that share a slice go to one task, tasks are spread over the executors.

A task is told the numbers of its messages and of the snapshot, reads the store by itself, and answers with outcomes, as
the evaluator beside the node does. Compiled programs and open stores stay in the workers between rounds. A task that
does not come back costs nothing but time: its messages are evaluated beside the node, where the culprit is found.
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
from demaq.spark.packaging import companion_files, unpacked, with_own_places
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
"""Of the time of a worker's tasks: what it takes to check native answers."""

_log = logging.getLogger("demaq.node")


class SparkEvaluator:
    """A RoundEvaluator on Spark. What a lost task was asked is evaluated by the fallback."""

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
        # On this machine everything is where it is.
        self._companions = {} if is_local(str(session.sparkContext.master)) else companion_files(files)
        known = sorted(self._files.items()), sorted(self._companions.items()), native
        self._digest = hashlib.sha256(repr(known).encode()).hexdigest()
        self._store = str(store if is_address(store) else Path(store).resolve())
        self._fallback = fallback
        self._rule_timeout_seconds = rule_timeout_seconds
        self._rule_memory_bytes = rule_memory_bytes
        self.tasks = cores(session)
        """Into how many tasks a round is divided."""
        self.lost_tasks = 0
        """How many did not come back."""

    def probe(self) -> float:
        """How many seconds a job takes that has nothing to do. Raises JobFailed where there is nobody to do it."""
        started = time.perf_counter()
        try:
            run_tasks(self._session, [b""] * self.tasks, nothing)
        except TasksFailed as failed:
            raise JobFailed(str(failed)) from failed
        seconds = time.perf_counter() - started
        self.tasks = cores(self._session)
        return seconds

    def warm_up(self) -> None:
        """Have the program compiled where rounds will be evaluated. Raises JobFailed where there is nobody."""
        self._answers([self._assignment(RoundRequest(batch=(), snapshot=0, now=datetime.now(UTC)))] * self.tasks)

    def has_ended(self) -> bool:
        """Whether Spark must be started again to be of use."""
        return has_ended(self._session)

    def run(self, request: RoundRequest) -> RoundResult:
        """Raises JobFailed if Spark cannot do it at all."""
        self.tasks = cores(self._session)  # executors come and go
        shares = partition([message.slices for message in request.batch], self.tasks)
        assignments = [self._assignment(request.select(share)) for share in shares]
        answers = self._answers(assignments)
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

    def _assignment(self, request: RoundRequest) -> bytes:
        seconds = self._rule_timeout_seconds + len(request.batch) * FURTHER_MESSAGE_SECONDS
        limits = seconds, self._rule_memory_bytes
        program = (self._digest, self._files, self._companions, self._native, self._ledger.withdrawn)
        return pickle.dumps((program, self._store, limits, RunRound.of(request)))

    def _answers(self, assignments: Sequence[bytes]) -> dict[int, bytes]:
        try:
            return dict(enumerate(run_tasks(self._session, assignments, evaluate_share)))
        except TasksFailed as failed:
            for number, reason in failed.failures.items():
                _log.warning("task %d of a round on Spark failed: %s", number, reason.strip().split("\n")[-1])
            return failed.answers


def partition(slices: Sequence[Iterable[tuple[str, str]]], tasks: int) -> list[list[int]]:
    """Positions of messages in as many shares, about equally large: those that have a slice in common in one share."""
    leader = list(range(len(slices)))

    def leader_of(position: int) -> int:
        while leader[position] != position:
            leader[position] = leader[leader[position]]
            position = leader[position]
        return position

    first: dict[tuple[str, str], int] = {}
    for position, keys in enumerate(slices):
        for key in keys:
            mine, other = leader_of(position), leader_of(first.setdefault(key, position))
            leader[max(mine, other)] = min(mine, other)
    groups: dict[int, list[int]] = {}
    for position in range(len(slices)):
        groups.setdefault(leader_of(position), []).append(position)
    shares: list[list[int]] = [[] for _ in range(min(tasks, len(groups)))]
    for group in groups.values():
        min(shares, key=len).extend(group)
    return [sorted(share) for share in shares]


# --- on an executor --------------------------------------------------------------------------------------------------

_workers: dict[tuple[str, str, tuple[int, int] | None], tuple[Worker, str]] = {}
"""Compiled programs on open stores, by the program's digest, where the store is, and its file.

They live as long as the process. With what stands in front of their paths here.
"""
_memory = MemoryLimit()


def nothing(assignment: bytes) -> bytes:
    return assignment


def evaluate_share(assignment: bytes) -> bytes:
    """Outcomes of some messages."""
    from pyspark import SparkFiles

    from demaq.evaluation.workers.worker import Worker

    (digest, files, companions, native, withdrawn), store, limits, request = pickle.loads(assignment)
    opened = digest, store, identify_file(store)
    if opened not in _workers:
        _workers.clear()  # another application, version or file: what was there is not needed again
        files_here, root = unpacked(files, companions, Path(SparkFiles.getRootDirectory()))
        _workers[opened] = Worker(files_here, store, native), root
    worker, root = _workers[opened]
    with _limited(*limits):
        began = time.monotonic()
        worker.withdraw(withdrawn)
        result = worker.answer(request)
        with_own_places((*result.outcomes, *result.descendants), root)
        worker.check_within(CHECK_SHARE, time.monotonic() - began)  # a worker without a task is asked nothing
        answer = pickle.dumps((result, worker.notes()), pickle.HIGHEST_PROTOCOL)
    if worker.has_grown():
        threading.Timer(RECYCLE_SECONDS, os._exit, [0]).start()
    return answer


@contextmanager
def _limited(seconds: float, growth_bytes: int | None) -> Iterator[None]:
    """End this process when the block takes longer, or more memory. Python cannot interrupt a rule, the system can."""
    with _memory.limited(growth_bytes):
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, seconds)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
