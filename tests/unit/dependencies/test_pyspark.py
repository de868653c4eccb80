"""What demaq.spark.session uses of pyspark beyond its documentation, as far as it needs no Java.

The rest is in tests/spark/test_pyspark_internals.py.
"""

from __future__ import annotations

import inspect

import pyspark.core.context
from py4j import java_gateway
from pyspark import SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession


def test_a_gateway_is_launched_with_settings_and_arguments_for_its_process():
    assert list(inspect.signature(launch_gateway).parameters) == ["conf", "popen_kwargs"]


def test_a_context_takes_settings_and_a_gateway():
    assert {"conf", "gateway"} < set(inspect.signature(SparkContext).parameters)


def test_contexts_and_sessions_keep_what_is_in_use_in_class_attributes():
    for name in ("_active_spark_context", "_gateway", "_jvm"):
        assert hasattr(SparkContext, name), name
    assert hasattr(SparkSession, "_instantiatedSession")


def test_a_context_begins_to_use_the_gateway_that_it_is_given():
    source = inspect.getsource(SparkContext._ensure_initialized)
    assert "SparkContext._gateway = gateway or launch_gateway(conf)" in source
    assert "SparkContext._jvm = SparkContext._gateway.jvm" in source


def test_a_context_in_the_main_thread_replaces_the_handler_of_sigint():
    """Ours restores it: see `_keep_interrupt_handler`."""
    assert "signal.signal(signal.SIGINT" in inspect.getsource(pyspark.core.context)


def test_py4j_logs_through_the_name_logging_of_its_module():
    """Ours replaces it, so that a Java that has ended leaves no traceback: see `_silence`."""
    source = inspect.getsource(java_gateway)
    assert "import logging\n" in source
    assert "logging.exception(" in source
