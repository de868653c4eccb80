"""An outage is one line in the log when it begins and one when it is over, whichever thread meets it, and however often."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from demaq.backoff import Backoff
from demaq.engine.slow_messages import SlowMessages
from demaq.errors import StoreError
from demaq.outage_log import OVER_AFTER_SECONDS, OutageLog
from demaq.server.node import Node
from demaq.store.protocol import Committed
from tests.support.gateways.nodes import wait_until

AWAY = StoreError("the store is away")


class Clock:
    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


def test_an_outage_is_one_line_when_it_begins_and_one_when_it_is_over(caplog: pytest.LogCaptureFixture):
    clock = Clock()
    log = OutageLog(logging.getLogger("demaq.test"), clock)
    for _ in range(1000):
        log.note_failure(AWAY)
        clock.seconds += 0.01
        log.note_success()  # of another thread
    assert caplog.messages == ["the store is away; trying again until it works"]
    clock.seconds += OVER_AFTER_SECONDS
    log.note_success()
    log.note_success()
    assert caplog.messages[1:] == ["it works again, after 10 s and 1000 failures"]
    log.note_failure(AWAY)
    assert len(caplog.messages) == 3


def test_a_node_whose_store_fails_again_and_again_says_so_once_and_works_soon_after(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "app.dmq").write_text(
        "create queue a create queue b create rule r for a if (/m) then do enqueue <n/> into b"
    )
    node = Node(tmp_path / "app.dmq", tmp_path / "store")
    try:
        tried: list[int] = []
        run_round = node.engine.run_round

        def fail() -> int:
            tried.append(1)
            if len(tried) <= 5:
                raise AWAY
            return run_round()

        monkeypatch.setattr(node.engine, "run_round", fail)
        monkeypatch.setattr("demaq.server.node_thread.BACKOFF", Backoff(0.05, 0.05))
        node.enqueue("a", "<m/>")
        node.start()
        wait_until(lambda: node.outage is not None)
        wait_until(lambda: node.store.counts().get("b") == (1, 1))
        assert len(tried) > 5
        assert (node.outage, node.fault) == (None, None)
        assert [text for text in caplog.messages if "away" in text] == [f"{AWAY}; trying again until it works"]
    finally:
        node.stop()


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Node]:
    (tmp_path / "app.dmq").write_text(
        "create queue a create queue b create rule r for a if (/m) then do enqueue <n/> into b"
    )
    monkeypatch.setattr("demaq.server.node_thread.BACKOFF", Backoff(0.05, 0.05))
    node = Node(tmp_path / "app.dmq", tmp_path / "store")
    yield node
    node.stop()


def test_a_node_that_cannot_read_its_store_while_it_is_idle_continues(node: Node, monkeypatch: pytest.MonkeyPatch):
    read, tried = node.store.next_due, []

    def fail(*given: Any) -> datetime | None:
        tried.append(1)
        if len(tried) <= 3:
            raise AWAY
        return read(*given)

    monkeypatch.setattr(node.store, "next_due", fail)
    node.start()
    wait_until(lambda: len(tried) > 3)
    node.enqueue("a", "<m/>")
    wait_until(lambda: node.store.counts().get("b") == (1, 1))
    assert node.is_running


def test_a_node_that_drains_and_always_fails_stops_in_the_end(node: Node, monkeypatch: pytest.MonkeyPatch):
    def fail() -> int:
        raise AWAY

    monkeypatch.setattr(node.engine, "run_round", fail)
    monkeypatch.setattr(SlowMessages, "__bool__", lambda slow_messages: True)
    node.start()
    thread = threading.Thread(target=node.stop, args=[True])
    thread.start()
    thread.join(10)
    has_stopped = not thread.is_alive()
    node.hurry()
    thread.join()
    assert has_stopped


def test_gateways_look_for_messages_after_a_fault_because_a_commit_may_have_taken_place(
    node: Node, monkeypatch: pytest.MonkeyPatch
):
    woken: list[str] = []
    node.attach(lambda: woken.append(node.fault or ""), lambda: None)
    commit, faults = node.store.commit, [AWAY]

    def fail_afterwards(*given: Any) -> list[Committed]:
        done = commit(*given)
        if faults:
            raise faults.pop()
        return done

    monkeypatch.setattr(node.store, "commit", fail_afterwards)
    node.enqueue("a", "<m/>")
    node.start()
    wait_until(lambda: node.store.counts().get("b") == (1, 1))
    wait_until(lambda: str(AWAY) in woken)


def test_gateways_look_for_messages_where_a_message_that_arrives_may_have_been_processed(
    node: Node, monkeypatch: pytest.MonkeyPatch
):
    woken: list[int] = []
    node.attach(lambda: woken.append(1), lambda: None)
    node.start()
    process_at_once(node, "a", "<other/>")
    commit, faults = node.store.commit, [AWAY]

    def fail_afterwards(*given: Any) -> list[Committed]:
        done = commit(*given)
        if faults:
            raise faults.pop()
        return done

    monkeypatch.setattr(node.store, "commit", fail_afterwards)
    before = len(woken)
    with pytest.raises(StoreError, match="away"):
        node.enqueue("a", "<m/>")
    assert len(woken) > before
    assert node.store.counts().get("b") == (1, 1)
    node.enqueue("a", "<m/>")
    wait_until(lambda: node.store.counts().get("b") == (2, 2))


def process_at_once(node: Node, queue: str, body: str) -> None:
    """Send messages until one is processed with the commit that stores it: the worker is ready."""
    before = node.engine.arrivals.processed

    def try_it() -> bool:
        node.enqueue(queue, body)
        return node.engine.arrivals.processed > before

    wait_until(try_it)
