"""Where rules are evaluated: when Spark is started, when its tasks are used, and what happens without it."""

from __future__ import annotations

import threading
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
from demaq.spark.executor_list import Executor
from demaq.spark.jobs import JobFailed
from demaq.spark.pipeline import START_MESSAGES, Pipeline, PipelineName

NOW = datetime(2026, 1, 1, tzinfo=UTC)
EXECUTOR = Executor("driver", "localhost", 2, 3)


class CountingPool:
    """A pool that only counts."""

    messages_max = 500

    def __init__(self) -> None:
        self.rounds: list[int] = []
        self.on_spark = 0

    @property
    def rounds_max(self) -> int:
        return self.on_spark or 1

    def run(self, request: RoundRequest) -> RoundResult:
        self.rounds.append(len(request.batch))
        return RoundResult([None] * len(request.batch))

    def run_arrivals(self, divide: object, workers_max: int, meanwhile: object = None) -> None:
        return None

    def use_spark(self, workers: int) -> None:
        self.on_spark = workers


class FakeTasks:
    """Three tasks, two of them for rounds, as long as they are not away."""

    def __init__(self, away: bool = False) -> None:
        self.away = away
        self.ended = self.is_stopped = False

    def look(self) -> tuple[int, int]:
        if self.away:
            raise JobFailed("no executor")
        return 3, 2

    def wait_for_one(self, seconds: float, is_given_up: Callable[[], bool]) -> None:
        self.look()

    def executors(self) -> list[Executor]:
        return [EXECUTOR]

    def has_ended(self) -> bool:
        return self.ended

    def stop(self) -> None:
        self.is_stopped = True


class Starts:
    """Starts Spark, and says how often."""

    def __init__(self, *away: bool) -> None:
        self.started: list[FakeTasks] = []
        self._away = list(away)
        self.error: OperatorError | None = None

    def __call__(self) -> tuple[FakeTasks, Callable[[], None]]:
        if self.error is not None:
            raise self.error
        self.started.append(FakeTasks(self._away.pop(0) if self._away else False))
        return self.started[-1], self.started[-1].stop


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipelines, "RECOVERY_BACKOFF", Backoff(0.01, 10.0))
    monkeypatch.setattr(pipelines, "LOOK_SECONDS", 0.01)


def pipeline_of(
    name: PipelineName, start: Starts, tell: Callable[[str], None] = lambda line: None, is_elsewhere: bool = False
) -> tuple[Pipeline, CountingPool]:
    pool = CountingPool()
    return Pipeline(name, pool, start, tell, is_elsewhere), pool


def ask(pipeline: Pipeline, *sizes: int) -> None:
    for size in sizes:
        batch: Any = [None] * size
        pipeline.run(RoundRequest(batch=batch, snapshot=0, now=NOW))
        pipeline.note_round(size, is_on_spark=False)


def wait_until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


def test_executors_are_listed_as_long_as_spark_runs() -> None:
    start = Starts()
    pipeline, _ = pipeline_of("spark", start)
    assert pipeline.executors == [EXECUTOR]
    start.started[0].away = True
    wait_until(lambda: pipeline.executors == [])
    start.started[0].away = False
    wait_until(lambda: pipeline.executors == [EXECUTOR])
    pipeline.close()


def test_inline_never_starts_spark() -> None:
    start = Starts()
    pipeline, pool = pipeline_of("inline", start, is_elsewhere=True)
    ask(pipeline, 1, 100_000)
    pipeline.start()
    assert (pool.rounds, start.started, pipeline.tasks) == ([1, 100_000], [], 0)
    assert pipeline.why == "rules are evaluated in local processes"
    pipeline.close()


def test_spark_is_started_at_once_and_its_tasks_are_used() -> None:
    lines: list[str] = []
    start = Starts()
    pipeline, pool = pipeline_of("spark", start, lines.append)
    assert (pipeline.tasks, pool.on_spark, pipeline.rounds_max) == (3, 2, 2)
    assert pipeline.why == "3 tasks on Spark evaluate rules"
    assert lines == ["Spark runs: 3 of its tasks evaluate rules"]
    pipeline.close()
    assert start.started[0].is_stopped


def test_rounds_are_counted_by_where_they_were_evaluated() -> None:
    pipeline, _ = pipeline_of("inline", Starts())
    pipeline.note_round(5, True)
    pipeline.note_round(7, False)
    pipeline.note_round(1, False)
    counts = pipeline.counts
    assert (counts.spark_rounds, counts.spark_messages) == (1, 5)
    assert (counts.inline_rounds, counts.inline_messages) == (2, 8)


def test_auto_starts_spark_when_many_messages_come_in_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    start = Starts()
    pipeline, pool = pipeline_of("auto", start)
    monkeypatch.setattr(pipelines, "START_PAUSE_SECONDS", -1.0)  # each round comes after a pause
    ask(pipeline, *[START_MESSAGES - 1] * 5)
    assert pipeline.why == "Spark is started when 1,000 messages come in a row"
    assert not start.started
    monkeypatch.setattr(pipelines, "START_PAUSE_SECONDS", 60.0)
    ask(pipeline, 1)
    wait_until(lambda: pool.on_spark == 2)
    assert len(start.started) == 1
    pipeline.close()


def test_auto_starts_a_spark_elsewhere_at_once() -> None:
    start = Starts()
    pipeline, pool = pipeline_of("auto", start, is_elsewhere=True)
    wait_until(lambda: pool.on_spark == 2)
    pipeline.close()
    assert start.started[0].is_stopped


def test_auto_continues_without_a_spark_that_cannot_be_started() -> None:
    start = Starts()
    start.error = OperatorError("there is no Java")
    pipeline, pool = pipeline_of("auto", start, is_elsewhere=True)
    wait_until(lambda: pipeline.fault is not None)
    ask(pipeline, 1)
    assert pipeline.why == "Spark is out of reach: there is no Java"
    start.error = None
    wait_until(lambda: pool.on_spark == 2)
    pipeline.close()
    start.error = OperatorError("there is no Java")
    with pytest.raises(OperatorError, match="no Java"):
        pipeline_of("spark", start)


@pytest.mark.parametrize("ended", [False, True])
def test_rounds_are_evaluated_in_processes_until_spark_works_again(
    ended: bool, caplog: pytest.LogCaptureFixture
) -> None:
    start = Starts()
    pipeline, pool = pipeline_of("spark", start)
    start.started[0].away = True
    wait_until(lambda: pool.on_spark == 0)
    assert pipeline.why == "Spark is out of reach: no executor"
    ask(pipeline, 2)
    assert pool.rounds == [2]
    if ended:
        start.started[0].ended = True
    else:
        start.started[0].away = False
    wait_until(lambda: pool.on_spark == 2 and pipeline.fault is None)
    assert len(start.started) == (2 if ended else 1)
    assert start.started[0].is_stopped == ended
    pipeline.close()
    said = [record.getMessage() for record in caplog.records]
    assert said == ["no executor; evaluating locally until Spark works again", "Spark works again, with 3 tasks"]


def test_a_node_starts_on_a_cluster_that_has_no_executors_yet() -> None:
    start = Starts(True)
    pipeline, pool = pipeline_of("spark", start)
    ask(pipeline, 1)
    assert (pool.rounds, pipeline.tasks) == ([1], 0)
    start.started[0].away = False
    wait_until(lambda: pool.on_spark == 2)
    pipeline.close()


def test_it_stops_while_spark_is_starting() -> None:
    is_asked, may_go_on = threading.Event(), threading.Event()
    tasks = FakeTasks()

    def start() -> Any:
        is_asked.set()
        may_go_on.wait(30)
        return tasks, tasks.stop

    pipeline = Pipeline("auto", CountingPool(), start, is_elsewhere=True)
    is_asked.wait(30)
    threading.Timer(0.1, may_go_on.set).start()
    pipeline.close()
    assert tasks.is_stopped


def test_the_demonstration_checks_its_answers(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(command, ["demo", "--requests", "100", "--pipeline", "inline"]) == 0
    printed = capsys.readouterr().out
    assert "offer      77\n" in printed
    assert "refusal    23\n" in printed
    assert "Every request got exactly one answer, and the right one." in printed


def test_a_master_elsewhere_needs_another_store(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(command, ["demo", "--requests", "1", "--master", "spark://127.0.0.1:1"]) == 1
    assert "cannot read" in capsys.readouterr().err
