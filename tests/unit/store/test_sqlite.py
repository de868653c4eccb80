"""The store on SQLite keeps the contract."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from demaq.store import SqliteStore
from demaq.store.protocol import Step
from tests.support.store.contract import FOREVER, Clock, StoreContract, new


class TestSqliteStore(StoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path, clock: Clock) -> Iterator[SqliteStore]:
        store = SqliteStore(tmp_path / "store", now=clock)
        yield store
        store.close()

    def test_a_removed_message_leaves_no_row(self, store: SqliteStore):
        slices = (("s", "k"), ("t", "k"))
        store.append([new(slices=slices, entries=(("i", "v"), ("i", "w"))) for _ in range(3)])
        store.commit([Step(processed=1, resets=slices[:1]), Step(processed=2, resets=slices[1:]), Step(processed=3)])
        assert store.collect_garbage(FOREVER, 9) == 3
        for table in ("messages", "bodies", "slice_members", "index_entries"):
            assert store._database.rows(f"SELECT * FROM {table}") == []
