"""Backups of stores on PostgreSQL, and from one kind of store to the other."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from demaq.errors import StoreError
from demaq.store.backup import back_up, restore
from demaq.store.location import StoreLocation, place_of
from demaq.store.opening import open_store
from tests.support.store.backup_contract import BackupContract, contents, fill, without_outgoing_sequences
from tests.support.store.server import Server


@pytest.fixture
def schema(server: Server) -> str:
    return server.new_schema()


@pytest.fixture
def place(server: Server, schema: str) -> StoreLocation:
    return place_of(server.address(schema))


class TestBackupOfPostgresql(BackupContract):
    @pytest.fixture
    def place(self, server: Server) -> StoreLocation:
        return place_of(server.address(server.new_schema()))

    @pytest.fixture
    def other_place(self, server: Server) -> StoreLocation:
        return place_of(server.address(server.new_schema()))


@pytest.mark.parametrize("to_server", [True, False])
def test_a_store_moves_from_one_kind_of_database_to_the_other(place: StoreLocation, tmp_path: Path, to_server: bool):
    folder = place_of(tmp_path / "store")
    source, target = (folder, place) if to_server else (place, folder)
    with closing(open_store(source.where)) as store:
        fill(store)
    back_up(source, tmp_path / "backup")
    restore(tmp_path / "backup", target)
    expected = contents(source.where)
    assert contents(target.where) == without_outgoing_sequences(expected)
    with closing(open_store(target.where)) as store:
        assert store.collect_garbage(store._now(), 100) > 0
        assert store.pending(1)
    assert contents(source.where) == expected


def test_every_table_is_in_a_backup(server: Server, schema: str, place: StoreLocation, tmp_path: Path):
    open_store(place.where).close()
    found = server.run(
        f"SELECT table_name FROM information_schema.tables WHERE table_schema = '{schema}' AND table_type = 'BASE TABLE'"
    )
    assert {name for (name,) in found} == {*contents(place.where), "epochs", "demaq_store"}


def test_a_store_that_holds_something_is_not_restored_into(place: StoreLocation, tmp_path: Path):
    with closing(open_store(place.where)) as store:
        store.load_collection("prices", ["<p/>"])
        identity = store.identity()
    back_up(place, tmp_path / "backup")
    with pytest.raises(StoreError, match="is not empty; restore into a database or schema without one"):
        restore(tmp_path / "backup", place)
    with closing(open_store(place.where)) as store:
        assert store.identity() == identity
        with pytest.raises(StoreError, match="is held by"):
            restore(tmp_path / "backup", place)
