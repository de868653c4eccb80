"""Timers that could not fire in time: each fires once, in due order, when the engine is there again."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path

import pytest

from demaq.errors import StoreError
from demaq.store import SqliteStore
from demaq.testing import Lab
from tests.support.store.faults import no_write_succeeds

PROGRAM = """
create queue in
create queue later kind echo
create queue out
create rule wait for in if (/wait) then
  do enqueue . into later with timeout value xs:dayTimeDuration(/wait) with target value "out"
"""
LENGTHS = ("PT30S", "PT10S", "P1D", "PT20S", "PT10S", "PT0S", "-PT5S", "P365D")
PAST, OVERDUE_AFTER_A_MINUTE = ["-PT5S", "PT0S"], ["PT10S", "PT10S", "PT20S", "PT30S"]


def started(folder: Path) -> Lab:
    lab = Lab(PROGRAM, store=folder)
    for length in LENGTHS:
        lab.enqueue("in", f"<wait>{length}</wait>")
    lab.run_until_idle()
    return lab


def came_back(lab: Lab) -> list[str]:
    return [length for message in lab.read_created("out") for length in re.findall("<wait>(.*)</wait>", message.body)]


def test_timers_that_became_due_while_nothing_ran_fire_once_in_due_order(tmp_path: Path):
    with started(tmp_path) as lab:
        assert came_back(lab) == PAST
        lab.crash()
        lab.now += timedelta(minutes=1)
        lab.run_until_idle()
        assert came_back(lab) == PAST + OVERDUE_AFTER_A_MINUTE
        first, second = [message.trigger for message in lab.read_created("out") if "PT10S" in message.body]
        assert int(first or 0) < int(second or 0)  # of those due at once, the older one first
        lab.crash()
        lab.advance(24 * 60 * 60)
        assert came_back(lab) == [*PAST, *OVERDUE_AFTER_A_MINUTE, "P1D"]


def test_a_timer_whose_firing_could_not_be_stored_fires_when_it_can(tmp_path: Path):
    with started(tmp_path) as lab:
        assert isinstance(lab.store, SqliteStore)
        with no_write_succeeds(lab.store), pytest.raises(StoreError):
            lab.advance(60)
        assert came_back(lab) == PAST
        lab.now += timedelta(minutes=2)
        lab.run_until_idle()
        assert came_back(lab) == PAST + OVERDUE_AFTER_A_MINUTE


def test_a_clock_made_of_timers_does_not_come_to_the_limit_of_hops(tmp_path: Path):
    program = """
    create queue ticks create queue later kind echo
    create rule tick for ticks if (/tick) then
      do enqueue . into later with timeout value number(/tick) with target value "ticks"
    """
    with Lab(program, store=tmp_path, hops_max=5) as lab:
        lab.enqueue("ticks", "<tick>1</tick>")
        lab.advance(20)
        assert len(lab.read_created("ticks")) == 20
        assert lab.read_created("demaq:errors") == []
        lab.enqueue("ticks", "<tick>0</tick>")
        lab.advance(0)
        assert len(lab.read_created("demaq:errors")) == 1
