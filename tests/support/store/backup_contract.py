"""What a backup promises, of a store on whatever it is kept. A test file subclasses `BackupContract`."""

from __future__ import annotations

import os
import random
import sqlite3
import stat
import threading
import time
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from demaq.errors import StoreDamaged, StoreError
from demaq.messages import PropertyValue
from demaq.store import copying, sqlite_database
from demaq.store.backup import back_up, restore
from demaq.store.location import StoreLocation, place_of
from demaq.store.opening import open_store, open_store_readonly
from demaq.store.operator_records import AuditRecord, Pause
from demaq.store.protocol import MigratedMessage, Postponed, SequenceChanges, Step, StoredAnswer, Timer
from demaq.store.sql_statements import load_script
from demaq.store.sql_store import SqlStore
from demaq.store.sqlite_database import FILE_NAME, Database
from tests.support.store.contract import MORNING, Clock, attempt, new, next_program
from tests.support.store.history import acts, state, states
from tests.support.store.sequence_contract import HIGHEST, held, pending, sequence

SECRET = "Thursday's secret"
ACTS = 120
BACKUPS_MIN = 3
SECONDS_MAX = 60


def fill(store: SqlStore) -> None:
    """Write something into every table."""
    store.load_collection("prices", ["<p>ü</p>", "<q/>"])
    store.activate(next_program(files={"a.dmq": "(: ü :)"}, indexes=("orders/name",)), MORNING)
    properties = {"customer": PropertyValue.string(SECRET)}
    first = [
        new(
            body=f"<m>{SECRET} \U0001f600 \\N \t {number}</m>",
            properties=properties,
            slices=(("order", str(number % 3)),),
            entries=(("orders/name", str(number)),),
            request=f"request {number}",
        )
        for number in range(30)
    ]
    store.append(first)
    store.append([new("later", priority=None, timer=Timer(due=MORNING + timedelta(hours=1), target="orders"))])
    out = store.append([new("out", priority=None, undelivered=True) for _ in range(3)])
    store.commit([Step(processed=message.seq, resets=(("order", "1"),)) for message in store.pending(4)])
    store.postpone([Postponed(message=out[0], due=MORNING, attempt=attempt(out[0], 1, "again"))])
    answer = StoredAnswer(connection="c", status=200, content_type="text/xml", body="<a/>")
    store.commit([Step(delivered=out[1], answer=answer)])
    store.change_sequences(
        SequenceChanges(
            sequences=(sequence("in ü"), sequence("out", "out", content=SECRET)),
            added=(held(HIGHEST, "in ü", f"<m>{SECRET} \U0001f600 \\N \t</m>"), pending(1, out[0], "out")),
            replay_keys={f"{SECRET} \\": MORNING + timedelta(days=9999)},
        )
    )
    pause = Pause(kind="queue", name=f"{SECRET} \\", who="ü", why="\t\\N", since=MORNING)
    store.change_pauses([pause], (), AuditRecord(at=MORNING, who="ü", action="pause", subject=SECRET, why="\\N"))
    store.note_migrated("next", [MigratedMessage(seq=6, properties=None, slices=(), entries=(), discarded=False)], 6)


def contents(where: str | Path) -> dict[str, list[Any]]:
    """Every row of a store but its epochs, in tables that are the same everywhere."""
    with closing(sqlite3.connect(":memory:")) as known:
        for migration in sqlite_database.MIGRATIONS:
            for statement in load_script(migration):
                known.execute(statement)
        tables = copying._list_columns(known)
    with closing(open_store_readonly(where)) as store, store.at_one_snapshot():
        found = {
            table: sorted(store._database.rows(copying._select(table, columns)), key=repr)
            for table, columns in tables.items()
        }
    del found["epochs"]
    return found


def without_outgoing_sequences(found: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """What a store has after it has begun an epoch."""
    tables = ("sequences", "sequence_messages")
    return {**found, **{table: [row for row in found[table] if row[0] != "out"] for table in tables}}


def restored_to_folder(backup: Path, folder: Path) -> Path:
    restore(backup, place_of(folder))
    return folder


class BackupContract:
    """`place` is where a store may be made."""

    @pytest.fixture
    def place(self) -> StoreLocation:
        raise NotImplementedError

    @pytest.fixture
    def other_place(self) -> StoreLocation:
        """Another one, of the same kind."""
        raise NotImplementedError

    def test_backups_while_a_node_writes_are_each_of_one_moment(
        self, place: StoreLocation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ):
        monkeypatch.setattr(sqlite_database, "PAGES_AT_ONCE", 1)
        seed = random.SystemRandom().randrange(1 << 32)
        print(f"seed {seed}")
        history = acts(seed, ACTS)
        expected = states(history, Clock())
        store = open_store(place.where, now=Clock())
        backups = 0
        ended = threading.Event()

        def write() -> None:
            for act in history:
                act(store)
                while backups < BACKUPS_MIN and store.snapshot() > expected[ACTS // 2][0] and not ended.is_set():
                    time.sleep(0.001)
            ended.set()

        writer = threading.Thread(target=write)
        writer.start()
        found = []
        give_up = time.monotonic() + SECONDS_MAX
        try:
            while not ended.is_set() and time.monotonic() < give_up:
                destination = tmp_path / f"backup-{backups}"
                made = back_up(place, destination)
                with closing(open_store_readonly(destination)) as copy:
                    found.append(state(copy))
                assert found[-1] in expected, f"seed {seed}"
                assert (made.newest, made.messages) == (found[-1][0], len(found[-1][1]))
                backups += 1
        finally:
            ended.set()
            writer.join(SECONDS_MAX)
        assert backups >= BACKUPS_MIN
        assert len({newest for newest, *_ in found}) > 1, "the writer has written between backups"
        assert state(store) == expected[-1]
        store.close()

    def test_a_restored_store_has_every_row_and_begins_an_epoch(
        self, place: StoreLocation, other_place: StoreLocation, tmp_path: Path
    ):
        store = open_store(place.where)
        fill(store)
        names = [store.epochs().message_name(seq) for seq in (1, store.snapshot(), store.snapshot() + 1)]
        made = back_up(place, tmp_path / "backup")
        expected = contents(place.where)
        assert all(expected.values()), [table for table, rows in expected.items() if not rows]
        assert contents(tmp_path / "backup") == expected
        restored = restore(tmp_path / "backup", other_place)
        assert contents(other_place.where) == without_outgoing_sequences(expected) != expected
        assert (restored.messages, restored.newest) == (made.messages, made.newest) == (34, store.snapshot())
        for _ in range(2):
            lines: list[str] = []
            other = open_store(other_place.where, tell=lines.append)
            assert lines == []  # it no longer counts as a copy
            renamed = [other.epochs().message_name(seq) for seq in (1, made.newest, made.newest + 1)]
            assert renamed[:2] == names[:2]
            assert renamed[2] != names[2]
            other.close()
        other = open_store(other_place.where)
        assert other.append([new()]) == store.append([new()])
        assert [row.number for row in other.attempts(None, None, 9)] == [
            row.number for row in store.attempts(None, None, 9)
        ]
        store.close()
        other.close()

    def test_each_restored_store_has_names_of_its_own(self, place: StoreLocation, tmp_path: Path):
        open_store(place.where).close()
        back_up(place, tmp_path / "backup")
        stores = [open_store(restored_to_folder(tmp_path / "backup", tmp_path / name)) for name in ("a", "b")]
        stores.append(open_store(tmp_path / "backup"))  # used as a store as it is
        stores.append(open_store(place.where))
        assert len({store.identity() for store in stores}) == 4
        for store in stores:
            store.close()

    def test_a_backup_is_its_owners_alone(self, place: StoreLocation, tmp_path: Path):
        open_store(place.where).close()
        before = os.umask(0)
        try:
            back_up(place, tmp_path / "backups" / "monday")
            restored_to_folder(tmp_path / "backups" / "monday", tmp_path / "store-again")
        finally:
            os.umask(before)
        assert [file.name for file in (tmp_path / "backups" / "monday").iterdir()] == [FILE_NAME]
        for folder in (tmp_path / "backups" / "monday", tmp_path / "store-again"):
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700
            assert [file.name for file in folder.iterdir() if file.stat().st_mode & 0o077] == []

    @pytest.mark.parametrize("kind", ["file", "empty folder", "folder", "dangling link"])
    def test_what_is_there_already_is_left_alone(self, place: StoreLocation, tmp_path: Path, kind: str):
        open_store(place.where).close()
        there = tmp_path / "there"
        if kind == "file":
            there.write_text("mine")
        elif kind == "dangling link":
            there.symlink_to(tmp_path / "nowhere")
        else:
            there.mkdir()
            if kind == "folder":
                (there / "mine").write_text("mine")
        back_up(place, tmp_path / "backup")
        before = sorted(tmp_path.iterdir())
        with pytest.raises(StoreError, match="there exists already"):
            back_up(place, there)
        with pytest.raises(StoreError, match="there exists already"):
            restored_to_folder(tmp_path / "backup", there)
        assert sorted(tmp_path.iterdir()) == before

    @pytest.mark.parametrize(
        ("change", "finding"),
        [
            ("UPDATE bodies SET body = '<other/>' WHERE seq = 5", "message 5: not what was stored"),
            ("DELETE FROM slice_members", "members of slices"),
            ("UPDATE outbox SET attempts = 7", "outbox"),
            ("UPDATE numbers SET newest = 3", "newest number"),
            ("UPDATE sequence_messages SET held = '<other/>'", "sequence_messages"),
        ],
    )
    def test_a_damaged_backup_is_refused_with_what_is_damaged(
        self, place: StoreLocation, other_place: StoreLocation, tmp_path: Path, change: str, finding: str
    ):
        with closing(open_store(place.where)) as store:
            fill(store)
        back_up(place, tmp_path / "backup")
        with closing(sqlite3.connect(tmp_path / "backup" / FILE_NAME, isolation_level=None)) as connection:
            assert connection.execute(change).rowcount
        before = sorted(tmp_path.iterdir())
        for where in (other_place, place_of(tmp_path / "new")):
            with pytest.raises(
                StoreDamaged, match=rf"backup is damaged, so nothing was restored.*{finding}"
            ) as refusal:
                restore(tmp_path / "backup", where)
            assert SECRET not in str(refusal.value)
            assert len(str(refusal.value).splitlines()) == 1
        assert sorted(tmp_path.iterdir()) == before
        with pytest.raises(StoreError, match="there is no store"):
            open_store_readonly(other_place.where)

    def test_a_damaged_store_is_not_backed_up(self, place: StoreLocation, tmp_path: Path):
        with closing(open_store(place.where)) as store:
            fill(store)
            with store._database.transaction():
                store._database.execute("UPDATE bodies SET body = '<other/>' WHERE seq = 5")
        before = sorted(tmp_path.iterdir())
        with pytest.raises(StoreDamaged, match=r"is damaged, so no backup was made.*message 5: not what was stored"):
            back_up(place, tmp_path / "backup")
        assert sorted(tmp_path.iterdir()) == before

    def test_an_interrupted_backup_leaves_nothing(
        self, place: StoreLocation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ):
        open_store(place.where).close()

        def interrupt(*_: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr("demaq.store.backup.verify_folder", interrupt)
        before = sorted(tmp_path.iterdir())
        with pytest.raises(KeyboardInterrupt):
            back_up(place, tmp_path / "backup")
        assert sorted(tmp_path.iterdir()) == before

    def test_where_there_is_no_store_there_is_no_backup(self, place: StoreLocation, tmp_path: Path):
        with pytest.raises(StoreError, match="there is no store"):
            back_up(place, tmp_path / "backup")
        assert not (tmp_path / "backup").exists()
        with pytest.raises(StoreError, match="there is no backup"):
            restore(tmp_path, place)

    def test_a_backup_can_be_read_by_who_may_not_write(self, place: StoreLocation, tmp_path: Path):
        open_store(place.where).close()
        back_up(place, tmp_path / "backup")
        for _ in range(2):
            Database(tmp_path / "backup", read_only=True).close()
        assert [file.name for file in (tmp_path / "backup").iterdir()] == [FILE_NAME]
