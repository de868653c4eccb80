"""Where rounds go, and that it makes no difference."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from demaq.backoff import Backoff
from demaq.cli.main import demaq as command
from demaq.cli.main import run
from demaq.errors import OperatorError
from demaq.evaluation.round_request import RoundRequest, RoundResult
from demaq.spark import pipeline as pipelines
from demaq.spark.jobs import JobFailed
from demaq.spark.pipeline import ROUNDS_BEFORE_ANOTHER_TRY, START_MESSAGES, Pipeline, PipelineName

NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Somewhere:
    """An evaluator that only counts. As Spark's it has two tasks, and an empty job takes a tenth of a second."""

    messages_max = 500
    tasks = 2
    rounds_max = 1

    def __init__(self) -> None:
        self.rounds: list[int] = []

    def run(self, request: RoundRequest) -> RoundResult:
        self.rounds.append(len(request.batch))
        return RoundResult([None] * len(request.batch))

    def probe(self) -> float:
        return 0.1

    def warm_up(self) -> None:
        pass


def pipeline_of(name: PipelineName, start: Callable[[], Any] | None = None) -> tuple[Pipeline, Somewhere, Somewhere]:
    inline, spark = Somewhere(), Somewhere()
    evaluator: Any = inline
    starting: Callable[[], Any] = start or (lambda: (spark, lambda: None))
    return Pipeline(name, evaluator, starting), inline, spark


def rounds_of(pipeline: Pipeline, *sizes: int) -> None:
    for size in sizes:
        batch: Any = [None] * size
        pipeline.run(RoundRequest(batch=batch, snapshot=0, now=NOW))


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
    pipeline.spark_message_seconds = 0.0005
    rounds_of(pipeline, 199)
    assert inline.rounds[-1] == 199
    pipeline.close()


def test_auto_learns_that_spark_is_slower_and_tries_again_later() -> None:
    pipeline, inline, spark = pipeline_of("auto")
    pipeline.start()
    pipeline.message_seconds, pipeline.spark_message_seconds = 0.001, 0.002
    assert pipeline.threshold is None
    rounds_of(pipeline, START_MESSAGES)
    assert inline.rounds == [START_MESSAGES]
    assert pipeline.why == "Spark was slower than the process here"
    pipeline.spark_message_seconds = 10.0
    rounds_of(pipeline, *[START_MESSAGES] * ROUNDS_BEFORE_ANOTHER_TRY)
    assert spark.rounds == [START_MESSAGES]
    assert pipeline.spark_message_seconds < 10.0  # it took no time at all
    pipeline.close()


def test_spark_must_be_faster_than_all_worker_processes() -> None:
    pipeline, inline, spark = pipeline_of("auto")
    inline.rounds_max = 2
    pipeline.start()
    rounds_of(pipeline, START_MESSAGES)
    assert spark.rounds == [START_MESSAGES]
    assert pipeline.rounds_max == 1
    pipeline.message_seconds, pipeline.spark_message_seconds = 0.001, 0.0006
    assert pipeline.threshold is None
    rounds_of(pipeline, START_MESSAGES)
    assert inline.rounds == [START_MESSAGES]
    assert pipeline.why == "Spark was slower than 2 processes here"
    assert pipeline.rounds_max == 2
    pipeline.message_seconds, pipeline.spark_message_seconds = 0.001, 0.0001
    assert pipeline.threshold == 333  # 0.5 ms here, of which a fifth does not count, 0.1 ms there
    pipeline.close()


def test_it_tells_what_goes_to_spark() -> None:
    lines: list[str] = []
    spark: Any = Somewhere()
    for name in ("spark", "auto"):
        pipeline = Pipeline(name, spark, lambda: (spark, lambda: None), lines.append)
        pipeline.start()
        pipeline.close()
    assert lines == [
        "Spark runs with 2 tasks, and a job costs 100 ms: every round goes there",
        "Spark runs with 2 tasks, and a job costs 100 ms: rounds of 400 messages and more go there",
    ]


def test_auto_continues_without_a_spark_that_cannot_be_started() -> None:
    def start() -> Any:
        raise OperatorError("there is no Java")

    pipeline, inline, _ = pipeline_of("auto", start)
    rounds_of(pipeline, START_MESSAGES)
    pipeline.close()
    rounds_of(pipeline, START_MESSAGES)
    assert len(inline.rounds) == 2
    with pytest.raises(OperatorError, match="no Java"):
        pipeline_of("spark", start)


class Unreliable(Somewhere):
    """A Spark that does no job while it is away, and does not come back by itself once it has ended."""

    def __init__(self) -> None:
        super().__init__()
        self.away = self.ended = False

    def run(self, request: RoundRequest) -> RoundResult:
        self.probe()
        return super().run(request)

    def probe(self) -> float:
        if self.away:
            raise JobFailed("no executor")
        return 0.1

    def has_ended(self) -> bool:
        return self.ended


@pytest.mark.parametrize("ended", [False, True])
def test_rounds_are_evaluated_in_worker_processes_until_spark_works_again(
    monkeypatch: pytest.MonkeyPatch, ended: bool
) -> None:
    monkeypatch.setattr(pipelines, "RECOVERY_BACKOFF", Backoff(0.01, 10.0))
    started: list[Unreliable] = []

    def start() -> Any:
        started.append(Unreliable())
        return started[-1], lambda: None

    pipeline, inline, _ = pipeline_of("spark", start)
    rounds_of(pipeline, 1)
    started[0].away, started[0].ended = True, ended
    rounds_of(pipeline, 2)
    assert inline.rounds == [2]
    if not ended:
        rounds_of(pipeline, 3)
        assert inline.rounds == [2, 3]
        assert pipeline.why == "Spark is out of reach: no executor"
        assert (pipeline.counts.inline_rounds, pipeline.counts.spark_rounds) == (2, 1)
        started[0].away = False
    while pipeline.fault is not None:
        time.sleep(0.01)
    rounds_of(pipeline, 4)
    assert started[-1].rounds[-1] == 4
    assert len(started) == (2 if ended else 1)
    pipeline.close()


def test_a_node_starts_on_a_cluster_that_has_no_executors_yet() -> None:
    spark = Unreliable()
    spark.away = True
    pipeline, inline, _ = pipeline_of("spark", lambda: (spark, lambda: None))
    rounds_of(pipeline, 1)
    assert (inline.rounds, spark.rounds) == ([1], [])
    pipeline.close()


def test_the_demonstration_checks_its_answers(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(command, ["demo", "--requests", "100", "--pipeline", "inline"]) == 0
    printed = capsys.readouterr().out
    assert "offer      77\n" in printed
    assert "refusal    23\n" in printed
    assert "Every request got exactly one answer, and the right one." in printed


def test_a_master_elsewhere_needs_another_store(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(command, ["demo", "--requests", "1", "--master", "spark://127.0.0.1:1"]) == 1
    assert "cannot read" in capsys.readouterr().err
