"""Tasks that evaluate as long as their node lives: Spark starts them, and starts them again."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from demaq.evaluation.round_request import RoundRequest
from demaq.evaluation.workers.child import Start
from demaq.evaluation.workers.process import ProcessEvaluator
from demaq.evaluation.workers.worker_connection import WaitingWorkers
from demaq.spark import evaluator_tasks
from demaq.spark.evaluator_tasks import EvaluatorTasks, local_tasks
from demaq.spark.jobs import JobFailed, run_tasks
from demaq.spark.session import ATTEMPTS, RunningSpark
from demaq.store.protocol import NewMessage
from demaq.store.sqlite import SqliteStore
from demaq.testing.lab import load_text

NOW = datetime(2026, 3, 1, tzinfo=UTC)
PROGRAM = """
create queue in create queue out
create rule answer for in if (/m) then do enqueue <n>{sum(1 to xs:integer(/m))}</n> into out
"""
SECONDS_MAX = 120.0


class OnSpark:
    """An evaluator of a store with one task."""

    def __init__(self, spark: RunningSpark, folder: Path) -> None:
        self.store = SqliteStore(folder / "store")
        files = load_text(PROGRAM).files()
        start = Start(files=files, store=folder / "store", orphan_seconds=30.0)
        rounds = WaitingWorkers()
        self.tasks = EvaluatorTasks(spark.session, start, rounds, WaitingWorkers(), spark.private_folder, tasks=1)
        self.evaluator = ProcessEvaluator(files, folder / "store", is_patient=False, elsewhere=rounds)

    def wait_for_task(self) -> None:
        wait_until(lambda: self.tasks.look()[0] == 1)

    def ask(self, number: int) -> str:
        """Return the answer to a message."""
        new = NewMessage(queue="in", body=f"<m>{number}</m>", properties={}, created=NOW, priority=0)
        found = self.store.message(self.store.append([new])[0])
        assert found is not None
        [outcome] = self.evaluator.run(RoundRequest(batch=[found], snapshot=self.store.snapshot(), now=NOW)).outcomes
        assert outcome is not None
        [action] = outcome.actions
        return str(action.document.text)  # type: ignore[union-attr]

    def kill_task(self) -> int:
        assert self.evaluator.is_on_spark
        assert self.evaluator.pid is not None
        os.kill(self.evaluator.pid, signal.SIGKILL)
        return self.evaluator.pid

    def close(self) -> None:
        self.tasks.close()
        self.evaluator.close()
        self.store.close()


@pytest.fixture
def on_spark(spark: RunningSpark, tmp_path: Path) -> Iterator[OnSpark]:
    with closing(OnSpark(spark, tmp_path)) as found:
        found.wait_for_task()
        yield found


def wait_until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + SECONDS_MAX
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def active_jobs(spark: RunningSpark) -> int:
    return len(spark.session.sparkContext.statusTracker().getActiveJobsIds())


def test_spark_starts_a_killed_task_again_and_nothing_is_lost_meanwhile(on_spark: OnSpark) -> None:
    assert on_spark.ask(3) == "<n>6</n>"
    killed = on_spark.kill_task()
    assert on_spark.ask(4) == "<n>10</n>"
    assert not on_spark.evaluator.is_on_spark
    on_spark.wait_for_task()
    assert on_spark.ask(5) == "<n>15</n>"
    assert on_spark.evaluator.is_on_spark
    assert on_spark.evaluator.pid != killed


def test_other_jobs_run_while_tasks_evaluate(spark: RunningSpark, on_spark: OnSpark) -> None:
    assert on_spark.ask(3) == "<n>6</n>"
    assert run_tasks(spark.session, [b"1", b"2"], bytes.upper) == [b"1", b"2"]
    assert on_spark.ask(4) == "<n>10</n>"
    assert on_spark.evaluator.is_on_spark


def test_the_job_ends_with_its_node_and_leaves_the_python_worker_to_others(
    spark: RunningSpark, on_spark: OnSpark
) -> None:
    on_spark.ask(3)
    pid = on_spark.evaluator.pid
    assert active_jobs(spark) == 1
    on_spark.tasks.close()
    on_spark.evaluator.close()
    wait_until(lambda: active_jobs(spark) == 0)
    assert Path(f"/proc/{pid}").exists()


@pytest.mark.slow
def test_a_job_that_has_failed_is_started_again(spark: RunningSpark, on_spark: OnSpark) -> None:
    first = on_spark.tasks._jobs[0]
    killed = 0
    while not first.is_over.is_set():
        on_spark.ask(3)
        if on_spark.evaluator.is_on_spark:
            on_spark.kill_task()
            killed += 1
        time.sleep(0.1)
    assert 1 < killed <= ATTEMPTS, "as often as this session starts a task"
    assert first.failure is not None
    wait_until(lambda: _is_ready(on_spark.tasks))
    assert on_spark.ask(4) == "<n>10</n>"
    assert on_spark.evaluator.is_on_spark
    assert on_spark.tasks._jobs[0] is not first


def test_a_job_whose_tasks_never_connect_is_cancelled_and_started_again(
    spark: RunningSpark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluator_tasks, "IDLE_SECONDS_MAX", 1.0)
    SqliteStore(tmp_path / "store").close()
    start = Start(files=load_text(PROGRAM).files(), store=tmp_path / "store", orphan_seconds=30.0)
    tasks = EvaluatorTasks(spark.session, start, WaitingWorkers(), WaitingWorkers(), spark.private_folder, tasks=1)
    with closing(tasks):
        with monkeypatch.context() as stuck:
            stuck.setattr(evaluator_tasks, "EvaluatorTask", lambda address: lambda part: time.sleep(600.0))
            tasks.look()
        first = tasks._jobs[0]
        time.sleep(1.1)
        with pytest.raises(JobFailed, match="no executor has worked on it"):
            tasks.look()
        wait_until(first.is_over.is_set)
        assert first.failure == "no executor has worked on it for 1 s"
        monkeypatch.setattr(evaluator_tasks, "IDLE_SECONDS_MAX", 30.0)
        wait_until(lambda: _is_ready(tasks))
        assert tasks._jobs[0] is not first


def _is_ready(tasks: EvaluatorTasks) -> bool:
    try:
        return tasks.look()[0] == 1
    except JobFailed:
        return False


def test_without_any_task_spark_is_out_of_reach(
    spark: RunningSpark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluator_tasks, "IDLE_SECONDS_MAX", 0.0)
    start = Start(files=load_text(PROGRAM).files(), store=tmp_path / "none", orphan_seconds=30.0)
    rounds = WaitingWorkers()
    tasks = EvaluatorTasks(spark.session, start, rounds, WaitingWorkers(), spark.private_folder, tasks=1)
    with closing(tasks), pytest.raises(JobFailed, match="Spark could not run a job of 1 tasks: no executor"):
        tasks.look()


def test_a_local_master_has_a_task_for_each_core_and_one_for_arrivals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluator_tasks, "evaluators_here", lambda: 3)
    masters = ("local", "local[2]", "local[1000]", "local[*]", "local[5, 7]", "spark://a:1")
    assert [local_tasks(master) for master in masters] == [2, 3, 65, 4, 6, None]
