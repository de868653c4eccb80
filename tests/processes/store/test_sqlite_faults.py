"""Faults below the store: writes that fail, are cut short, are torn or get lost, and syncs that fail.

What was acknowledged is there, what was refused is not, and no commit is ever there in part.
"""

from __future__ import annotations

import contextlib
import random
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from demaq.errors import StoreError
from demaq.store import SqliteStore
from demaq.store.mark import read_mark
from demaq.store.protocol import Postponed, Step
from demaq.store.sqlite_database import FILE_NAME
from demaq.store.store_verification import verify_folder
from tests.support.store.consistency import assert_consistent
from tests.support.store.contract import FOREVER, MORNING, Clock, new
from tests.support.store.faults import (
    FRAME_SIZE,
    LOG_NAME,
    length_of_log,
    no_file_longer_than,
    no_write_succeeds,
    writes_are_lost,
)
from tests.support.store.history import Act, acts, state, states
from tests.support.store.refused_calls import NOT_HERE
from tests.support.store.sequence_contract import FIRST, NEXT, everything

SEED = 11
ACTS = 16
SECTOR_SIZE = 512
RANDOM_CUTS = 40
SECTORS_LOST = 60
TORN_CHECKPOINTS = 20
CLOCK = Clock()
REFUSED = "what was asked (was not|may not have been) stored"
REFUSED_CALLS = Path(__file__).parents[2] / "support" / "store" / "refused_calls.py"


def open_store(folder: Path) -> SqliteStore:
    return SqliteStore(folder, now=CLOCK)


def copy_of(folder: Path, log: bytes, database: bytes | None = None) -> Path:
    """The folder as a kill or power loss would leave it, with this log."""
    copy = folder.with_name("copy")
    shutil.rmtree(copy, ignore_errors=True)
    copy.mkdir()
    (copy / FILE_NAME).write_bytes((folder / FILE_NAME).read_bytes() if database is None else database)
    (copy / LOG_NAME).write_bytes(log)
    return copy


def assert_holds(folder: Path, expected: Any) -> None:
    """Opened, it holds what it must, takes the next message, and has that when it is opened once more."""
    store = open_store(folder)
    assert state(store) == expected
    assert_consistent(store)
    [seq] = store.append([new(body="<next/>")])
    store.close()
    store = open_store(folder)
    assert store.snapshot() == seq == expected[0] + 1
    assert_consistent(store)
    store.close()


# writes that fail


@pytest.mark.parametrize("fault", [no_write_succeeds, writes_are_lost])
def test_a_commit_whose_write_fails_changes_nothing_and_succeeds_when_it_is_tried_again(tmp_path: Path, fault):
    history = acts(SEED, ACTS)
    expected = states(history, CLOCK)
    store = open_store(tmp_path)
    for number, act in enumerate(history):
        with fault(store), pytest.raises(StoreError, match=REFUSED):
            act(store)
        assert state(store) == expected[number]
        assert_consistent(store)
        act(store)
        assert state(store) == expected[number + 1]
    store.close()
    store = open_store(tmp_path)
    assert state(store) == expected[-1]
    assert_consistent(store)
    store.close()


def test_a_store_that_cannot_write_can_still_be_read(tmp_path: Path):
    history = acts(SEED, ACTS)
    store = open_store(tmp_path)
    for act in history[:-1]:
        act(store)
    before = state(store)
    with no_write_succeeds(store):
        with pytest.raises(StoreError, match=REFUSED):
            history[-1](store)
        assert state(store) == before
        beside = SqliteStore.open_readonly(tmp_path)
        assert state(beside) == before
        beside.close()
    store.close()


def test_a_commit_that_took_place_though_it_is_said_to_have_failed_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    store = open_store(tmp_path)
    store.append([new()])
    before = read_mark(tmp_path)
    with monkeypatch.context() as fault:
        fault.setattr(store._database, "_connection", _Forgetful(store._database._open()))
        with pytest.raises(StoreError, match=REFUSED):
            store.append([new()])
    assert store.append([new()]) == [3]
    mark = read_mark(tmp_path)
    assert before is not None
    assert mark is not None
    assert (mark.commits, mark.newest) == (before.commits + 2, 3)
    assert store._database.rows("SELECT commits, newest FROM numbers") == [(mark.commits, mark.newest)]
    assert_consistent(store)
    store.close()
    assert verify_folder(tmp_path).findings == []


class _Forgetful:
    """A connection that commits and then says that it could not."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def execute(self, statement: str, *parameters: Any) -> sqlite3.Cursor:
        done = self._connection.execute(statement, *parameters)
        if statement == "COMMIT":
            error = sqlite3.OperationalError("disk I/O error")
            error.sqlite_errorcode = sqlite3.SQLITE_IOERR
            raise error
        return done


def test_a_write_that_is_cut_short_anywhere_leaves_nothing(tmp_path: Path):
    history = acts(SEED, ACTS)
    expected = states(history, CLOCK)
    lengths = lengths_of_log_after_each(history, tmp_path / "whole")
    store = open_store(tmp_path / "store")
    for number, act in enumerate(history):
        for limit in interesting(lengths[number], lengths[number + 1]):
            with no_file_longer_than(limit), pytest.raises(StoreError, match=REFUSED):
                act(store)
        log = (tmp_path / "store" / LOG_NAME).read_bytes()
        assert state(store) == expected[number]
        assert_holds(copy_of(tmp_path / "store", log), expected[number])
        act(store)
    assert state(store) == expected[-1]
    assert_consistent(store)
    store.close()


def interesting(start: int, end: int) -> Iterable[int]:
    """Places in what a commit adds to the log: around the borders of its frames, their heads, and sectors."""
    for frame in range(start, end, FRAME_SIZE):
        yield from [frame, frame + 1, frame + 24, frame + SECTOR_SIZE, frame + FRAME_SIZE - 1]


def lengths_of_log_after_each(history: list[Act], folder: Path) -> list[int]:
    store = open_store(folder)
    lengths = [length_of_log(folder)]
    for act in history:
        act(store)
        lengths.append(length_of_log(folder))
    store.close()
    return lengths


# a log whose end is torn or lost, as power loss leaves it


class Torn:
    """A log that was written by a history, and how long it was after each commit."""

    def __init__(self, folder: Path, checkpoint_after: int | None = None) -> None:
        self.folder = folder
        self.history = acts(SEED, ACTS)
        self.expected = states(self.history, CLOCK)
        self.lengths: list[int] = []
        store = open_store(folder)
        for number, act in enumerate(self.history):
            if number == checkpoint_after:
                store._database.rows("PRAGMA wal_checkpoint(RESTART)")
                self.lengths.clear()
            self.lengths.append(length_of_log(folder))
            act(store)
        self.lengths.append(length_of_log(folder))
        self.first = checkpoint_after or 0
        """How many commits came before the log begins."""
        self.log = (folder / LOG_NAME).read_bytes()
        self.database = (folder / FILE_NAME).read_bytes()
        store._database.rows("PRAGMA wal_checkpoint(TRUNCATE)")
        self.database_after_checkpoint = (folder / FILE_NAME).read_bytes()
        store.close()

    def assert_holds(self, log: bytes, commits: int, database: bytes | None = None) -> None:
        """With this log the store holds these commits, whole, and works on."""
        assert_holds(copy_of(self.folder, log, database or self.database), self.expected[commits])

    def whole_within(self, length: int) -> int:
        """How many commits lie within so many bytes of the log."""
        return self.first + max([n for n, end in enumerate(self.lengths) if end <= length], default=0)


def test_a_log_cut_anywhere_holds_every_commit_in_front_of_the_cut_whole(tmp_path: Path):
    torn = Torn(tmp_path / "store")
    chance = random.Random(SEED)
    cuts = {place + distance for place in torn.lengths for distance in (-1, 0, 1)}
    cuts |= {chance.randint(0, torn.lengths[-1]) for _ in range(RANDOM_CUTS)}
    for cut in sorted(cut for cut in cuts if cut <= torn.lengths[-1]):
        torn.assert_holds(torn.log[:cut], torn.whole_within(cut))


@pytest.mark.parametrize("rest", ["zeros", "garbage", "the same again"])
def test_what_follows_the_last_whole_commit_is_ignored(tmp_path: Path, rest: str):
    torn = Torn(tmp_path / "store")
    chance = random.Random(SEED)
    for commits, length in enumerate(torn.lengths[:-1]):
        missing = torn.lengths[-1] - length
        tail = {
            "zeros": bytes(missing),
            "garbage": chance.randbytes(missing),
            "the same again": torn.log[length - FRAME_SIZE : length] * 3,
        }[rest]
        torn.assert_holds(torn.log[:length] + tail, commits)


def test_a_commit_of_which_one_sector_is_missing_is_not_there(tmp_path: Path):
    torn = Torn(tmp_path / "store")
    chance = random.Random(SEED)
    for _ in range(SECTORS_LOST):
        commits = chance.randrange(ACTS)
        start, end = torn.lengths[commits : commits + 2]
        sector = chance.randrange(start // SECTOR_SIZE, (end - 1) // SECTOR_SIZE + 1) * SECTOR_SIZE
        log = bytearray(torn.log[:end])
        lost = slice(max(sector, start), min(sector + SECTOR_SIZE, end))
        if not any(log[lost]):
            continue  # nothing was written there that could be missing
        log[lost] = bytes(lost.stop - lost.start)
        torn.assert_holds(bytes(log), commits)


def test_a_log_that_began_anew_forgets_what_an_older_one_left_after_it(tmp_path: Path):
    torn = Torn(tmp_path / "store", checkpoint_after=ACTS - 4)
    assert len(torn.log) > torn.lengths[-1]  # the end of the log before
    for commits, length in enumerate(torn.lengths[1:], torn.first + 1):
        torn.assert_holds(torn.log[:length], commits)
        older = torn.log[torn.lengths[-1] :]
        torn.assert_holds(torn.log[:length] + older, commits)
    torn.assert_holds(torn.log, ACTS)


def test_a_torn_checkpoint_is_mended_by_the_log(tmp_path: Path):
    """Power fails while pages are copied into the database: some of their sectors are there, others not."""
    torn = Torn(tmp_path / "store")
    chance = random.Random(SEED)
    old, copied = torn.database, torn.database_after_checkpoint
    for _ in range(TORN_CHECKPOINTS):
        database = bytearray(copied[: chance.randrange(len(old), len(copied) + 1)])
        for sector in range(0, len(database), SECTOR_SIZE):
            if chance.random() < 0.5:
                before = old[sector : sector + SECTOR_SIZE]
                database[sector : sector + SECTOR_SIZE] = before.ljust(SECTOR_SIZE, b"\0")
        torn.assert_holds(torn.log, ACTS, bytes(database))


# a fault in the middle of a transaction


def test_a_fault_at_one_message_of_several_leaves_all_of_them_as_they_were(tmp_path: Path):
    store = open_store(tmp_path)
    store.append([new("out", undelivered=True, priority=None) for _ in range(4)])
    store.commit([Step(processed=4, delivered=4)])
    store.postpone([Postponed(message=seq, due=FOREVER) for seq in (1, 2, 3)])
    before = store.unsent(None, None, 9)
    with contextlib.closing(sqlite3.connect(tmp_path / FILE_NAME)) as other:
        for number, change in enumerate(["UPDATE", "INSERT"]):
            seq = (3, 4)[number]
            other.execute(
                f"CREATE TRIGGER no_{change} BEFORE {change} ON outbox WHEN NEW.seq = {seq} "
                "BEGIN SELECT RAISE(ABORT, 'a fault'); END"
            )
            with pytest.raises(StoreError, match="a fault"):
                store.send_again([1, 2, 3, 4], MORNING)
            assert store.unsent(None, None, 9) == before
            other.execute(f"DROP TRIGGER no_{change}")
    assert store.send_again([1, 2, 3, 4], MORNING) == []
    assert [each.due for each in store.unsent(None, None, 9)] == [MORNING] * 4
    store.close()


@pytest.mark.parametrize(
    ("table", "condition"),
    [("sequences", "NEW.name = 'u'"), ("sequence_messages", "NEW.number = 5"), ("replay_keys", "NEW.key = 'l'")],
)
def test_a_fault_at_one_sequence_leaves_messages_and_sequences_as_they_were(tmp_path: Path, table: str, condition: str):
    store = open_store(tmp_path)
    store.append([new()], FIRST)
    before = everything(store), store.stored(None, 0, 9), store.snapshot()
    with contextlib.closing(sqlite3.connect(tmp_path / FILE_NAME)) as other:
        other.execute(
            f"CREATE TRIGGER no BEFORE INSERT ON {table} WHEN {condition} BEGIN SELECT RAISE(ABORT, 'a fault'); END"
        )
        for change in (
            lambda: store.append([new()], NEXT),
            lambda: store.commit([Step(processed=1)], changes=NEXT),
            lambda: store.change_sequences(NEXT),
        ):
            with pytest.raises(StoreError, match="a fault"):
                change()
            assert (everything(store), store.stored(None, 0, 9), store.snapshot()) == before
            assert_consistent(store)
        other.execute("DROP TRIGGER no")
    store.commit([Step(processed=1)], changes=NEXT)
    assert everything(store) != before[0]
    assert_consistent(store)
    store.close()


# calls that the system refuses


@pytest.mark.parametrize(
    ("calls", "error", "reason"),
    [
        (["fsync", "fdatasync"], "EIO", "its disk could not be read or written"),
        (["pwrite64"], "EIO", "its disk could not be read or written"),
        (["pwrite64"], "ENOSPC", r"there is no room left for \S+store\.db-wal"),
    ],
)
def test_a_call_that_the_system_refuses_is_a_no_and_leaves_each_commit_whole(
    tmp_path: Path, calls: list[str], error: str, reason: str
):
    command = [sys.executable, str(REFUSED_CALLS), str(tmp_path), error, *calls]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode == NOT_HERE:
        pytest.skip(done.stdout)
    assert done.returncode == 0, done.stderr
    assert re.search(reason, done.stdout)
    assert re.search(REFUSED, done.stdout)
    store = open_store(tmp_path)
    bodies = [message.body for message in store.stored(None, 0, 99)]
    # Whether a write got to the disk whose sync failed cannot be known. What was acknowledged did.
    assert bodies[:2] == ["<first/>", "<second/>"]
    assert bodies[2:] in ([], ["<third/>", "<fourth/>"])
    assert_consistent(store)
    assert store.append([new()]) == [store.snapshot()]
    store.close()
