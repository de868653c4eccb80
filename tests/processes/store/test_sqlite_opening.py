"""Opening a folder: whose it is, who holds it, how old it is, and who may only read."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from demaq.errors import StoreDamaged, StoreError
from demaq.store import SqliteStore, sqlite_database
from demaq.store.mark import MARK_NAME
from demaq.store.protocol import Step
from demaq.store.sql_statements import load_script
from demaq.store.store_verification import verify_store
from tests.support.store.contract import FOREVER, MORNING, new, next_program, seqs

PROJECT = Path(__file__).parents[3]
HOLD = """
import sys
from pathlib import Path
from demaq.store import SqliteStore
store = SqliteStore(Path(sys.argv[1]))
print("open", flush=True)
sys.stdin.read()
"""


def python(code: str, *arguments: str | Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", code, *map(str, arguments)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, cwd=PROJECT)


# one writer


def test_a_second_writer_is_refused_with_the_pid_of_the_first(tmp_path: Path):
    with python(HOLD, tmp_path) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        with pytest.raises(StoreError, match=f"is held by process {holder.pid}$"):
            SqliteStore(tmp_path)
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        SqliteStore(tmp_path).close()


def test_a_second_writer_in_the_same_process_is_refused_too(tmp_path: Path):
    store = SqliteStore(tmp_path)
    with pytest.raises(StoreError, match=f"is held by process {os.getpid()}$"):
        SqliteStore(tmp_path)
    store.close()
    SqliteStore(tmp_path).close()


def test_a_forked_child_does_not_hold_the_store_after_its_parent(tmp_path: Path):
    code = """
import os, sys, time
from pathlib import Path
from demaq.store import SqliteStore
store = SqliteStore(Path(sys.argv[1]))
if os.fork() == 0:
    print(os.getpid(), flush=True)
    os.close(0), os.close(1), os.close(2)
    time.sleep(60)
sys.stdin.read()
"""
    with python(code, tmp_path) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        parent.kill()
        parent.wait()
        try:
            SqliteStore(tmp_path).close()
        finally:
            os.kill(child, signal.SIGKILL)


def test_a_store_that_could_not_be_opened_is_not_held(tmp_path: Path):
    (tmp_path / sqlite_database.FILE_NAME).write_bytes(b"not a database at all, but long enough to be one" * 100)
    for _ in range(2):
        with pytest.raises(StoreError, match="not a store of Demaq"):
            SqliteStore(tmp_path)


def test_closing_twice_does_no_harm_and_a_closed_store_says_so(tmp_path: Path):
    store = SqliteStore(tmp_path)
    store.close()
    store.close()
    with pytest.raises(StoreError, match="is closed"):
        store.append([new()])
    with pytest.raises(StoreError, match="is closed"):
        store.snapshot()


def test_a_place_where_no_folder_can_be_is_refused(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot be made"):
        SqliteStore(tmp_path / "file")


# what survives


def test_everything_is_there_after_reopening_but_transient_messages(tmp_path: Path):
    store = SqliteStore(tmp_path)
    slices = (("order", "1"),)
    store.append([new(slices=slices), new("t", transient=True, slices=slices, entries=(("i", "v"),), request="r")])
    store.append([new("t", transient=True), new("t", transient=True, undelivered=True)])
    store.commit([Step(processed=3), Step(processed=1, created=(new("t", transient=True, trigger=1),))])
    kept = store.message(1)
    newest = store.snapshot()
    store.close()

    store = SqliteStore(tmp_path)
    assert store.stored(None, 0, 99) == [kept]
    assert seqs(store.slice("order", "1", newest)) == [1]
    assert store.lookup("i", ["v"], newest) == []
    assert store.slice_keys("order", "", 9) == [("1", 1)]
    assert store.counts() == {"orders": (1, 0)}
    assert store.pending(9) == []
    assert store.caused_by(1) == []
    assert store._database.rows("SELECT seq FROM slice_members UNION ALL SELECT seq FROM index_entries") == [(1,)]
    assert store.append([new(request="r")]) == [newest + 1]
    store.close()


def test_numbers_go_on_where_they_were_even_if_the_newest_messages_are_gone(tmp_path: Path):
    store = SqliteStore(tmp_path)
    store.append([new(), new("t", transient=True)])
    store.commit([Step(processed=1)])
    store.collect_garbage(FOREVER, 9)
    store.close()
    store = SqliteStore(tmp_path)
    assert store.stored(None, 0, 9) == []
    assert store.append([new()]) == [4]
    store.close()


def test_many_transient_messages_are_forgotten_in_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    store = SqliteStore(tmp_path)
    store.append([new(transient=True) for _ in range(25)])
    store.close()
    monkeypatch.setattr("demaq.store.sql_store.TRANSIENT_BATCH", 10)
    store = SqliteStore(tmp_path)
    assert store.stored(None, 0, 99) == []
    assert store.counts() == {}
    store.close()


# versions


def test_an_older_store_is_brought_up_to_date(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    store = SqliteStore(tmp_path)
    store.append([new()])
    store.close()
    migration = ["ALTER TABLE messages ADD COLUMN colour TEXT DEFAULT 'red';", "PRAGMA user_version = 3;"]
    monkeypatch.setattr(sqlite_database, "MIGRATIONS", (*sqlite_database.MIGRATIONS, "next.sql"))
    monkeypatch.setattr(sqlite_database, "load_script", {"next.sql": migration}.__getitem__)
    with pytest.raises(StoreError, match="older Demaq"):
        SqliteStore.open_readonly(tmp_path)
    SqliteStore(tmp_path).close()
    with sqlite3.connect(tmp_path / sqlite_database.FILE_NAME) as connection:
        assert connection.execute("SELECT colour FROM messages").fetchall() == [("red",)]
        assert connection.execute("PRAGMA user_version").fetchone() == (3,)
    connection.close()


@pytest.mark.parametrize("version", range(sqlite_database.COUNTING_VERSION, len(sqlite_database.MIGRATIONS)))
def test_an_older_store_is_brought_up_to_date_also_after_an_unclean_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int
):
    with monkeypatch.context() as patch:
        patch.setattr(sqlite_database, "MIGRATIONS", sqlite_database.MIGRATIONS[:version])
        store = SqliteStore(tmp_path)
        store.append([new()])
        left = (tmp_path / MARK_NAME).read_bytes()  # as after kill -9
        store.close()
    (tmp_path / MARK_NAME).write_bytes(left)
    assert not verify_store(tmp_path).findings
    store = SqliteStore(tmp_path)
    assert seqs(store.stored(None, 0, 9)) == [1]
    store.close()
    assert not verify_store(tmp_path).findings


def test_a_damaged_older_store_is_not_brought_up_to_date(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    version = sqlite_database.COUNTING_VERSION
    with monkeypatch.context() as patch:
        patch.setattr(sqlite_database, "MIGRATIONS", sqlite_database.MIGRATIONS[:version])
        store = SqliteStore(tmp_path)
        store.append([new()])
        store.close()
    (tmp_path / MARK_NAME).unlink()
    with sqlite3.connect(tmp_path / sqlite_database.FILE_NAME) as connection:
        connection.execute("UPDATE messages SET queue = 'other'")
    connection.close()
    with pytest.raises(StoreDamaged, match="message 1: not what was stored"):
        SqliteStore(tmp_path)
    with sqlite3.connect(tmp_path / sqlite_database.FILE_NAME) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (version,)
    connection.close()


def test_a_migration_that_fails_leaves_the_store_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    SqliteStore(tmp_path).close()
    migration = ["ALTER TABLE messages ADD COLUMN colour TEXT;", "PRAGMA user_version = 3;", "SELECT nonsense;"]
    with monkeypatch.context() as patch:
        patch.setattr(sqlite_database, "MIGRATIONS", (*sqlite_database.MIGRATIONS, "next.sql"))
        patch.setattr(sqlite_database, "load_script", {"next.sql": migration}.__getitem__)
        with pytest.raises(StoreError, match="nonsense"):
            SqliteStore(tmp_path)
    store = SqliteStore(tmp_path)
    assert store.append([new()]) == [1]
    store.close()


def test_a_store_is_made_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """As when a node is killed while it makes its store: the last migration fails, and none of the others stays."""
    scripts = {name: list(load_script(name)) for name in sqlite_database.MIGRATIONS}
    scripts[sqlite_database.MIGRATIONS[-1]].append("SELECT nonsense;")
    with monkeypatch.context() as patch:
        patch.setattr(sqlite_database, "load_script", scripts.__getitem__)
        with pytest.raises(StoreError, match="nonsense"):
            SqliteStore(tmp_path)
    with pytest.raises(StoreError, match="there is no store in"):
        SqliteStore.open_readonly(tmp_path)
    SqliteStore(tmp_path).close()
    SqliteStore.open_readonly(tmp_path).close()


def test_a_store_of_a_newer_demaq_is_refused(tmp_path: Path):
    SqliteStore(tmp_path).close()
    connection = sqlite3.connect(tmp_path / sqlite_database.FILE_NAME)
    connection.execute(f"PRAGMA user_version = {len(sqlite_database.MIGRATIONS) + 1}")
    connection.close()
    with pytest.raises(StoreError, match="made by a newer Demaq"):
        SqliteStore(tmp_path)
    with pytest.raises(StoreError, match="made by a newer Demaq"):
        SqliteStore.open_readonly(tmp_path)


def test_a_database_of_another_program_is_refused_and_not_touched(tmp_path: Path):
    file = tmp_path / sqlite_database.FILE_NAME
    connection = sqlite3.connect(file)
    connection.execute("CREATE TABLE bookmarks (address TEXT)")
    connection.close()
    before = file.read_bytes()
    for open_store in (SqliteStore, SqliteStore.open_readonly):
        with pytest.raises(StoreError, match="not a store of Demaq"):
            open_store(tmp_path)
    assert file.read_bytes() == before


# readers


def test_a_reader_is_refused_where_there_is_no_store(tmp_path: Path):
    with pytest.raises(StoreError, match="no store in"):
        SqliteStore.open_readonly(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_reader_reads_an_offline_store_and_writes_nothing(tmp_path: Path):
    store = SqliteStore(tmp_path)
    store.append([new(slices=(("s", "k"),)), new(transient=True)])
    store.load_collection("c", ["<a/>"])
    store.close()
    reader = SqliteStore.open_readonly(tmp_path)
    assert seqs(reader.slice("s", "k", reader.snapshot())) == [1]
    assert seqs(reader.stored(None, 0, 9)) == [1, 2]
    assert reader.collection("c") == (1, ["<a/>"])
    for write in (
        lambda: reader.append([new()]),
        lambda: reader.commit([Step()]),
        lambda: reader.postpone([]),
        lambda: reader.send_again([1], MORNING),
        lambda: reader.note_migrated("d", [], 0),
        lambda: reader.load_collection("c", []),
        lambda: reader.activate(next_program(), MORNING),
        lambda: reader.collect_garbage(FOREVER, 1),
    ):
        with pytest.raises(StoreError, match="for reading only"):
            write()
    reader.close()


def test_a_reader_beside_a_writer_sees_whole_commits_at_once(tmp_path: Path):
    store = SqliteStore(tmp_path)
    store.append([new() for _ in range(200)])
    reader = SqliteStore.open_readonly(tmp_path)

    def write() -> None:
        for start in range(1, 201, 10):
            store.commit([Step(processed=seq, created=(new("done"), new("done"))) for seq in range(start, start + 10)])

    writer = threading.Thread(target=write)
    writer.start()
    seen = []
    while writer.is_alive():
        counts = reader.counts()
        seen.append((counts.get("orders", (0, 0))[0], counts.get("done", (0, 0))[0]))
    writer.join()
    assert all(orders % 10 == 0 and done == 2 * (200 - orders) for orders, done in seen)
    assert reader.counts() == {"done": (400, 400)}
    assert reader.snapshot() == store.snapshot()
    reader.close()
    store.close()


@pytest.mark.parametrize("state", ["at rest", "after a crash"])
def test_a_reader_needs_no_right_to_write_in_the_folder(state: str):
    folder = Path(tempfile.mkdtemp())
    try:
        if state == "at rest":
            store = SqliteStore(folder)
            store.append([new()])
            store.close()
        else:
            code = HOLD.replace("print", "from tests.support.store.contract import new; store.append([new()]); print")
            with python(code, folder) as holder:
                assert holder.stdout is not None
                assert holder.stdout.readline() == "open\n"
                holder.kill()
        for file in folder.iterdir():
            file.chmod(0o444)
        folder.chmod(0o555)
        reading = """
import os, sys
from pathlib import Path
from demaq.store import SqliteStore
if os.geteuid() == 0:
    os.setuid(65534)  # root may write everywhere
print(len(SqliteStore.open_readonly(Path(sys.argv[1])).stored(None, 0, 9)))
"""
        with python(reading, folder) as reader:
            assert reader.communicate() == ("1\n", "")
    finally:
        folder.chmod(0o755)
        shutil.rmtree(folder)
