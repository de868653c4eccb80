"""What a node says is asked in the background, and rates are of what it said."""

from __future__ import annotations

from typing import Any

from demaq.console.node_monitor import NodeMonitor, NodeState, parse_metrics
from demaq.errors import StoreError
from demaq.store.location import place_of

TEXT = """# HELP demaq_rounds Rounds.
# TYPE demaq_rounds counter
demaq_rounds_total{where="inline"} 7.0
demaq_rounds_total{where="spark"} 3.0
# HELP demaq_fault Fault.
# TYPE demaq_fault gauge
demaq_fault 0.0
"""


class StandIn:
    """A node that answers, or does not."""

    def __init__(self, failure: Exception | None = None) -> None:
        self._failure = failure

    def status(self) -> dict[str, Any]:
        if self._failure is not None:
            raise self._failure
        return {"pid": 1}

    def metrics(self) -> str:
        return TEXT


def read(find: Any) -> NodeState:
    monitor = NodeMonitor(place_of("nowhere"), find=find)
    try:
        return monitor.read()
    finally:
        monitor.close()


def test_a_node_is_asked_for_its_status_and_metrics():
    state = read(lambda place: StandIn())
    assert state.status == {"pid": 1}
    assert state.value("demaq_rounds", where="spark") == 3
    assert state.by_label("demaq_rounds", "where") == {"inline": 7, "spark": 3}
    assert state.by_label("demaq_rounds", "") == {"": 10}


def test_without_a_node_or_an_answer_it_is_said_why():
    assert read(lambda place: None).problem == "no node runs on this store"
    assert read(lambda place: StandIn(StoreError("it is stopped"))).problem == "it is stopped"


def test_rates_need_two_answers():
    now = [100.0]
    monitor = NodeMonitor(place_of("nowhere"), find=lambda place: None, clock=lambda: now[0])
    try:
        assert monitor.rates("demaq_rounds", "where") == {}
        samples = parse_metrics(TEXT)
        monitor._states.append(NodeState(at=90.0, status={}, samples=dict.fromkeys(samples, 0.0)))
        monitor._states.append(NodeState(at=100.0, status={}, samples=samples))
        assert monitor.rates("demaq_rounds", "where") == {"inline": 0.7, "spark": 0.3}
        now[0] = 200.0
        assert monitor.rates("demaq_rounds", "where") == {}
    finally:
        monitor.close()
