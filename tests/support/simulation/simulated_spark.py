"""A stand-in for Spark: evaluates rounds in tasks, loses some of them, and fails now and then."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from demaq.errors import OperatorError
from demaq.evaluation.round_request import RoundEvaluator, RoundRequest, RoundResult
from demaq.evaluation.workers.worker import Worker
from demaq.evaluation.workers.worker_protocol import RunRound
from demaq.spark.jobs import JobFailed
from demaq.spark.spark_evaluator import partition
from tests.support.simulation.scheduler import Scheduler

PROBE_SECONDS = 0.0005


@dataclass
class SparkFaults:
    """Shares of jobs and tasks that fail, all 0 if nothing goes wrong."""

    jobs: float = 0.0
    tasks: float = 0.0
    starts: float = 0.0
    counts: Counter[str] = field(default_factory=Counter)

    def calm(self) -> None:
        self.jobs = self.tasks = self.starts = 0.0


class SparkCluster:
    """What a node starts as Spark."""

    def __init__(self, scheduler: Scheduler, faults: SparkFaults, kept: list[object]) -> None:
        self.scheduler = scheduler
        self.faults = faults
        self.kept = kept
        """What holds nodes of Saxon, which must be released in the main thread."""

    def start(self, master: str, **options: Any) -> SimpleNamespace:
        """Stands for `start_spark`."""
        self.scheduler.sleep(self.scheduler.chance.choice((0.01, 1.0)))
        if self.scheduler.chance.random() < self.faults.starts:
            self.faults.counts["not started"] += 1
            raise OperatorError("Spark could not be started")
        return SimpleNamespace(session=self, close=lambda: None)

    def evaluator(self, session: object, *given: Any) -> SimulatedSpark:
        """Stands for `SparkEvaluator`."""
        return SimulatedSpark(self, *given)


class SimulatedSpark:
    """Stands for an instance of SparkEvaluator."""

    messages_max = 5000
    rounds_max = 1

    def __init__(
        self,
        cluster: SparkCluster,
        files: Mapping[str, str],
        store: str,
        fallback: RoundEvaluator,
        rule_timeout_seconds: float,
        rule_memory_bytes: int | None,
        native: Any,
        ledger: Any,
    ) -> None:
        self._cluster = cluster
        self._fallback = fallback
        self._ledger = ledger
        self.tasks = cluster.scheduler.chance.choice((2, 3))
        # A worker whose results are used as they are, in the main thread.
        self._worker = cluster.scheduler.in_main(lambda: Worker(dict(files), store, native))
        cluster.kept.append(self._worker)

    def warm_up(self) -> None:
        self._run_job()

    def probe(self) -> float:
        self._run_job()
        return PROBE_SECONDS

    def has_ended(self) -> bool:
        return self._cluster.scheduler.chance.random() < self._cluster.faults.jobs

    def run(self, request: RoundRequest) -> RoundResult:
        self._run_job()
        scheduler, faults = self._cluster.scheduler, self._cluster.faults
        result = RoundResult([None] * len(request.batch))
        for share in partition([message.slices for message in request.batch], self.tasks):
            scheduler.sleep(scheduler.chance.choice((0.0, 0.0001, 0.001)))
            part = request.select(share)
            if scheduler.chance.random() < faults.tasks:
                faults.counts["task lost"] += 1
                result.insert(share, self._fallback.run(part))
            else:
                result.insert(share, self._evaluate(RunRound.of(part)))
        return result

    def _evaluate(self, request: RunRound) -> RoundResult:
        worker = self._worker
        packed, notes = self._cluster.scheduler.in_main(lambda: (pickle.dumps(worker.answer(request)), worker.notes()))
        self._ledger.add(notes)
        result: RoundResult = pickle.loads(packed)
        return result

    def _run_job(self) -> None:
        self._cluster.scheduler.sleep(PROBE_SECONDS)
        if self._cluster.scheduler.chance.random() < self._cluster.faults.jobs:
            self._cluster.faults.counts["job failed"] += 1
            raise JobFailed("simulated")
