"""The folder of a store: who may read it, who may write in it, and what is said when something of it is gone."""

from __future__ import annotations

import os
import signal
import stat
from pathlib import Path

import pytest

from demaq.errors import StoreDamaged, StoreError
from demaq.store import SqliteStore
from demaq.store.sqlite_database import FILE_NAME, LOG_NAME
from tests.processes.store.test_sqlite_opening import HOLD, python
from tests.support.store.contract import new

STORING = HOLD.replace("print", "from tests.support.store.contract import new; store.append([new()]); print")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def killed_store(folder: Path) -> None:
    """A store whose node was killed: what it stored is in the log."""
    with python(STORING, folder) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "open\n"
        holder.kill()


# modes


def test_a_new_store_is_for_its_owner_alone_whatever_the_umask(tmp_path: Path):
    before = os.umask(0o000)
    try:
        store = SqliteStore(tmp_path / "above" / "store")
        store.append([new()])
        reader = SqliteStore.open_readonly(tmp_path / "above" / "store")
        reader.snapshot()
    finally:
        os.umask(before)
    assert mode(tmp_path / "above" / "store") == 0o700
    files = {file.name: mode(file) for file in (tmp_path / "above" / "store").iterdir()}
    assert {FILE_NAME, LOG_NAME, f"{FILE_NAME}-shm", "writer.lock"} <= files.keys()
    assert set(files.values()) == {0o600}
    reader.close()
    store.close()


def test_a_store_that_others_may_read_is_opened_with_a_warning(tmp_path: Path):
    folder = tmp_path / "old store"
    SqliteStore(folder).close()
    said: list[str] = []
    SqliteStore(folder, tell=said.append).close()
    assert said == []
    folder.chmod(0o755)
    SqliteStore(folder, tell=said.append).close()
    assert said == []  # what is in it is private
    (folder / FILE_NAME).chmod(0o644)
    SqliteStore(folder, tell=said.append).close()
    [warning] = said
    assert "other users of this machine may read" in warning
    assert warning.endswith(f"chmod -R go= '{folder}'")
    folder.chmod(0o700)
    SqliteStore(folder, tell=said.append).close()
    assert len(said) == 1


# one writer


def test_removing_the_file_of_the_lock_lets_no_second_writer_in(tmp_path: Path):
    with python(HOLD, tmp_path) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        (tmp_path / "writer.lock").unlink()
        for _ in range(2):
            with pytest.raises(StoreError, match=r"is held by another process$"):
                SqliteStore(tmp_path)
        holder.send_signal(signal.SIGKILL)
        holder.wait()
    SqliteStore(tmp_path).close()


def test_a_store_is_held_whatever_it_is_called_meanwhile(tmp_path: Path):
    (tmp_path / "store").mkdir()
    with python(HOLD, tmp_path / "store") as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        (tmp_path / "link").symlink_to(tmp_path / "store")
        (tmp_path / "store").rename(tmp_path / "moved")
        with pytest.raises(StoreError, match="is held by process"):
            SqliteStore(tmp_path / "moved")
        holder.kill()


# a database that is gone


@pytest.mark.parametrize("state", ["missing", "empty"])
def test_a_log_without_its_database_is_refused_and_left_alone(tmp_path: Path, state: str):
    killed_store(tmp_path)
    log = (tmp_path / LOG_NAME).read_bytes()
    assert log
    if state == "missing":
        (tmp_path / FILE_NAME).unlink()
    else:
        (tmp_path / FILE_NAME).write_bytes(b"")
    for _ in range(2):
        with pytest.raises(StoreDamaged, match=f"{FILE_NAME} is {state}.*restore a backup"):
            SqliteStore(tmp_path)
    assert (tmp_path / LOG_NAME).read_bytes() == log


def test_it_is_said_when_a_new_store_is_made_and_only_then(tmp_path: Path):
    said: list[str] = []
    for _ in range(2):
        SqliteStore(tmp_path / "store", tell=said.append).close()
    assert said == [f"made a new store in {tmp_path / 'store'}"]
