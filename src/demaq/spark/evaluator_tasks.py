"""The tasks on Spark that evaluate for a node: a job that runs as long as the node, with one task for each core.

Spark places the tasks, and starts one again that was lost. The tasks connect to the node and are fed like local
processes (task_listener.py). Slots are left for other jobs: on a local master the session has more slots than tasks, on
a cluster one core has no task.
"""

from __future__ import annotations

import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from demaq.backoff import Backoff
from demaq.evaluation.workers.child import Start
from demaq.evaluation.workers.pool import evaluators_here
from demaq.evaluation.workers.process import RULE_MEMORY_BYTES, ProcessEvaluator
from demaq.evaluation.workers.worker_connection import WaitingWorkers
from demaq.spark.executor_list import Executor, list_executors
from demaq.spark.jobs import JobFailed, cores, has_ended, summary_of
from demaq.spark.master import LOCAL, is_local
from demaq.spark.packaging import read_companion_files
from demaq.spark.task_listener import TaskListener
from demaq.spark.task_worker import EvaluatorTask

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TASKS_MAX = 64
"""How many tasks a node feeds at most."""
ARRIVAL_TASKS = 1
"""On a local master so many tasks more than cores, for messages that arrive."""
ATTEMPTS_OF_TASKS = 1_000_000
"""How often a task is started: as often as it is lost, which may be the fault of rules, as long as the node lives."""
IDLE_SECONDS_MAX = 30.0
"""How long there may be no task at all before Spark counts as out of reach. An executor may take a while to start."""
FIRST_TASK_LOOK_SECONDS = 0.02
JOB_BACKOFF = Backoff(seconds_first=0.5, seconds_max=10.0)
"""Before a job is started again that has failed."""
END_SECONDS_MAX = 5.0
"""How long tasks may take to end before their job is cancelled."""
PORT = "spark.demaq.tasks.port"
"""The setting of Spark for the port on which a node listens for its tasks on a cluster; any free one by default."""


def local_tasks(master: str) -> int | None:
    """Return how many tasks a node has on a local master, one for each of its cores and for arrivals; else None."""
    local = LOCAL.match(master)
    if local is None:
        return None
    given = local[1] or "1"
    return (evaluators_here() if given == "*" else min(int(given), TASKS_MAX)) + ARRIVAL_TASKS


class EvaluatorTasks:
    """The tasks of a node in a session. Must be closed."""

    def __init__(
        self,
        session: SparkSession,
        start: Start,
        rounds: WaitingWorkers,
        arrivals: WaitingWorkers,
        folder: Path,
        tasks: int | None = None,
    ) -> None:
        """`look` starts them. The folder must be private to its user.

        `tasks` is how many there are, by default one less than cores.
        """
        self._session = session
        self._tasks = tasks
        conf = session.sparkContext.getConf()
        if is_local(str(session.sparkContext.master)):  # tasks read the files themselves
            self._listener = TaskListener(start, {}, rounds, arrivals, folder)
        else:
            host = str(conf.get("spark.driver.host"))
            bind, port = conf.get("spark.driver.bindAddress", host), int(conf.get(PORT, "0") or 0)
            companions = read_companion_files(start.files)
            self._listener = TaskListener(start, companions, rounds, arrivals, folder, host, bind, port)
        self._jobs: list[_Job] = []
        self._failures = 0
        self._retry_at = 0.0
        self._seen = time.monotonic()
        """When there was a task last."""

    def look(self) -> tuple[int, int]:
        """Start what is missing. Return how many tasks are ready, and how many of them are for rounds.

        Raises JobFailed if Spark cannot run them now.
        """
        ready, for_rounds = self._listener.count()
        now = time.monotonic()
        if ready:
            self._seen = now
            self._failures = 0
        ended = [job for job in self._jobs if job.is_over.is_set()]
        self._jobs = [job for job in self._jobs if job not in ended]
        if any([job.failure for job in ended]):
            self._failures += 1
            self._retry_at = now + JOB_BACKOFF.delay_seconds(self._failures)
        wanted = self._wanted()
        missing = wanted - sum([job.tasks for job in self._jobs])
        if missing > 0 and now >= self._retry_at:
            if self._failures:
                self._seen = now  # it has as much time as the first one
            self._jobs.append(_Job(self._session, EvaluatorTask(self._listener.address), missing))
        if not ready:
            failure = next((job.failure for job in ended if job.failure), None)
            if failure is not None:
                raise JobFailed(f"Spark could not run a job of {wanted} tasks: {failure}")
            if now - self._seen > IDLE_SECONDS_MAX:
                reason = f"no executor has worked on it for {IDLE_SECONDS_MAX:g} s"
                for job in self._jobs:  # if Spark waits for a process that is lost, a new job gets another one
                    job.cancel(reason)
                raise JobFailed(f"Spark could not run a job of {wanted} tasks: {reason}")
        return ready, for_rounds

    def _wanted(self) -> int:
        found = cores(self._session)  # executors come and go; raises JobFailed if Spark has ended
        return self._tasks or max(1, min(found - 1, TASKS_MAX))

    def wait_for_one(self, seconds: float, is_given_up: Callable[[], bool] = lambda: False) -> None:
        """Wait until a task is ready, and not longer than so long. Raises JobFailed."""
        end = time.monotonic() + seconds
        while not self.look()[0] and time.monotonic() < end and not is_given_up():
            time.sleep(FIRST_TASK_LOOK_SECONDS)

    def has_ended(self) -> bool:
        """Return whether Spark must be started again."""
        return has_ended(self._session)

    def executors(self) -> list[Executor]:
        """Return where Spark can run tasks at present. Raises JobFailed."""
        return list_executors(self._session)

    def close(self) -> None:
        """Let the tasks end. May be called twice."""
        self._listener.close()
        while self._jobs:
            self._jobs.pop().end()


@dataclass
class _Job:
    """One job of some tasks, in a thread that waits for its end."""

    session: SparkSession
    task: EvaluatorTask
    tasks: int
    failure: str | None = None
    """Why it has failed, if it has."""
    cancelled: str | None = None
    """Why it was cancelled, if it was."""
    is_over: threading.Event = field(default_factory=threading.Event)
    group: str = field(default_factory=lambda: uuid.uuid4().hex)

    def __post_init__(self) -> None:
        threading.Thread(target=self._run, name="demaq-tasks-job", daemon=True).start()

    def _run(self) -> None:
        try:
            context = self.session.sparkContext
            context.setJobGroup(self.group, "Demaq: evaluators", interruptOnCancel=True)
            context.parallelize(range(self.tasks), self.tasks).mapPartitions(self.task).collect()
        except Exception as error:  # whatever it is, the job has ended
            self.failure = self.cancelled or summary_of(error)
        finally:
            self.is_over.set()

    def end(self) -> None:
        """Wait for tasks that are ending, and cancel what is left."""
        if not self.is_over.wait(END_SECONDS_MAX):
            self.cancel("the node has ended")

    def cancel(self, reason: str) -> None:
        self.cancelled = reason
        with suppress(Exception):  # Spark has ended
            self.session.sparkContext.cancelJobGroup(self.group)


@contextmanager
def evaluator_on(
    session: SparkSession, start: Start, rule_memory_bytes: int | None = RULE_MEMORY_BYTES
) -> Iterator[ProcessEvaluator]:
    """Yield an evaluator whose worker is a task in a session, or a process of this machine if the task is lost."""
    rounds = WaitingWorkers()
    with tempfile.TemporaryDirectory(prefix="demaq-tasks-") as folder:
        tasks = EvaluatorTasks(session, start, rounds, WaitingWorkers(), Path(folder), tasks=1)
        with closing(tasks):
            tasks.wait_for_one(IDLE_SECONDS_MAX)
            limits = start.orphan_seconds, rule_memory_bytes
            given = start.files, start.store, *limits
            evaluator = ProcessEvaluator(*given, native=start.native, elsewhere=rounds)
            try:
                yield evaluator
            finally:
                tasks.close()  # before the evaluator, so that the task ends by itself
                evaluator.close()
