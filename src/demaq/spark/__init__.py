"""Spark: a session on any master, and work spread over its executors. Imported only by who needs it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register"]

_PUSH_DOWN = "spark.sql.python.filterPushdown.enabled"


def register(session: SparkSession, *, push_down: bool = False) -> None:
    """Make the queues of stores known to a session, as the format `demaq`.

    With `push_down`, conditions of a query narrow what is read. Spark 4.3 then takes the last condition for all uses of
    a data frame, so each must be used once; see docs/reference/data-source.md.
    """
    from demaq.spark.datasource.source import DemaqSource, NarrowingSource

    if push_down:
        session.conf.set(_PUSH_DOWN, "true")  # without it Spark refuses a source that can narrow its reads
    session.dataSource.register(NarrowingSource if push_down else DemaqSource)
