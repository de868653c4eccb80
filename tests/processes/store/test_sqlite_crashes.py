"""A store loses nothing it has said yes to: killed, or on a disk that fills up."""

from __future__ import annotations

import os
import random
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from demaq.errors import StoreError
from demaq.store import SqliteStore
from demaq.store.protocol import Step
from tests.support.processes import started
from tests.support.store.consistency import assert_consistent
from tests.support.store.contract import FOREVER, new, seqs

KILLS = 10
LARGE = f"<order>{'x' * 100_000}</order>"
WRITER = Path(__file__).parents[2] / "support" / "store" / "crash_writer.py"


def test_a_killed_writer_loses_nothing_acknowledged_and_leaves_nothing_half(tmp_path: Path, chance: random.Random):
    folder, acknowledged = tmp_path / "store", tmp_path / "acknowledged"
    lengths = []
    for _ in range(KILLS):
        before = acknowledged.stat().st_size if acknowledged.exists() else 0
        with started([sys.executable, str(WRITER), str(folder), str(acknowledged)]):
            wait_for_more_than(acknowledged, before)
            time.sleep(chance.uniform(0, 0.25))
        cut_unfinished_line(acknowledged)
        check(folder, acknowledged.read_text().splitlines())
        lengths.append(acknowledged.stat().st_size)
    assert lengths == sorted(set(lengths))


def cut_unfinished_line(file: Path) -> None:
    """A kill may end a write to a file at the end of any page: such a line acknowledges nothing."""
    os.truncate(file, file.read_bytes().rfind(b"\n") + 1)


def wait_for_more_than(file: Path, size: int) -> None:
    give_up = time.monotonic() + 30
    while not file.exists() or file.stat().st_size <= size:
        assert time.monotonic() < give_up
        time.sleep(0.005)


def check(folder: Path, acknowledged: list[str]) -> None:
    store = SqliteStore(folder)
    stored = {message.seq: message for message in store.stored(None, 0, 1_000_000)}
    processed = {int(line.split()[1]) for line in acknowledged if line.startswith("processed")}
    received = [int(line.split()[1]) for line in acknowledged if line.startswith("received")]
    [sequence] = store.sequences()
    assert received[-1] <= int(sequence.content) <= received[-1] + 1
    assert [each.number for each in store.sequence_messages("in", "s")] == [int(sequence.content)]
    for line in acknowledged:
        if line.startswith("received"):
            continue
        _, seq, body = line.split(" ", 2)
        message = stored.get(int(seq))
        if message is None:  # only what was processed and released may be collected
            assert int(seq) in processed or effects(store, int(seq)) == ["one", "two"]
            assert int(seq) % 3 == 0
        else:
            assert message.body == body
            assert (message.processed is not None) >= (message.seq in processed)
    for number in processed:
        assert effects(store, number) == ["one", "two"]
    for message in stored.values():
        if message.queue == "orders":
            assert effects(store, message.seq) == ([] if message.processed is None else ["one", "two"])
            released = message.processed is not None and message.seq % 3 == 0
            assert message.retired == (message.processed if released else None)
    assert_consistent(store)
    store.close()


def effects(store: SqliteStore, seq: int) -> list[str]:
    caused = [store.message(each) for each in store.caused_by(seq)]
    return [message.queue for message in caused if message is not None]


# a disk that fills up


@contextmanager
def no_room_in_the_file(store: SqliteStore) -> Iterator[None]:
    """SQLite itself refuses to let the database grow."""
    [(pages,)] = store._database.rows("PRAGMA page_count")
    store._database.rows(f"PRAGMA max_page_count = {pages + 2}")
    yield
    store._database.rows("PRAGMA max_page_count = 1073741823")


@contextmanager
def no_room_in_the_system(store: SqliteStore) -> Iterator[None]:
    """The system refuses every write beyond this size, in the middle of it."""
    size = max(file.stat().st_size for file in store._database.folder.iterdir())
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 10_000, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("no_room", [no_room_in_the_file, no_room_in_the_system])
def test_a_full_disk_is_reported_and_the_store_works_on_when_there_is_room(tmp_path: Path, no_room):
    store = SqliteStore(tmp_path)
    slices = (("order", "1"),)
    store.append([new(slices=slices), new()])
    before = (store.snapshot(), store.stored(None, 0, 9), store.counts())
    with no_room(store):
        for _ in range(3):
            with pytest.raises(StoreError, match=r"no room left|could not be read or written"):
                store.append([new(body=LARGE, request="r") for _ in range(5)])
            with pytest.raises(StoreError, match=r"(was not|may not have been) stored"):
                store.commit([Step(processed=1, resets=slices, created=(new(body=LARGE), new(body=LARGE)))])
            assert (store.snapshot(), store.stored(None, 0, 9), store.counts()) == before
            assert seqs(store.slice("order", "1", store.snapshot())) == [1]
            assert_consistent(store)
    assert store.append([new(body=LARGE, request="r")]) == [3]
    [done] = store.commit([Step(processed=1, resets=slices, created=(new(body=LARGE),))])
    assert done.retired == (1,)
    store.close()
    store = SqliteStore(tmp_path)
    assert [message.body for message in store.stored(None, 2, 9)] == [LARGE, LARGE]
    assert_consistent(store)
    store.close()


def test_a_real_disk_that_is_full_stops_writing_and_loses_nothing(tmp_path: Path):
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "demaq-test", str(tmp_path)], capture_output=True
    )
    if mounted.returncode != 0:
        pytest.skip("only an administrator may mount a small disk")
    try:
        store = SqliteStore(tmp_path / "store")
        acknowledged: list[int] = []
        with pytest.raises(StoreError, match=r"no room left|could not be read or written"):
            append_for_ever(store, acknowledged)
        assert seqs(store.pending(99)) == acknowledged
        store.close()

        subprocess.run(["mount", "-o", "remount,size=16m", str(tmp_path)], check=True)
        store = SqliteStore(tmp_path / "store")
        assert seqs(store.pending(99)) == acknowledged
        for seq in acknowledged:
            store.commit([Step(processed=seq, created=(new("next", body=LARGE),))])
        assert store.collect_garbage(FOREVER, 99) == len(acknowledged)
        assert_consistent(store)
        store.close()
    finally:
        subprocess.run(["umount", "-l", str(tmp_path)], check=True)


def append_for_ever(store: SqliteStore, acknowledged: list[int]) -> None:
    while True:
        acknowledged += store.append([new(body=LARGE)])


def test_an_error_in_the_middle_of_a_commit_keeps_nothing_of_it(tmp_path: Path):
    """Not the world's mistake but ours: it stays loud, and the store stays usable."""
    store = SqliteStore(tmp_path)
    store.append([new()])
    with pytest.raises(UnicodeEncodeError):
        store.commit([Step(processed=1, created=(new("next"), new("next", body="\ud800")))])
    assert store.snapshot() == 1
    assert store.commit([Step(processed=1)])[0].retired == (1,)
    store.close()
