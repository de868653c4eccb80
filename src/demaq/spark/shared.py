"""One Spark for a whole process, started when it is first asked for: for tests, where many applications come and go."""

from __future__ import annotations

import atexit
import threading
from typing import TYPE_CHECKING

from demaq.spark.master import MASTER_DEFAULT
from demaq.spark.session import RunningSpark, start_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_lock = threading.Lock()
_running: RunningSpark | None = None


def shared_session(master: str = MASTER_DEFAULT) -> SparkSession:
    """The session of this process: the one that runs already, whoever started it, or a new one."""
    global _running
    from pyspark.sql import SparkSession

    with _lock:
        active = SparkSession.getActiveSession() or SparkSession._instantiatedSession
        if active is not None:
            return active
        _running = start_spark(master)
        atexit.register(_running.close)
        return _running.session
