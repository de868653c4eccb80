"""Run tasks on Spark's executors. A lost worker costs only its own task.

One job of an RDD with one partition for each assignment (docs/decisions/0010). Assignments and results are bytes. An
exception in a task is returned as a result. If a task ends its worker, Spark starts it again; a repeated attempt only
reports that, so that the job succeeds. So the results of all other tasks are there, and the caller decides what to
retry.

On a cluster without executors Spark itself would wait for ever. A job that no executor works on is cancelled after a
timeout.
"""

from __future__ import annotations

import subprocess
import threading
import time
import traceback
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from demaq.errors import OperatorError
from demaq.spark.master import is_local

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

IDLE_SECONDS_MAX = 30.0
"""How long a job may wait without any executor working on it. A new executor may take a while to start."""
LOOK_SECONDS = 2.0
ENDING_SECONDS_MAX = 1.0
"""How long a killed process may take to end after its connection was closed."""

Work = Callable[[bytes], bytes]
"""A function that the executors can import, or that can be pickled."""

_ANSWERED = "answered"
_FAILED = "failed"
_LOST = "lost"
LOST_REASON = "its worker came to its end"


class TasksFailed(Exception):
    """Some tasks have failed; the results of the others are kept here."""

    def __init__(self, answers: dict[int, bytes], failures: dict[int, str], lost: frozenset[int]) -> None:
        self.answers = answers
        """Results by the position of the assignment."""
        self.failures = failures
        """Why there is no result, by position."""
        self.lost = lost
        """Positions whose worker or executor ended, which need not be caused by the assignment."""
        first = min(failures)
        positions = ", ".join([str(position) for position in sorted(failures)])
        total = len(answers) + len(failures)
        reason = failures[first].strip().split("\n")[-1]
        super().__init__(f"of {total} tasks, {len(failures)} failed ({positions}); task {first}: {reason}")


class JobFailed(OperatorError):
    """Spark could not run the job, so no task has a result."""

    code = "DQ9308"


def run_tasks(session: SparkSession, assignments: Sequence[bytes], work: Work) -> list[bytes]:
    """Return the results of `work` for the assignments, in order.

    Raises TasksFailed if tasks fail, JobFailed if all do.
    """
    if not assignments:
        return []
    replies = _collect(session, assignments, work)
    answers = {n: answer for n, kind, answer in replies if kind == _ANSWERED}
    failures = {n: reason.decode() for n, kind, reason in replies if kind != _ANSWERED}
    if failures:
        raise TasksFailed(answers, failures, frozenset([n for n, kind, _ in replies if kind == _LOST]))
    return [answers[n] for n in range(len(assignments))]


def cores(session: SparkSession) -> int:
    """Return how many tasks can run at the same time at present. Raises JobFailed if Spark has ended."""
    from py4j.protocol import Py4JError

    try:
        return int(session.sparkContext.defaultParallelism)
    except (Py4JError, OSError, AttributeError) as error:
        raise JobFailed("Spark has ended by itself") from error


def has_ended(session: SparkSession) -> bool:
    """Return whether the cluster has stopped Spark, or its Java has ended: then it must be started again."""
    try:
        return bool(session.sparkContext._jsc.sc().isStopped())
    except Exception:  # a stopped context may raise anything
        return True


def _collect(session: SparkSession, assignments: Sequence[bytes], work: Work) -> list[tuple[int, str, bytes]]:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    numbered = list(enumerate(assignments))
    given_up = threading.Event()
    try:
        context = session.sparkContext
        with _cancel_when_idle(context, given_up):
            found: list[Any] = context.parallelize(numbered, len(numbered)).mapPartitions(_Task(work)).collect()
    except (Py4JError, PySparkException, OSError, EOFError, AttributeError) as error:
        # AttributeError: the context was stopped.
        reason = f"no executor has worked on it for {IDLE_SECONDS_MAX:g} s" if given_up.is_set() else summary_of(error)
        raise JobFailed(f"Spark could not run a job of {len(numbered)} tasks: {reason}") from error
    return found


@contextmanager
def _cancel_when_idle(context: SparkContext, given_up: threading.Event) -> Iterator[None]:
    """Cancel the job of this block if no executor works on it for too long. A local master always does."""
    if is_local(str(context.master)):
        yield
        return
    group = uuid.uuid4().hex
    done = threading.Event()
    context.setJobGroup(group, "Demaq", interruptOnCancel=True)
    threading.Thread(target=_watch, args=(context, group, done, given_up), daemon=True).start()
    try:
        yield
    finally:
        done.set()


def _watch(context: SparkContext, group: str, done: threading.Event, given_up: threading.Event) -> None:
    last = time.monotonic()
    with suppress(Exception):  # Spark has ended: the thread that runs the job gets the error
        while not done.wait(LOOK_SECONDS):
            if _is_worked_on(context, group):
                last = time.monotonic()
            elif time.monotonic() - last > IDLE_SECONDS_MAX:
                given_up.set()
                context.cancelJobGroup(group)
                return


def _is_worked_on(context: SparkContext, group: str) -> bool:
    tracker = context.statusTracker()
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
    stages = [tracker.getStageInfo(stage) for job in jobs if job is not None for stage in job.stageIds]
    return any([stage is not None and stage.numActiveTasks > 0 for stage in stages])


class _Task:
    """The function that runs on an executor."""

    def __init__(self, work: Work) -> None:
        self._work = work

    def __call__(self, part: Iterable[tuple[int, bytes]]) -> list[tuple[int, str, bytes]]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None, "tasks run on executors"
        if context.attemptNumber() > 0:
            return [(number, _LOST, LOST_REASON.encode()) for number, _ in part]
        return [self._reply(number, assignment) for number, assignment in part]

    def _reply(self, number: int, assignment: bytes) -> tuple[int, str, bytes]:
        try:
            return number, _ANSWERED, self._work(assignment)
        except Exception:
            return number, _FAILED, traceback.format_exc().encode("utf-8", "replace")


def summary_of(error: BaseException) -> str:
    """Return in one line why Spark has failed."""
    from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError

    is_cut_off = isinstance(error, ConnectionError | EOFError | Py4JNetworkError)
    if is_cut_off or (isinstance(error, Py4JError) and not isinstance(error, Py4JJavaError) and _java_has_ended()):
        return "its Java has ended"
    java = getattr(error, "java_exception", None)
    text = str(java.getMessage()) if java is not None else str(error)
    return text.strip().split("\n")[0] or type(error).__name__


def _java_has_ended() -> bool:
    """Return whether Java has ended. The error of py4j does not tell."""
    from pyspark import SparkContext

    process = getattr(SparkContext._gateway, "proc", None)
    try:
        return process is not None and process.wait(ENDING_SECONDS_MAX) is not None
    except subprocess.TimeoutExpired:
        return False
