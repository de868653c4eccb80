"""An engine whose disk fails now and then, in the middle of a write: nothing is lost, and nothing happens twice."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest

from demaq.errors import StoreError
from demaq.store import SqliteStore
from demaq.testing import Lab, LabMessage
from tests.support.store.consistency import assert_consistent
from tests.support.store.faults import (
    FRAME_SIZE,
    length_of_log,
    no_file_longer_than,
    no_write_succeeds,
    writes_are_lost,
)

SEEDS = 6
ORDERS = 12
BATCH = 3
FRAMES_MAX = 40
"""At most so many frames may still be written before the disk is full."""
FAULTS_IN_A_ROW_MAX = 3
"""Fewer than make an engine give a message up."""
SECONDS = 10
PROGRAM = """
create queue orders create queue checks create queue results create queue done create queue alarms
create queue later kind echo
create property id as xs:string queue results, done value //id
create slicing both on id
create rule split for orders if (/order) then (
  do enqueue <check part="a">{//id}</check> into checks,
  do enqueue <check part="b">{//id}</check> into checks,
  do enqueue <alarm>{//id}</alarm> into later with timeout value 5 with target value "alarms"
)
create rule work for checks if (/check) then do enqueue <result>{/check/@part, //id}</result> into results
create rule join for both if (/result and count(qs:slice()/result) = 2) then
  (do reset, do enqueue <done>{//id}</done> into done)
create rule wrong for alarms if (number(translate(//id, "o", "")) mod 4 = 0) then do enqueue () into done
"""


class Disk:
    """Breaks in one of several ways, at a random place of what is written next."""

    def __init__(self, folder: Path, seed: int) -> None:
        self._folder = folder
        self._chance = random.Random(seed)
        self.faults = 0

    @contextmanager
    def breaking(self, store: SqliteStore) -> Iterator[None]:
        fault = self._chance.choice(["short", "short", "refused", "lost"])
        if fault == "short":
            with no_file_longer_than(length_of_log(self._folder) + self._chance.randint(0, FRAMES_MAX * FRAME_SIZE)):
                yield
        else:
            with (no_write_succeeds if fault == "refused" else writes_are_lost)(store):
                yield


def do(lab: Lab, disk: Disk | None, act: Callable[[], object]) -> None:
    """Repeat, as a client does, what has failed."""
    if disk is not None:
        for _ in range(FAULTS_IN_A_ROW_MAX):
            try:
                with disk.breaking(sqlite(lab)):
                    act()
                return
            except StoreError:
                disk.faults += 1
    act()


def pass_time(lab: Lab, disk: Disk | None) -> None:
    end = lab.now + timedelta(seconds=SECONDS)
    do(lab, disk, lambda: lab.advance((end - lab.now).total_seconds()))


def sqlite(lab: Lab) -> SqliteStore:
    assert isinstance(lab.store, SqliteStore)
    return lab.store


def run(folder: Path, disk: Disk | None, restarts: bool) -> dict[str, list[tuple[str, str | None]]]:
    with Lab(PROGRAM, store=folder) as lab:
        for number in range(ORDERS):
            do(lab, disk, partial(lab.enqueue, "orders", f"<order><id>o{number}</id></order>"))
            if number % BATCH == BATCH - 1:
                pass_time(lab, disk)
                if restarts:
                    lab.crash()
                assert_consistent(sqlite(lab))
        pass_time(lab, disk)
        assert_consistent(sqlite(lab))
        assert lab.store.pending(1) == []
        assert lab.store.next_due() is None
        return {queue: [contents(message) for message in lab.read_created(queue)] for queue in lab.program.queues}


def contents(message: LabMessage) -> tuple[str, str | None]:
    return message.body, message.rule


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("seed", range(SEEDS))
def test_an_engine_on_a_failing_disk_does_what_one_on_a_sound_disk_does(tmp_path: Path, seed: int, restarts: bool):
    disk = Disk(tmp_path / "failing", seed)
    expected = run(tmp_path / "sound", None, restarts=False)
    assert run(tmp_path / "failing", disk, restarts) == expected
    assert len(expected["done"]) == ORDERS
    assert len(expected["demaq:errors"]) == ORDERS // 4
    assert disk.faults > ORDERS // 2
