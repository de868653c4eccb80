"""The store on PostgreSQL keeps the contract."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from types import ModuleType

import pytest

from demaq.errors import StoreError
from demaq.store import postgresql_database
from demaq.store.postgresql import PostgresqlStore
from demaq.store.protocol import Postponed, Step
from tests.support.store.contract import FOREVER, MORNING, Clock, StoreContract, new
from tests.support.store.operator_contract import DurableOperatorContract
from tests.support.store.sequence_contract import FIRST, NEXT, DurableSequenceContract, everything
from tests.support.store.server import Server


class TestPostgresqlStore(StoreContract, DurableSequenceContract, DurableOperatorContract):
    @pytest.fixture
    def where(self, server: Server) -> str:
        return server.address(server.new_schema())

    @pytest.fixture
    def store(self, where: str, clock: Clock) -> Iterator[PostgresqlStore]:
        store = PostgresqlStore(where, now=clock)
        yield store
        store.close()

    @pytest.fixture
    def before(self) -> tuple[ModuleType, int]:
        return postgresql_database, 3

    @pytest.fixture
    def before_operators(self) -> tuple[ModuleType, int]:
        return postgresql_database, 4

    @pytest.fixture
    def old(self, server: Server) -> str:
        return server.address(server.new_schema())

    def test_a_removed_message_leaves_no_row(self, store: PostgresqlStore):
        slices = (("s", "k"), ("t", "k"))
        store.append([new(slices=slices, entries=(("i", "v"), ("i", "w"))) for _ in range(3)])
        store.commit([Step(processed=1, resets=slices[:1]), Step(processed=2, resets=slices[1:]), Step(processed=3)])
        assert store.collect_garbage(FOREVER, 9) == 3
        for table in ("messages", "bodies", "slice_members", "index_entries"):
            assert store._database.rows(f"SELECT * FROM {table}") == []

    def test_a_fault_at_one_message_of_several_leaves_all_of_them_as_they_were(self, store: PostgresqlStore):
        store.append([new("out", undelivered=True, priority=None) for _ in range(4)])
        store.commit([Step(processed=4, delivered=4)])
        store.postpone([Postponed(message=seq, due=FOREVER) for seq in (1, 2, 3)])
        before = store.unsent(None, None, 9)
        due = (MORNING - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
        for seq in (3, 4):
            change(store, f"ALTER TABLE outbox ADD CONSTRAINT a_fault CHECK (seq <> {seq} OR due <> {due})")
            with pytest.raises(StoreError, match="a_fault"):
                store.send_again([1, 2, 3, 4], MORNING)
            assert store.unsent(None, None, 9) == before
            change(store, "ALTER TABLE outbox DROP CONSTRAINT a_fault")
        assert store.send_again([1, 2, 3, 4], MORNING) == []
        assert [each.due for each in store.unsent(None, None, 9)] == [MORNING] * 4

    @pytest.mark.parametrize(
        ("table", "condition"),
        [("sequences", "name <> 'u'"), ("sequence_messages", "number <> 5"), ("replay_keys", "key <> 'l'")],
    )
    def test_a_fault_at_one_sequence_leaves_messages_and_sequences_as_they_were(
        self, store: PostgresqlStore, table: str, condition: str
    ):
        store.append([new()], FIRST)
        before = everything(store), store.stored(None, 0, 9), store.snapshot()
        change(store, f"ALTER TABLE {table} ADD CONSTRAINT a_fault CHECK ({condition})")
        for refused in (
            lambda: store.append([new()], NEXT),
            lambda: store.commit([Step(processed=1)], changes=NEXT),
            lambda: store.change_sequences(NEXT),
        ):
            with pytest.raises(StoreError, match="a_fault"):
                refused()
            assert (everything(store), store.stored(None, 0, 9), store.snapshot()) == before
        change(store, f"ALTER TABLE {table} DROP CONSTRAINT a_fault")
        store.commit([Step(processed=1)], changes=NEXT)
        assert everything(store) != before[0]


def change(store: PostgresqlStore, statement: str) -> None:
    with store._database.transaction():
        store._database.execute(statement)
