"""Where rules are evaluated: in local processes, or in tasks on Spark that live as long as the node.

Processes serve until Spark is up, while it is out of reach, and where it is not wanted. There is nothing to choose for
a round: as soon as a task on Spark waits, it takes the place of a process (docs/decisions/0039).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from demaq.backoff import Backoff
from demaq.errors import OperatorError
from demaq.evaluation.arrival_request import ArrivalRequest, ArrivalResult
from demaq.evaluation.round_request import RoundRequest, RoundResult
from demaq.spark.executor_list import Executor
from demaq.spark.jobs import JobFailed

PipelineName = Literal["auto", "spark", "inline"]
START_MESSAGES = 1000
"""So many messages, evaluated without a longer pause than START_PAUSE_SECONDS, make `auto` start Spark."""
START_PAUSE_SECONDS = 0.1
FIRST_TASK_SECONDS_MAX = 60.0
"""How long a node that is to use Spark waits for the first task, before it begins without one."""
LOOK_SECONDS = 1.0
"""How often the node looks after its tasks."""
EXECUTORS_SECONDS = 5.0
"""How often it asks Spark for the executors, which is for operators only."""
RECOVERY_BACKOFF = Backoff(seconds_first=0.5, seconds_max=10.0)
"""Between two attempts to start Spark again."""

_log = logging.getLogger("demaq.node")


@dataclass(slots=True)
class Counts:
    """How many rounds and messages were evaluated where."""

    inline_rounds: int = 0
    inline_messages: int = 0
    spark_rounds: int = 0
    spark_messages: int = 0


class Tasks(Protocol):
    """The tasks of a node on a running Spark (demaq.spark.evaluator_tasks)."""

    def look(self) -> tuple[int, int]: ...

    def wait_for_one(self, seconds: float, is_given_up: Callable[[], bool]) -> None: ...

    def has_ended(self) -> bool: ...

    def executors(self) -> list[Executor]: ...


class Pool(Protocol):
    """A RoundEvaluator and ArrivalPool that uses the tasks as workers (demaq.evaluation.workers.pool)."""

    @property
    def messages_max(self) -> int: ...

    @property
    def rounds_max(self) -> int: ...

    def run(self, request: RoundRequest) -> RoundResult: ...

    def run_arrivals(
        self,
        divide: Callable[[int], Sequence[ArrivalRequest]],
        workers_max: int,
        meanwhile: Callable[[], None] = lambda: None,
    ) -> list[ArrivalResult] | None: ...

    def use_spark(self, workers: int) -> None: ...


class Pipeline:
    """A RoundEvaluator and ArrivalPool that starts Spark if it is wanted, and again if it has ended. Must be closed."""

    def __init__(
        self,
        name: PipelineName,
        pool: Pool,
        start: Callable[[], tuple[Tasks, Callable[[], None]]],
        tell: Callable[[str], None] = lambda line: None,
        is_elsewhere: bool = False,
    ) -> None:
        """`start` starts Spark and returns its tasks and a function that stops both.

        `tell` is called with status lines. `auto` starts Spark when there is much to do, or at once if it is elsewhere.
        """
        self.name = name
        self._pool = pool
        self._start = start
        self._tell = tell
        self.counts = Counts()
        self._lock = threading.Lock()
        """Protects the counts and the start of Spark: several rounds may end at the same time."""
        self.tasks = 0
        """How many tasks evaluate for the node at present."""
        self.executors: list[Executor] = []
        """Those that Spark had when it was asked last."""
        self._executors_at = 0.0
        self.fault: str | None = None
        """Why Spark is not used at present, although it is wanted."""
        self._spark: Tasks | None = None
        self._stop: Callable[[], None] | None = None
        self._busy_messages, self._busy_until = 0, 0.0
        self._thread: threading.Thread | None = None
        self._closing = threading.Event()
        if name == "spark":
            self.start()
        elif name == "auto" and is_elsewhere:
            self._start_later()

    @property
    def why(self) -> str:
        """Why rules are evaluated where they are."""
        if self.name == "inline":
            return "rules are evaluated in local processes"
        if self.fault is not None:
            return f"Spark is out of reach: {self.fault}"
        if self.tasks:
            return f"{self.tasks} tasks on Spark evaluate rules"
        if self._thread is None:
            return f"Spark is started when {START_MESSAGES:,} messages come in a row"
        return "Spark is starting"

    @property
    def messages_max(self) -> int:
        return self._pool.messages_max

    @property
    def rounds_max(self) -> int:
        return self._pool.rounds_max

    def run(self, request: RoundRequest) -> RoundResult:
        return self._pool.run(request)

    def run_arrivals(
        self,
        divide: Callable[[int], Sequence[ArrivalRequest]],
        workers_max: int,
        meanwhile: Callable[[], None] = lambda: None,
    ) -> list[ArrivalResult] | None:
        return self._pool.run_arrivals(divide, workers_max, meanwhile)

    def note_round(self, messages: int, is_on_spark: bool) -> None:
        """Count messages that were evaluated together, and start Spark if there are many in a row."""
        with self._lock:
            if self.name == "auto" and self._thread is None:
                self._note_busy(messages, time.monotonic())
            if is_on_spark:
                self.counts.spark_rounds += 1
                self.counts.spark_messages += messages
            else:
                self.counts.inline_rounds += 1
                self.counts.inline_messages += messages

    def start(self) -> None:
        """Start Spark now, if it may be used, and wait for its first task."""
        if self.name == "inline" or self._thread is not None:
            return
        self._start_now()
        assert self._spark is not None, "it was started"
        self._look(lambda spark: spark.wait_for_one(FIRST_TASK_SECONDS_MAX, self._closing.is_set))
        self._start_later()

    def close(self) -> None:
        self._closing.set()
        if self._thread is not None:
            self._thread.join()
        if self._stop is not None:
            self._stop()
            self._stop = None
        self._spark = None

    # Spark

    def _note_busy(self, messages: int, now: float) -> None:
        if now - self._busy_until > START_PAUSE_SECONDS:
            self._busy_messages = 0
        self._busy_until = now
        self._busy_messages += messages
        if self._busy_messages >= START_MESSAGES:
            self._start_later()

    def _start_later(self) -> None:
        self._thread = threading.Thread(target=self._supervise, name="demaq-spark", daemon=True)
        self._thread.start()

    def _start_now(self) -> None:
        self._spark, self._stop = self._start()

    def _supervise(self) -> None:
        """Look after the tasks until the node stops: start Spark again if it has ended."""
        attempt = 0
        while not self._closing.wait(RECOVERY_BACKOFF.delay_seconds(attempt) if attempt else 0.0):
            try:
                if self._spark is None:
                    self._start_now()
                attempt = 0
            except OperatorError as error:
                attempt += 1
                self._note_fault(error)
                continue
            while not self._closing.wait(LOOK_SECONDS if self.tasks or self.fault else LOOK_SECONDS / 10):
                try:
                    self._look(lambda spark: None)
                except Exception:  # a mistake of ours must not end what starts lost tasks again
                    _log.exception("the tasks on Spark could not be looked after; trying again")
                if self.fault is not None and self._spark is not None and self._spark.has_ended():
                    assert self._stop is not None, "Spark was started"
                    self._stop()
                    self._spark = self._stop = None
                    attempt = 1
                    break

    def _look(self, wait: Callable[[Tasks], None]) -> None:
        """Look after the tasks, and let the pool use as many as there are."""
        assert self._spark is not None, "Spark was started"
        try:
            wait(self._spark)
            tasks, for_rounds = self._spark.look()
            self._look_for_executors(self._spark)
        except JobFailed as failed:
            self._note_fault(failed)
            tasks = for_rounds = 0
            self.executors, self._executors_at = [], 0.0
        else:
            if tasks and self.fault is not None:
                _log.warning("Spark works again, with %d tasks", tasks)
                self.fault = None
            elif tasks and not self.tasks:
                self._tell(f"Spark runs: {tasks} of its tasks evaluate rules")
        self.tasks = tasks
        self._pool.use_spark(for_rounds)

    def _look_for_executors(self, spark: Tasks) -> None:
        now = time.monotonic()
        if not self.executors or now - self._executors_at >= EXECUTORS_SECONDS:
            self.executors, self._executors_at = spark.executors(), now

    def _note_fault(self, error: OperatorError) -> None:
        if self.fault is None:
            _log.warning("%s; evaluating locally until Spark works again", error)
        self.fault = str(error)
