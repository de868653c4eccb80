"""The store on PostgreSQL keeps the contract."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from demaq.store.postgresql import PostgresqlStore
from demaq.store.protocol import Step
from tests.store.contract import FOREVER, Clock, StoreContract, new
from tests.store.server import Server


class TestPostgresqlStore(StoreContract):
    @pytest.fixture
    def store(self, server: Server, clock: Clock) -> Iterator[PostgresqlStore]:
        store = PostgresqlStore(server.address(server.new_schema()), now=clock)
        yield store
        store.close()

    def test_a_removed_message_leaves_no_row_behind(self, store: PostgresqlStore):
        slices = (("s", "k"), ("t", "k"))
        store.append([new(slices=slices, entries=(("i", "v"), ("i", "w"))) for _ in range(3)])
        store.commit([Step(processed=1, resets=slices[:1]), Step(processed=2, resets=slices[1:]), Step(processed=3)])
        assert store.collect_garbage(FOREVER, 9) == 3
        for table in ("messages", "bodies", "slice_members", "index_entries"):
            assert store._database.rows(f"SELECT * FROM {table}") == []
