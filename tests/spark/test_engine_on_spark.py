"""The programs that hold the engine to the interpreter, with every round on Spark."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from demaq.spark.session import RunningSpark
from demaq.testing import Lab
from tests.saxon.properties.test_engine_and_interpreter import compare
from tests.support.programs import FEW_SLICES
from tests.support.properties.applications import applications, histories

EXAMPLES = max(5, settings().max_examples // 15)
"""Each program is compiled in every worker."""


@settings(max_examples=EXAMPLES, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.data())
def test_an_engine_on_spark_ends_like_the_interpreter(spark: RunningSpark, data: Any) -> None:
    application = data.draw(applications())
    compare(application, data.draw(histories(application, crashes=True)), on_disk=True, pipeline="spark")


def end(pipeline: str) -> dict[str, list[str]]:
    with Lab(FEW_SLICES, pipeline=pipeline) as lab:  # type: ignore[arg-type]
        for n in range(150):
            lab.enqueue("in", f"<m><k>{n % 5}</k><v>{n}</v></m>")
        lab.run_until_idle()
        return {queue: [m.body for m in lab.read_queue(queue)] for queue in ("in", "totals", "log", "demaq:errors")}


def test_many_messages_of_few_slices_end_as_if_one_came_after_the_other(spark: RunningSpark) -> None:
    assert end("spark") == end("inline")
