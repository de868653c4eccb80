"""A store on a PostgreSQL server, for nodes and executors on several machines.

One process writes, any number read beside it: `PostgresqlStore.open_readonly`. Where the writer ends, however it does,
one that waits may take over.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Self

from demaq.store.address import Address
from demaq.store.postgresql_database import ServerDatabase
from demaq.store.sql_store import SqlStore, system_time


class PostgresqlStore(SqlStore):
    """The protocol of a store, kept in the current schema of a database. `now` says when messages retire."""

    def __init__(
        self,
        address: str,
        *,
        wait: bool = False,
        now: Callable[[], datetime] = system_time,
        tell: Callable[[str], None] = lambda line: None,
    ) -> None:
        """With `wait`, open it as soon as nobody else is its writer; without, refuse while somebody is."""
        database = ServerDatabase(Address(address), read_only=False, wait=wait, tell=tell)
        super().__init__(database, now=now, read_only=False)
        try:
            if database.written_at not in (None, database.lies_at):
                self.begin_epoch()
                tell(
                    f"the store {database.name} begins a new epoch after number {self.snapshot():,}: it was copied, "
                    "restored, or a standby of its server has taken over"
                )
            if database.written_at != database.lies_at:
                database.note_whereabouts()
            self._make_ready()
        except BaseException:
            self.close()
            raise

    @classmethod
    def open_readonly(cls, address: str) -> Self:
        """The reading half, for other processes: beside a running node, or of a store at rest."""
        store = cls.__new__(cls)
        SqlStore.__init__(store, ServerDatabase(Address(address), read_only=True), now=system_time, read_only=True)
        return store
