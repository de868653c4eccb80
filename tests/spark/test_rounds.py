"""Rounds on Spark end like rounds in worker processes."""

from __future__ import annotations

import time
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from demaq.compiler.planner import make_plan
from demaq.engine.engine import Engine
from demaq.evaluation.workers.child import Start
from demaq.language.loader import load_program
from demaq.spark.evaluator_tasks import evaluator_on
from demaq.spark.partition import partition
from demaq.spark.session import RunningSpark
from demaq.store.sqlite import SqliteStore
from demaq.testing import Lab


def test_messages_that_share_a_slice_are_in_one_share() -> None:
    a, b, c = ("s", "a"), ("s", "b"), ("t", "c")
    shares = partition([[a], [b], [], [a, c], [c], [], [b]], 2)
    assert sorted([position for share in shares for position in share]) == list(range(7))
    share_of = {position: number for number, share in enumerate(shares) for position in share}
    assert share_of[0] == share_of[3] == share_of[4]
    assert share_of[1] == share_of[6]
    assert abs(len(shares[0]) - len(shares[1])) <= 1
    assert partition([], 2) == []
    assert partition([[a], [a]], 4) == [[0, 1]]


CONVERSATION = """
create queue requests create queue checks create queue results create queue answers
create property id as xs:string queue requests, checks, results value //id
create slicing request on id
create rule split for requests if (/request) then
  for $n in 1 to 3 return do enqueue <check n="{$n}">{//id}</check> into checks
create rule check for checks if (/check) then
  if (//id = "13" and /check/@n = 2) then error() else do enqueue <result>{/check/@n}{//id}</result> into results
create rule join for request if (count(qs:slice()/result) = 3) then
  (do enqueue <answer n="{count(qs:queue("answers"))}">{//id}</answer> into answers, do reset)
"""


def run(pipeline: str) -> tuple[list[str], list[str], list[str]]:
    with Lab(CONVERSATION, pipeline=pipeline) as lab:  # type: ignore[arg-type]
        for n in range(60):
            lab.enqueue("requests", f"<request><id>{n % 50}</id></request>")
        lab.run_until_idle()
        answers = [message.body for message in lab.read_queue("answers")]
        errors = [message.body for message in lab.read_queue("demaq:errors")]
        return answers, errors, [message.body for message in lab.read_slice("request", "13")]


def test_a_lab_on_spark_ends_like_one_without(spark: RunningSpark) -> None:
    assert run("spark") == run("inline")


def test_on_spark_rules_see_after_a_crash_what_was_enqueued_after_it(
    spark: RunningSpark, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    program = """
    create queue in create queue out
    create rule count for in if (/m) then do enqueue <n>{count(qs:queue("in"))}</n> into out
    """
    with Lab(program, tmp_path, pipeline="spark") as lab:
        lab.enqueue("in", "<m/>")
        lab.enqueue("in", "<m/>")
        lab.run_until_idle()
        lab.enqueue("in", "<m/>")
        lab.crash()
        lab.enqueue("in", "<m/>")  # in a file that the workers of Spark have not opened yet
        lab.enqueue("in", "<m/>")
        caplog.clear()
        lab.run_until_idle()
        assert [message.body for message in lab.read_created("out")] == [f"<n>{count}</n>" for count in (2, 1, 3, 2, 1)]
        assert not caplog.records, "no task had to be evaluated again"


COSTLY = """
declare function local:forever($n) { if ($n < 0) then $n else local:forever($n + 1) };
declare function local:much($n) { count(fold-left(1 to $n, (), function($all, $n) { $all, <a>{$n}</a> })) };
create queue a create queue b create queue e
create rule endless for a errorqueue e if (//endless) then do enqueue <x>{local:forever(1)}</x> into b
create rule large for a errorqueue e if (//large) then do enqueue <x>{local:much(200000000)}</x> into b
create rule copy for a if (true()) then do enqueue <copy>{//n}</copy> into b
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("culprit", "limits", "reason"),
    [
        ("endless", (2.0, None), "it did not end within 2 s"),
        ("large", (300.0, 60_000_000), "it took more than 60 MB of memory, which --rule-memory allows"),
    ],
)
def test_a_rule_that_takes_too_much_on_spark_costs_only_itself(
    culprit: str, limits: tuple[float, int | None], reason: str, tmp_path: Path, spark: RunningSpark
) -> None:
    application = tmp_path / "costly.dmq"
    application.write_text(COSTLY)
    program = load_program(application)
    files = {str(application): COSTLY}
    store = SqliteStore(tmp_path / "store")
    start = Start(files=files, store=tmp_path / "store", orphan_seconds=limits[0])
    with closing(store), evaluator_on(spark.session, start, limits[1]) as on_spark:
        on_spark.start()
        assert on_spark.is_on_spark
        engine = Engine(make_plan(program), on_spark, store, lambda: datetime.now(UTC), receiver=on_spark)
        for n in range(20):
            engine.enqueue("a", f"<m><n>{n}</n>{f'<{culprit}/>' if n == 7 else ''}</m>")
        began = time.monotonic()
        while engine.run_round():
            pass
        assert time.monotonic() - began < 240.0, "nobody has waited for the limit of time"
        copies = [message.body for message in store.queue("b", store.snapshot())]
        assert copies == [f"<copy><n>{n}</n></copy>" for n in range(20)]
        (error,) = [message.body for message in store.queue("e", store.snapshot())]
        assert error.startswith(f"<error><systemError/><rule>{culprit}</rule>")
        assert reason in error
        assert on_spark.replaced >= 1
