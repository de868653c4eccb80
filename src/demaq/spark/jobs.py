"""Run tasks on Spark's executors: bytes go out, bytes come back, and lost workers cost their own task alone.

One job of an RDD with one partition for each assignment (docs/decisions/0010). An exception in a task comes back as an
answer. When a task takes its worker with it, Spark starts it a second time; then it does nothing but say so, and the
job as a whole succeeds. So the answers of all others are there, and what to try again is the caller's to decide.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Work = Callable[[bytes], bytes]
"""A function that can be imported where the executors are, or one that carries all it needs."""

_ANSWERED = "answered"
_FAILED = "failed"
_LOST = "lost"
LOST_REASON = "its worker came to its end"


class TasksFailed(Exception):
    """Some tasks have no answer; those of the others are kept here."""

    def __init__(self, answers: dict[int, bytes], failures: dict[int, str], lost: frozenset[int]) -> None:
        self.answers = answers
        """By the position of the assignment."""
        self.failures = failures
        """Why there is none, by position."""
        self.lost = lost
        """Those of the failures whose worker or executor ended, which need not be the assignment's fault."""
        first = min(failures)
        positions = ", ".join([str(position) for position in sorted(failures)])
        total = len(answers) + len(failures)
        reason = failures[first].strip().split("\n")[-1]
        super().__init__(f"of {total} tasks, {len(failures)} failed ({positions}); task {first}: {reason}")


class JobFailed(Exception):
    """Spark could not run the job at all, so no task has an answer."""


def run_tasks(session: SparkSession, assignments: Sequence[bytes], work: Work) -> list[bytes]:
    """The answers of `work` to the assignments, in their order. Raises TasksFailed where some have none."""
    if not assignments:
        return []
    replies = _collect(session, assignments, work)
    answers = {n: answer for n, kind, answer in replies if kind == _ANSWERED}
    failures = {n: reason.decode() for n, kind, reason in replies if kind != _ANSWERED}
    if failures:
        raise TasksFailed(answers, failures, frozenset([n for n, kind, _ in replies if kind == _LOST]))
    return [answers[n] for n in range(len(assignments))]


def _collect(session: SparkSession, assignments: Sequence[bytes], work: Work) -> list[tuple[int, str, bytes]]:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    numbered = list(enumerate(assignments))
    try:
        found: list[Any] = (
            session.sparkContext.parallelize(numbered, len(numbered)).mapPartitions(_Task(work)).collect()
        )
    except (Py4JError, PySparkException, OSError, EOFError) as error:
        raise JobFailed(f"Spark could not run a job of {len(numbered)} tasks: {_summary(error)}") from error
    return found


class _Task:
    """What runs on an executor."""

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


def _summary(error: BaseException) -> str:
    java = getattr(error, "java_exception", None)
    text = str(java.getMessage()) if java is not None else str(error)
    return text.strip().split("\n")[0]
