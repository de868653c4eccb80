"""Make queues known to a session of Spark."""

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
"""What PySpark starts workers with, found on the PATH, unless somebody has chosen another one."""


def register(session: SparkSession, *, push_down: bool = False) -> None:
    """Make the queues of stores known to a session, as the format `demaq`.

    With `push_down`, conditions of a query narrow what is read. Spark 4.3 then takes the last condition for all uses of
    a data frame, so each must be used once; see docs/reference/data-source.md.

    Unless a Python was chosen for the workers of the session (PYSPARK_PYTHON, spark.pyspark.python), it is this one.
    """
    from pyspark.sql.utils import is_remote

    from demaq.bulk.datasource.data_source import DemaqSource, NarrowingSource  # brings pyspark along

    if push_down:
        session.conf.set(_PUSH_DOWN, "true")  # without it Spark refuses a source that can narrow its reads
    if not is_remote():
        _choose_worker_python(session.sparkContext)
    session.dataSource.register(NarrowingSource if push_down else DemaqSource)


def _choose_worker_python(context: SparkContext) -> None:
    """Let workers run the Python that runs here, which has this package: another one on the PATH may not.

    Where the environment is activated, the name is left as it is: on other machines it may lie in another folder.
    """
    is_chosen = "PYSPARK_PYTHON" in os.environ or context.getConf().contains(_PYTHON)
    if is_chosen or context.pythonExec != _PYTHON_DEFAULT:
        return
    found = shutil.which(_PYTHON_DEFAULT)
    if found is None or Path(found).parent != Path(sys.executable).parent:
        context.pythonExec = sys.executable
