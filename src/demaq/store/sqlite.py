"""A store in one folder, on SQLite: what it has said yes to survives kill -9 and power loss.

One process writes, any number read beside it: `SqliteStore.open_readonly`.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Self

from demaq.store.database import Database
from demaq.store.folder import expect_database, make_file, make_folder, warn_about_mode
from demaq.store.sql_store import SqlStore, system_time
from demaq.store.writer_lock import WriterLock


class SqliteStore(SqlStore):
    """The protocol of a store, kept in a folder. `now` says when messages retire."""

    _lock: WriterLock | None
    _database: Database

    def __init__(
        self,
        folder: Path,
        *,
        now: Callable[[], datetime] = system_time,
        tell: Callable[[str], None] = lambda line: None,
    ) -> None:
        """`tell` hears what the operator should know about the store."""
        make_folder(folder)
        self._lock = WriterLock(folder)
        try:
            expect_database(folder)
            make_file(folder)
            database = Database(folder, read_only=False)
            super().__init__(database, now=now, read_only=False)
            if database.is_new:
                tell(f"made a new store in {folder}")
            warning = warn_about_mode(folder)
            if warning is not None:
                tell(f"warning: {warning}")
            self._make_ready()
        except BaseException:
            self._lock.release()
            raise

    @classmethod
    def open_readonly(cls, folder: Path) -> Self:
        """The reading half, for other processes: beside a running node, or of a store at rest."""
        store = cls.__new__(cls)
        store._lock = None
        SqlStore.__init__(store, Database(folder, read_only=True), now=system_time, read_only=True)
        return store

    def close(self) -> None:
        super().close()
        if self._lock is not None:
            self._lock.release()
