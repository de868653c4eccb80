"""The wall clock may jump while a node sleeps: timers are compared with it, and are hardly late."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from demaq.server.node import Node
from tests.support.programs import program

PROGRAM = """
create queue in create queue out create queue later kind echo
create rule wait for in
  if (/m) then do enqueue . into later with timeout value xs:dayTimeDuration("PT1H") with target value "out"
"""
LATE_SECONDS_MAX = 30.0
"""On a machine that is busy with much else; without a look at the clock it would be a minute."""


def test_a_timer_fires_soon_after_the_clock_has_jumped(tmp_path: Path) -> None:
    ahead = timedelta(0)
    node = Node(program(tmp_path, PROGRAM), tmp_path / "store", clock=lambda: datetime.now(UTC) + ahead)
    node.start()
    try:
        node.enqueue("in", "<m/>")
        end = time.monotonic() + LATE_SECONDS_MAX
        while node.store.next_due() is None and time.monotonic() < end:
            time.sleep(0.02)
        time.sleep(1.0)  # the node sleeps now
        ahead = timedelta(hours=2)
        end = time.monotonic() + LATE_SECONDS_MAX
        while not node.store.stored("out", 0, 1) and time.monotonic() < end:
            time.sleep(0.02)
        assert [message.body for message in node.store.stored("out", 0, 2)] == ["<m/>"]
    finally:
        node.stop()
