"""Which executors a running Spark has: where they are, with how many cores, and how many tasks they work on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from demaq.spark.jobs import JobFailed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXECUTORS_MAX = 200
"""So many are listed."""


@dataclass(frozen=True, slots=True)
class Executor:
    id: str
    """As Spark names it: a number, or `driver` on a local master."""
    host: str
    cores: int
    tasks: int
    """How many it works on at present."""


class ExecutorSummary(Protocol):
    """What Spark says about one, as its own pages do."""

    def id(self) -> str: ...

    def hostPort(self) -> str: ...  # noqa: N802  # the name is Spark's

    def totalCores(self) -> int: ...  # noqa: N802  # as above

    def activeTasks(self) -> int: ...  # noqa: N802  # as above


def list_executors(session: SparkSession) -> list[Executor]:
    """Return the executors that can run tasks at present. Raises JobFailed if Spark has ended."""
    from py4j.protocol import Py4JError

    try:
        # The public status tracker tells neither their names nor their cores.
        found: Any = session.sparkContext._jsc.sc().statusStore().executorList(True)
        return describe_executors([found.apply(place) for place in range(min(found.size(), EXECUTORS_MAX))])
    except (Py4JError, OSError, AttributeError) as error:
        raise JobFailed("Spark has ended by itself") from error


def describe_executors(summaries: Iterable[ExecutorSummary]) -> list[Executor]:
    """Return executors in the order of their names. The driver of a cluster is none: it has no cores for tasks."""
    found = [
        Executor(
            id=str(each.id()),
            host=str(each.hostPort()).rpartition(":")[0],
            cores=int(each.totalCores()),
            tasks=int(each.activeTasks()),
        )
        for each in summaries
    ]
    return sorted([each for each in found if each.cores], key=lambda each: (len(each.id), each.id))
