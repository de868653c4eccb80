"""Where rounds go, and that it makes no difference."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from demaq.cli.main import demaq as command
from demaq.cli.main import run
from demaq.errors import OperatorError
from demaq.messages import Message
from demaq.rounds.outcomes import Outcome, StateReader
from demaq.spark.pipeline import START_MESSAGES, Pipeline, PipelineName

NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Somewhere:
    """An evaluator that only counts. As Spark's it has two tasks, and an empty job takes a tenth of a second."""

    messages_max = 500
    tasks = 2

    def __init__(self) -> None:
        self.rounds: list[int] = []

    def cascade(
        self, messages: Sequence[Message], reader: StateReader, now: datetime, deep: bool, fold: bool = False
    ) -> Sequence[Outcome | None]:
        self.rounds.append(len(messages))
        return [None] * len(messages)

    def probe(self) -> float:
        return 0.1


def pipeline_of(name: PipelineName, start: Callable[[], Any] | None = None) -> tuple[Pipeline, Somewhere, Somewhere]:
    inline, spark = Somewhere(), Somewhere()
    evaluator: Any = inline
    starting: Callable[[], Any] = start or (lambda: (spark, lambda: None))
    return Pipeline(name, evaluator, starting), inline, spark


def rounds_of(pipeline: Pipeline, *sizes: int) -> None:
    reader: Any = None
    for size in sizes:
        messages: Any = [None] * size
        pipeline.cascade(messages, reader, NOW, True)


def test_inline_never_starts_spark() -> None:
    pipeline, inline, spark = pipeline_of("inline")
    rounds_of(pipeline, 1, 100_000)
    assert inline.rounds == [1, 100_000]
    assert spark.rounds == []
    assert pipeline.threshold is None


def test_spark_takes_every_round() -> None:
    pipeline, inline, spark = pipeline_of("spark")
    rounds_of(pipeline, 1, 2)
    assert (inline.rounds, spark.rounds) == ([], [1, 2])
    assert (pipeline.counts.spark_rounds, pipeline.counts.spark_messages) == (2, 3)


def test_auto_starts_spark_for_a_large_round_and_then_chooses_by_what_things_cost() -> None:
    pipeline, inline, spark = pipeline_of("auto")
    rounds_of(pipeline, 1, START_MESSAGES - 1)
    assert pipeline.job_seconds is None
    rounds_of(pipeline, START_MESSAGES)
    while pipeline.threshold is None:
        time.sleep(0.01)
    assert inline.rounds == [1, START_MESSAGES - 1, START_MESSAGES]
    pipeline.message_seconds = 0.001
    assert pipeline.threshold == 200  # each message saves half a millisecond
    rounds_of(pipeline, 200)
    assert spark.rounds == [200]
    assert pipeline.why == "200 messages, at least 200"
    rounds_of(pipeline, 199)
    assert inline.rounds[-1] == 199
    pipeline.close()


def test_auto_goes_on_without_a_spark_that_cannot_be_started() -> None:
    def start() -> Any:
        raise OperatorError("there is no Java")

    pipeline, inline, _ = pipeline_of("auto", start)
    rounds_of(pipeline, START_MESSAGES)
    pipeline.close()
    rounds_of(pipeline, START_MESSAGES)
    assert len(inline.rounds) == 2
    with pytest.raises(OperatorError, match="no Java"):
        pipeline_of("spark", start)


def test_the_demonstration_checks_its_answers(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(command, ["demo", "--requests", "100", "--pipeline", "inline"]) == 0
    printed = capsys.readouterr().out
    assert "offer      77\n" in printed
    assert "refusal    23\n" in printed
    assert "Every request got exactly one answer, and the right one." in printed


def test_a_master_elsewhere_needs_another_store(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(command, ["demo", "--requests", "1", "--master", "spark://127.0.0.1:1"]) == 1
    assert "cannot read" in capsys.readouterr().err
