"""An outage is one line in the log when it begins and one when it is over, whoever meets it, and however often."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from demaq.backoff import Backoff
from demaq.errors import StoreError
from demaq.outage_log import OVER_AFTER_SECONDS, OutageLog
from demaq.server.node import Node
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
        log.note_success()  # somebody else, who had more luck
    assert caplog.messages == ["the store is away; trying again until it works"]
    clock.seconds += OVER_AFTER_SECONDS
    log.note_success()
    log.note_success()
    assert caplog.messages[1:] == ["it works again, after 10 s and 1000 failures"]
    log.note_failure(AWAY)
    assert len(caplog.messages) == 3


def test_a_node_whose_store_fails_again_and_again_says_so_once_and_goes_on_soon_after(
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
        monkeypatch.setattr("demaq.server.node.BACKOFF", Backoff(0.05, 0.05))
        node.start()
        node.enqueue("a", "<m/>")
        wait_until(lambda: node.outage is not None)
        wait_until(lambda: node.store.counts().get("b") == (1, 1))
        assert len(tried) > 5
        assert (node.outage, node.fault) == (None, None)
        assert [text for text in caplog.messages if "away" in text] == [f"{AWAY}; trying again until it works"]
    finally:
        node.stop()
