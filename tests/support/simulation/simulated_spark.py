"""A stand-in for Spark: has tasks that evaluate for a node, loses some of them, and fails now and then."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from demaq.errors import OperatorError
from demaq.evaluation.workers.child import EvaluatorProcess, Start
from demaq.evaluation.workers.worker_connection import WaitingWorkers
from demaq.spark.executor_list import Executor
from demaq.spark.jobs import JobFailed
from tests.support.simulation.scheduler import Scheduler


@dataclass
class SparkFaults:
    """Shares of jobs, tasks and starts that fail, all 0 if nothing goes wrong."""

    jobs: float = 0.0
    tasks: float = 0.0
    starts: float = 0.0
    counts: Counter[str] = field(default_factory=Counter)

    def calm(self) -> None:
        self.jobs = self.tasks = self.starts = 0.0


class SparkCluster:
    """What a node starts as Spark."""

    def __init__(self, scheduler: Scheduler, faults: SparkFaults) -> None:
        self.scheduler = scheduler
        self.faults = faults

    def start(self, master: str, **options: Any) -> SimpleNamespace:
        """Stands for `start_spark`."""
        self.scheduler.sleep(self.scheduler.chance.choice((0.01, 1.0)))
        if self.scheduler.chance.random() < self.faults.starts:
            self.faults.counts["not started"] += 1
            raise OperatorError("Spark could not be started")
        return SimpleNamespace(session=self, close=lambda: None, private_folder=Path())

    def tasks(self, session: object, *given: Any) -> SimulatedTasks:
        """Stands for `EvaluatorTasks`."""
        return SimulatedTasks(self, *given)


class SimulatedTask(EvaluatorProcess):
    """Stands for a task: a simulated process."""

    is_on_spark = True


class SimulatedTasks:
    """Stands for an instance of EvaluatorTasks."""

    def __init__(
        self,
        cluster: SparkCluster,
        start: Start,
        rounds: WaitingWorkers,
        arrivals: WaitingWorkers,
        folder: Path,
        tasks: int | None,
    ) -> None:
        self._cluster = cluster
        self._start = start
        self._rounds = rounds
        self._arrivals = arrivals
        self._wanted = cluster.scheduler.chance.choice((1, 2, 3, 5))
        self._workers: list[tuple[SimulatedTask, WaitingWorkers]] = []

    def look(self) -> tuple[int, int]:
        scheduler, faults = self._cluster.scheduler, self._cluster.faults
        for worker, _ in self._workers:
            if scheduler.chance.random() < faults.tasks:
                faults.counts["task lost"] += 1
                worker.kill()
        self._workers = [(worker, waiting) for worker, waiting in self._workers if worker.is_alive()]
        self._rounds.sweep()
        self._arrivals.sweep()
        if scheduler.chance.random() < faults.jobs:
            faults.counts["job failed"] += 1
            raise JobFailed("simulated")
        while len(self._workers) < self._wanted:
            served = [waiting for _, waiting in self._workers]
            waiting = self._arrivals if served and self._arrivals not in served else self._rounds
            self._workers.append((SimulatedTask(self._start), waiting))
            waiting.add(self._workers[-1][0])
        ready = [waiting for worker, waiting in self._workers if worker._is_welcome]
        return len(ready), sum([waiting is self._rounds for waiting in ready])

    def wait_for_one(self, seconds: float, is_given_up: Callable[[], bool]) -> None:
        end = self._cluster.scheduler.now + seconds
        while not self.look()[0] and self._cluster.scheduler.now < end and not is_given_up():
            self._cluster.scheduler.sleep(0.1)

    def executors(self) -> list[Executor]:
        return [Executor("driver", "localhost", 1, 0)]

    def has_ended(self) -> bool:
        return self._cluster.scheduler.chance.random() < self._cluster.faults.jobs

    def close(self) -> None:
        for worker, _ in self._workers:
            worker.kill()
