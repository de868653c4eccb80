"""The store on SQLite keeps the contract."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from types import ModuleType

import pytest

from demaq.errors import StoreMissing
from demaq.store import SqliteStore, sqlite_database
from demaq.store.message_scan import Scan
from demaq.store.protocol import Step
from demaq.store.store_verification import verify_store
from tests.support.store.contract import FOREVER, Clock, StoreContract, new
from tests.support.store.operator_contract import DurableOperatorContract, scan_all
from tests.support.store.sequence_contract import DurableSequenceContract


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new store: a copy of it is as good as another new one, and takes a fifth of the time."""
    folder = tmp_path_factory.mktemp("empty")
    SqliteStore(folder).close()
    return folder


class TestSqliteStore(StoreContract, DurableSequenceContract, DurableOperatorContract):
    @pytest.fixture
    def where(self, tmp_path: Path) -> Path:
        return tmp_path / "store"

    @pytest.fixture
    def store(self, empty: Path, where: Path, clock: Clock) -> Iterator[SqliteStore]:
        shutil.copytree(empty, where)
        store = SqliteStore(where, now=clock)
        yield store
        store.close()

    @pytest.fixture
    def before(self) -> tuple[ModuleType, int]:
        return sqlite_database, 4

    @pytest.fixture
    def before_operators(self) -> tuple[ModuleType, int]:
        return sqlite_database, 5

    @pytest.fixture
    def old(self, tmp_path: Path) -> Path:
        return tmp_path / "old"

    def test_a_store_from_before_the_index_of_kept_messages_gets_it(
        self, old: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
    ):
        with monkeypatch.context() as former:
            former.setattr(sqlite_database, "MIGRATIONS", sqlite_database.MIGRATIONS[:6])
            with closing(SqliteStore(old, now=clock)) as made:
                made.append([new(slices=(("s", "k"),)), new(), new("other"), new()])
                made.commit([Step(processed=1), Step(processed=2), Step(processed=3)])
                expected = made.stored("orders", 0, 9), made.stored("other", 0, 9), made.stored(None, 0, 9)
        with closing(SqliteStore(old, now=clock)) as upgraded:
            assert (
                upgraded.stored("orders", 0, 9),
                upgraded.stored("other", 0, 9),
                upgraded.stored(None, 0, 9),
            ) == expected
            assert [message.retired for message in expected[0]] == [None, 6, None]
            upgraded.commit([Step(processed=4)])
            assert scan_all(upgraded, Scan(queue="orders", rows_max=1)) == [1, 2, 4]
            assert scan_all(upgraded, Scan(queue="orders", rows_max=2, backwards=True)) == [4, 2, 1]
            assert upgraded._database.rows("SELECT seq FROM messages INDEXED BY messages_kept WHERE retired > 0") == [
                (2,), (4,), (3,),
            ]  # fmt: skip
        assert verify_store(old).findings == []

    def test_a_removed_message_leaves_no_row(self, store: SqliteStore):
        slices = (("s", "k"), ("t", "k"))
        store.append([new(slices=slices, entries=(("i", "v"), ("i", "w"))) for _ in range(3)])
        store.commit([Step(processed=1, resets=slices[:1]), Step(processed=2, resets=slices[1:]), Step(processed=3)])
        assert store.collect_garbage(FOREVER, 9) == 3
        for table in ("messages", "bodies", "slice_members", "index_entries"):
            assert store._database.rows(f"SELECT * FROM {table}") == []


def test_a_store_that_is_just_being_created_is_there_or_missing(tmp_path: Path):
    for number in range(30):
        folder = tmp_path / str(number)
        creator = threading.Thread(target=lambda folder=folder: SqliteStore(folder).close())
        creator.start()
        try:
            while True:
                with suppress(StoreMissing):
                    SqliteStore.open_readonly(folder).close()
                    break
        finally:
            creator.join()
