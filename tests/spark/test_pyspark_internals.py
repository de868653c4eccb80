"""What demaq.spark and demaq.bulk use of pyspark beyond its documentation, on a Spark that runs.

What needs no Java is in tests/unit/dependencies/test_pyspark.py.
"""

from __future__ import annotations

import os
import pickle
import signal
import socketserver
import threading
from typing import Any

import pytest
from py4j.java_gateway import JavaGateway
from pyspark import SparkContext

from demaq.spark.jobs import LOST_REASON, TasksFailed, run_tasks
from demaq.spark.session import RunningSpark

pytestmark = pytest.mark.slow


@pytest.fixture
def context(spark: RunningSpark) -> Any:
    return spark.session.sparkContext


def test_a_context_has_the_attributes_that_ours_reads_and_sets(context: Any):
    active: Any = SparkContext._active_spark_context
    assert active is context
    assert isinstance(context._accumulatorServer, socketserver.BaseServer), "it has `handle_error`"
    assert context._jsc.sc().isStopped() is False
    assert isinstance(context.pythonExec, str)
    assert isinstance(context.defaultParallelism, int)


def test_a_gateway_knows_its_process_and_ends_with_its_standard_input(spark: RunningSpark):
    gateway: Any = SparkContext._gateway
    assert isinstance(gateway, JavaGateway)
    assert gateway.proc.pid == spark.java_pid
    assert gateway.proc.stdin is not None
    assert gateway.proc.poll() is None


def test_java_has_the_classes_that_ours_calls(context: Any):
    jvm: Any = SparkContext._jvm
    assert jvm.SparkConf().contains("spark.none") is False
    assert callable(jvm.org.apache.spark.util.ShutdownHookManager.registerShutdownDeleteDir)


def describe_process(assignment: bytes) -> bytes:
    is_main = threading.current_thread() is threading.main_thread()
    return pickle.dumps((os.getpid(), is_main, signal.getsignal(signal.SIGALRM) is not None))


def test_a_task_runs_in_the_main_thread_of_a_worker_that_is_used_again(spark: RunningSpark):
    """The limits of time need the main thread, and compiled programs stay in the worker."""
    first = pickle.loads(run_tasks(spark.session, [b""], describe_process)[0])
    pids = {pickle.loads(run_tasks(spark.session, [b""], describe_process)[0])[0] for _ in range(6)}
    assert first[1:] == (True, True)
    assert first[0] != os.getpid()
    assert len(pids) <= 2, "Spark has two cores here"


def end_process(assignment: bytes) -> bytes:
    if assignment == b"end":
        os._exit(1)
    return assignment


def test_a_task_that_ends_its_worker_is_started_again_with_another_attempt_number(spark: RunningSpark):
    with pytest.raises(TasksFailed) as failed:
        run_tasks(spark.session, [b"end", b"stay"], end_process)
    assert failed.value.answers == {1: b"stay"}
    assert failed.value.failures == {0: LOST_REASON}
