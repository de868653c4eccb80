"""A store on a PostgreSQL server, for nodes and executors on several machines.

One process writes; any number of others read at the same time: `PostgresqlStore.open_readonly`. When the writer ends,
for whatever reason, a standby may take over.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Self

from demaq.store.address import Address
from demaq.store.postgresql_database import ServerDatabase
from demaq.store.sql_store import SqlStore, system_time


class PostgresqlStore(SqlStore):
    """A store in the current schema of a database. `now` returns the time at which messages retire."""

    def __init__(
        self,
        address: str,
        *,
        wait: bool = False,
        now: Callable[[], datetime] = system_time,
        tell: Callable[[str], None] = lambda line: None,
    ) -> None:
        """If there is another writer: wait until it ends with `wait`, else raise StoreHeld."""
        database = ServerDatabase(Address(address), read_only=False, wait=wait, tell=tell)
        super().__init__(database, now=now, read_only=False)
        try:
            if database.last_origin not in (None, database.origin):
                self.begin_epoch()
                tell(
                    f"the store {database.name} begins a new epoch after number {self.snapshot():,}: it was copied, "
                    "restored, or a standby of its server has taken over"
                )
            if database.last_origin != database.origin:
                database.write_origin()
            self._recover()
        except BaseException:
            self.close()
            raise

    @classmethod
    def open_readonly(cls, address: str) -> Self:
        """Open the store for reading, whether or not a node runs on it."""
        store = cls.__new__(cls)
        SqlStore.__init__(store, ServerDatabase(Address(address), read_only=True), now=system_time, read_only=True)
        return store
