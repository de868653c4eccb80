"""What the benchmarks compare does the same work: its answers are those that the drawn values ask for."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

import pytest
from demaq_bench import drawn_requests
from demaq_bench.baseline import StoringProgram
from demaq_bench.contestant import find_problem, take_turn
from demaq_bench.fused_baseline import FusingProgram
from demaq_bench.workloads import (
    APPLICATIONS,
    CONFLICTS,
    W1,
    W1N,
    W2,
    W2N,
    Workload,
    find_workload,
    w3_among,
    with_size,
)
from lxml import etree

from demaq.evaluation.saxon.compiled import static_check
from demaq.language.loader import check_application
from demaq.testing import Lab
from tests.support.drawing import run_seed

ARRIVALS = 60
W3 = w3_among(120)
WORKLOADS = (W1, W2, W3, W1N, W2N)
every_workload = pytest.mark.parametrize("workload", WORKLOADS, ids=[workload.name for workload in WORKLOADS])


@pytest.fixture
def numbers() -> range:
    """Messages that differ in every run, among them each case."""
    first = Random(run_seed()).randrange(1_000_000)
    return range(first, first + ARRIVALS)


@every_workload
def test_the_engine_gives_the_right_answers(workload: Workload, numbers: range) -> None:
    with Lab(workload.application) as lab:
        for _, body in workload.stock():
            lab.enqueue("invoices", body)
        for number in numbers:
            lab.enqueue(workload.queue, workload.message(number))
        steps = lab.run_until_idle()
        answers = [message.body for message in lab.read_queue(workload.answers)]

        assert find_problem(workload, numbers, answers) is None
        assert steps == ARRIVALS * workload.steps
        left = {name for name in lab.program.queues if name not in (workload.answers, "invoices", "later")}
        assert [message for name in left for message in lab.read_queue(name)] == []


@every_workload
@pytest.mark.parametrize("program", [StoringProgram, FusingProgram])
@pytest.mark.parametrize("per_commit", [1, 30])
def test_hand_written_code_gives_the_right_answers(
    workload: Workload,
    program: type[StoringProgram] | type[FusingProgram],
    per_commit: int,
    numbers: range,
    tmp_path: Path,
) -> None:
    system = program(workload, tmp_path)
    try:
        for part in (numbers[:20], numbers[20:]):
            assert not isinstance(take_turn(system, workload, part, per_commit), str)
    finally:
        system.close()


def test_conflicting_messages_are_answered_in_their_order() -> None:
    with Lab(CONFLICTS.application) as lab:
        for number in range(ARRIVALS):
            lab.enqueue("in", CONFLICTS.message(number))
        lab.run_until_idle()
        answers = [message.body for message in lab.read_queue("out")]

    assert find_problem(CONFLICTS, range(ARRIVALS), answers) is None


@pytest.mark.parametrize(("plain", "named"), [(W1, W1N), (W2, W2N)])
def test_all_cases_occur_in_any_hundred_messages(plain: Workload, named: Workload) -> None:
    first = Random(run_seed()).randrange(1_000_000)
    hundred = range(first, first + 100)
    requests = [drawn_requests.draw_request(number) for number in hundred]

    assert {len(request.items) for request in requests} == set(range(1, 7))
    assert 0 < sum([request.is_refused for request in requests]) < 50
    for workload in (plain, named):
        kinds = Counter([etree.fromstring(workload.message(number)).tag for number in hundred])
        assert len(kinds) == (2 if workload.steps == 1 else 1)
        assert any([workload.answer(number) != workload.answer(hundred[0]) for number in hundred])


def test_half_of_the_questions_are_about_customers_without_invoices() -> None:
    answers = [W3.answer(number) or "" for number in range(1000)]

    assert 400 < sum(["<accept/>" in answer for answer in answers]) < 600
    assert len({answer for answer in answers if "<refuse" in answer}) > 10


@pytest.mark.parametrize("workload", [W1, W2, W1N, W2N], ids=lambda workload: workload.name)
def test_messages_that_arrive_have_about_a_kilobyte(workload: Workload) -> None:
    assert all([1000 <= len(workload.message(number)) <= 1030 for number in range(50)])


@pytest.mark.parametrize("size", [500, 4_000, 256_000])
def test_messages_of_w1_can_be_made_smaller_and_larger(size: int) -> None:
    workload = with_size(size)

    assert 0.9 * size <= len(workload.message(1)) <= 1.1 * size
    assert f"<itemCount>{len(etree.fromstring(workload.message(1)).findall('items/item'))}<" in (
        workload.answer(1) or ""
    )


def test_w1_makes_messages_of_about_300_bytes() -> None:
    assert all([250 <= len(W1.answer(number) or "") <= 350 for number in range(1, 10)])


def test_a_workload_is_found_by_its_name() -> None:
    assert [find_workload(workload.name, 120) for workload in (W1, W2, W1N, W2N)] == [W1, W2, W1N, W2N]
    assert find_workload("W3", 120).message(7) == W3.message(7)


@pytest.mark.parametrize(
    "name", ["w1", "w2", "w3", "w1n", "w2n", "conflicts", "chain", "retained", "crash", "gateways", "soap"]
)
def test_the_applications_have_no_problems(name: str) -> None:
    file = APPLICATIONS / f"{name}.dmq"

    assert [item.render() for item in check_application(file, static_check).diagnostics] == []
