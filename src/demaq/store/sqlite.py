"""A store in one folder, on SQLite: acknowledged commits survive kill -9 and power loss.

One process writes; any number of others read at the same time: `SqliteStore.open_readonly`.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Self

from demaq.store.continuity import examine
from demaq.store.folder import create_database_file, create_store_folder, expect_database, warn_about_mode
from demaq.store.location import store_argument
from demaq.store.sql_store import SqlStore, system_time
from demaq.store.sqlite_database import Database
from demaq.store.store_verification import expect_intact
from demaq.store.writer_lock import WriterLock

VERIFY_SECONDS_MAX = 5.0
"""How long a store is verified when it is opened after an unclean stop."""


class SqliteStore(SqlStore):
    """A store in a folder. `now` returns the time at which messages retire."""

    _lock: WriterLock | None
    _database: Database

    def __init__(
        self,
        folder: Path,
        *,
        now: Callable[[], datetime] = system_time,
        tell: Callable[[str], None] = lambda line: None,
    ) -> None:
        """`tell` is called with lines for the operator."""
        create_store_folder(folder)
        self._lock = WriterLock(folder)
        try:
            expect_database(folder)
            create_database_file(folder)
            left = examine(folder)
            if not left.was_closed:
                self._verify(folder, tell)
            database = Database(folder, read_only=False)
            super().__init__(database, now=now, read_only=False)
            if database.is_new:
                tell(f"made a new store in {folder}")
            if left.epoch_ends is not None:
                self.begin_epoch()
                newest = self.snapshot()
                tell(f"the store {folder} begins a new epoch after number {newest:,}: {left.epoch_ends}")
            database.start_mark()
            warning = warn_about_mode(folder)
            if warning is not None:
                tell(f"warning: {warning}")
            self._recover()
        except BaseException:
            self.close()
            raise

    @classmethod
    def open_readonly(cls, folder: Path) -> Self:
        """Open the store for reading, whether or not a node runs on it."""
        store = cls.__new__(cls)
        store._lock = None
        SqlStore.__init__(store, Database(folder, read_only=True), now=system_time, read_only=True)
        return store

    def _verify(self, folder: Path, tell: Callable[[str], None]) -> None:
        """Look for damage before anything is written, after an unclean stop."""
        report = expect_intact(folder, VERIFY_SECONDS_MAX)
        if not report.is_complete:
            tell(
                f"the last stop was not clean: no damage was found in {VERIFY_SECONDS_MAX:g} s; to look at everything: "
                f"demaq verify {store_argument(folder)}"
            )

    def close(self) -> None:
        if hasattr(self, "_database"):  # else opening has failed
            super().close()
        if self._lock is not None:
            self._lock.release()
