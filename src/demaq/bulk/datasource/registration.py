"""Register the data source with a session of Spark."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

_PUSH_DOWN = "spark.sql.python.filterPushdown.enabled"
_PYTHON = "spark.pyspark.python"
_PYTHON_DEFAULT = "python3"
"""The command by which PySpark starts workers unless another one is configured; found on the PATH."""


def register(session: SparkSession, *, push_down: bool = False) -> None:
    """Register the queues of stores with a session, as the format `demaq`.

    With `push_down`, filters of a query narrow what is read. Spark 4.3 then applies the last filter to all uses of a
    data frame, so each must be used once; see docs/reference/data-source.md.

    Unless a Python was chosen for the workers of the session (PYSPARK_PYTHON, spark.pyspark.python), it is this one.
    """
    from pyspark.sql.utils import is_remote

    from demaq.bulk.datasource.data_source import DemaqSource, NarrowingSource  # imports pyspark

    if push_down:
        session.conf.set(_PUSH_DOWN, "true")  # else Spark refuses a source that implements pushFilters
    if not is_remote():
        _choose_worker_python(session.sparkContext)
    session.dataSource.register(NarrowingSource if push_down else DemaqSource)


def _choose_worker_python(context: SparkContext) -> None:
    """Let workers run this Python, which has this package: another one on the PATH may not.

    If the environment is activated, the name is left as it is: on other machines it may be in another folder.
    """
    is_chosen = "PYSPARK_PYTHON" in os.environ or context.getConf().contains(_PYTHON)
    if is_chosen or context.pythonExec != _PYTHON_DEFAULT:
        return
    found = shutil.which(_PYTHON_DEFAULT)
    if found is None or Path(found).parent != Path(sys.executable).parent:
        context.pythonExec = sys.executable
