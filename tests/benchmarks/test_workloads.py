"""What the benchmarks compare does the same work."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from lxml import etree

from demaq.benchmarks.by_hand import BY_HAND
from demaq.benchmarks.workloads import RESTRICTIONS, W2, WORKLOADS, Workload, invoices, refused_requests
from demaq.language.load import check_application
from demaq.rounds.compiled import static_check
from demaq.testing import Lab

ARRIVALS = 80
every_workload = pytest.mark.parametrize("workload", WORKLOADS, ids=[workload.name for workload in WORKLOADS])


def by_engine(workload: Workload) -> tuple[list[str], int]:
    with Lab(workload.application, collections={"legal": [RESTRICTIONS]}) as lab:
        if workload is W2:
            for body in invoices():
                lab.enqueue("invoices", body)
        for number in range(ARRIVALS):
            lab.enqueue(workload.queue, workload.message(number))
        steps = lab.run_until_idle()
        queues = lab.program.queues
        return [message.body for queue in queues for message in lab.made(queue)], steps


def by_hand(workload: Workload, folder: Path, grouped: bool, monkeypatch) -> tuple[list[str], int]:
    made: list[str] = []
    with BY_HAND[workload.name](folder) as system:
        make = system.make

        def recorded(queue: str, message: etree._Element) -> None:
            made.append(etree.tostring(message, encoding="unicode"))
            make(queue, message)

        monkeypatch.setattr(system, "make", recorded)
        if workload is W2:
            system.receive("invoices", invoices(), grouped=True)
        system.receive(workload.queue, [workload.message(number) for number in range(ARRIVALS)], grouped)
        return made, system.work(grouped)


def canonical(bodies: list[str]) -> Counter[str]:
    return Counter([etree.canonicalize(body) for body in bodies])


@every_workload
@pytest.mark.parametrize("grouped", [False, True])
def test_the_engine_and_the_code_by_hand_make_the_same_messages(workload, grouped, tmp_path, monkeypatch):
    engine, engine_steps = by_engine(workload)
    hand, hand_steps = by_hand(workload, tmp_path, grouped, monkeypatch)

    assert canonical(engine) == canonical(hand)
    assert engine_steps == hand_steps == ARRIVALS * workload.steps


def test_every_seventh_customer_and_every_eleventh_request_is_refused():
    made, _ = by_engine(W2)

    assert sum([body.startswith("<refusal") for body in made]) == refused_requests(ARRIVALS)
    assert sum([body.startswith("<offer>") for body in made]) == ARRIVALS - refused_requests(ARRIVALS)


@every_workload
def test_messages_that_arrive_have_about_a_kilobyte(workload):
    assert 900 <= len(workload.message(1)) <= 1100


def test_w1_makes_messages_of_about_300_bytes():
    made, _ = by_engine(WORKLOADS[0])

    assert len(made) == ARRIVALS - ARRIVALS // 10
    assert 250 <= sum([len(body) for body in made]) / len(made) <= 350


@pytest.mark.parametrize("name", ["w1", "w2", "retained", "crash"])
def test_the_applications_have_no_problems(name):
    file = WORKLOADS[0].application.with_name(f"{name}.dmq")

    assert [item.render() for item in check_application(file, static_check).diagnostics] == []
