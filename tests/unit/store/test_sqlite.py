"""The store on SQLite keeps the contract."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from demaq.store import SqliteStore, sqlite_database
from demaq.store.protocol import Step
from tests.support.store.contract import FOREVER, Clock, StoreContract, new
from tests.support.store.operator_contract import DurableOperatorContract
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

    def test_a_removed_message_leaves_no_row(self, store: SqliteStore):
        slices = (("s", "k"), ("t", "k"))
        store.append([new(slices=slices, entries=(("i", "v"), ("i", "w"))) for _ in range(3)])
        store.commit([Step(processed=1, resets=slices[:1]), Step(processed=2, resets=slices[1:]), Step(processed=3)])
        assert store.collect_garbage(FOREVER, 9) == 3
        for table in ("messages", "bodies", "slice_members", "index_entries"):
            assert store._database.rows(f"SELECT * FROM {table}") == []
