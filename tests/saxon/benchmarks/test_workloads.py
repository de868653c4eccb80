"""What the benchmarks compare does the same work."""

from __future__ import annotations

from pathlib import Path

import pytest
from demaq_bench.baseline import BASELINES
from demaq_bench.comparison import canonical
from demaq_bench.message_sizes import make_workload
from demaq_bench.workloads import (
    APPLICATIONS,
    RESTRICTIONS,
    W1,
    W2,
    Workload,
    invoice,
    invoices,
    questions_among,
    refused_requests,
)
from lxml import etree

from demaq.evaluation.saxon.compiled import static_check
from demaq.language.loader import check_application
from demaq.testing import Lab

ARRIVALS = 80
INVOICES = 120
W3 = questions_among(INVOICES)
WORKLOADS = (W1, W2, W3)
every_workload = pytest.mark.parametrize("workload", WORKLOADS, ids=[workload.name for workload in WORKLOADS])


def lying_there(workload: Workload) -> list[bytes]:
    return {"W1": [], "W2": invoices(), "W3": [invoice(number) for number in range(INVOICES)]}[workload.name]


def by_engine(workload: Workload) -> tuple[list[str], int]:
    with Lab(workload.application, collections={"legal": [RESTRICTIONS]}) as lab:
        for body in lying_there(workload):
            lab.enqueue("invoices", body)
        for number in range(ARRIVALS):
            lab.enqueue(workload.queue, workload.message(number))
        steps = lab.run_until_idle()
        queues = lab.program.queues
        return [message.body for queue in queues for message in lab.read_created(queue)], steps


def run_baseline(workload: Workload, folder: Path, per_commit: int, monkeypatch) -> tuple[list[str], int]:
    made: list[str] = []
    with BASELINES[workload.name](folder) as system:
        make = system.make

        def recorded(queue: str, message: etree._Element) -> None:
            made.append(etree.tostring(message, encoding="unicode"))
            make(queue, message)

        monkeypatch.setattr(system, "make", recorded)
        system.receive("invoices", lying_there(workload), 1000)
        bodies = [workload.message(number) for number in range(ARRIVALS)]
        return made, system.process_all(workload.queue, bodies, per_commit)


@every_workload
@pytest.mark.parametrize("per_commit", [1, 30])
def test_the_engine_and_the_hand_written_code_make_the_same_messages(workload, per_commit, tmp_path, monkeypatch):
    engine, engine_steps = by_engine(workload)
    hand, hand_steps = run_baseline(workload, tmp_path, per_commit, monkeypatch)

    assert canonical(engine) == canonical(hand)
    assert engine_steps == hand_steps == ARRIVALS * workload.steps


def test_every_seventh_customer_and_every_eleventh_request_is_refused():
    made, _ = by_engine(W2)

    assert sum([body.startswith("<refusal") for body in made]) == refused_requests(ARRIVALS)
    assert sum([body.startswith("<offer>") for body in made]) == ARRIVALS - refused_requests(ARRIVALS)


def test_every_look_up_finds_the_four_invoices_of_its_customer():
    made, _ = by_engine(W3)

    assert len(made) == ARRIVALS
    assert all(["<count>4</count>" in body for body in made])
    assert len(set(made)) == INVOICES // 4


@pytest.mark.parametrize("workload", [W1, W2], ids=["W1", "W2"])
def test_messages_that_arrive_have_about_a_kilobyte(workload):
    assert 900 <= len(workload.message(1)) <= 1100


@pytest.mark.parametrize("size", [500, 4_000, 256_000])
def test_messages_of_w1_can_be_made_smaller_and_larger(size):
    body = make_workload(size).message(1)

    assert 0.9 * size <= len(body) <= 1.1 * size
    assert etree.fromstring(body).find("offerRequest/items/item") is not None


def test_w1_makes_messages_of_about_300_bytes():
    made, _ = by_engine(W1)

    assert len(made) == ARRIVALS - ARRIVALS // 10
    assert 250 <= sum([len(body) for body in made]) / len(made) <= 350


@pytest.mark.parametrize("name", ["w1", "w2", "w3", "chain", "retained", "crash", "gateways", "soap"])
def test_the_applications_have_no_problems(name):
    file = APPLICATIONS / f"{name}.dmq"

    assert [item.render() for item in check_application(file, static_check).diagnostics] == []
