"""Tasks on a real Spark with two workers, some of which do not survive."""

from __future__ import annotations

import os
import signal
import time

import pytest

from demaq.spark.jobs import LOST_REASON, TasksFailed, run_tasks


def upper(data: bytes) -> bytes:
    return data.upper()


def pid(_: bytes) -> bytes:
    time.sleep(0.2)  # so that no worker takes two
    return str(os.getpid()).encode()


def moody(data: bytes) -> bytes:
    if data == b"raise":
        raise ValueError("this one is\nnot right")
    if data == b"exit":
        os._exit(3)
    if data == b"alarm":
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        while True:
            pass
    if data == b"kill":
        os.kill(os.getpid(), signal.SIGKILL)
    return data.upper()


def test_answers_come_in_the_order_of_assignments(spark):
    assignments = [f"a{n}".encode() for n in range(7)]

    assert run_tasks(spark.session, assignments, upper) == [f"A{n}".encode() for n in range(7)]


def test_no_assignments_are_no_job(spark):
    assert run_tasks(spark.session, [], upper) == []


def test_large_assignments_and_answers_arrive_whole(spark):
    assignments = [os.urandom(3_000_000), b"", b"\x00\xff"]

    assert run_tasks(spark.session, assignments, bytes) == assignments


def test_workers_are_other_processes_and_stay_for_the_next_job(spark):
    first = set(run_tasks(spark.session, [b"", b""], pid))
    second = set(run_tasks(spark.session, [b"", b""], pid))

    assert first == second
    assert str(os.getpid()).encode() not in first


def test_a_function_without_a_module_travels_with_what_it_uses(spark):
    suffix = b"!"

    assert run_tasks(spark.session, [b"a", b"b"], lambda data: data + suffix) == [b"a!", b"b!"]


def test_workers_import_this_package(spark):
    def where(_: bytes) -> bytes:
        import demaq

        return demaq.__file__.encode()

    import demaq

    assert run_tasks(spark.session, [b""], where) == [demaq.__file__.encode()]


def test_an_exception_names_its_task_and_keeps_the_answers_of_others(spark):
    with pytest.raises(TasksFailed) as failed:
        run_tasks(spark.session, [b"a", b"raise", b"c"], moody)

    assert failed.value.answers == {0: b"A", 2: b"C"}
    assert list(failed.value.failures) == [1]
    assert "ValueError: this one is" in failed.value.failures[1]
    assert failed.value.lost == frozenset()
    assert str(failed.value).startswith("of 3 tasks, 1 failed (1); task 1: ")


@pytest.mark.parametrize("end", [b"exit", b"alarm", b"kill"])
def test_a_lost_worker_costs_its_own_task_alone(spark, end):
    with pytest.raises(TasksFailed) as failed:
        run_tasks(spark.session, [b"a", end, b"c", b"d"], moody)

    assert failed.value.answers == {0: b"A", 2: b"C", 3: b"D"}
    assert failed.value.failures == {1: LOST_REASON}
    assert failed.value.lost == {1}
    assert run_tasks(spark.session, [b"e", b"f"], moody) == [b"E", b"F"], "and Spark is of use as before"


def test_all_workers_may_be_lost_at_once(spark):
    with pytest.raises(TasksFailed) as failed:
        run_tasks(spark.session, [b"exit", b"kill", b"alarm"], moody)

    assert failed.value.answers == {}
    assert failed.value.lost == {0, 1, 2}
    assert run_tasks(spark.session, [b"e"], moody) == [b"E"]
