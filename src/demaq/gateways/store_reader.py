"""Read the store of a running node over a separate connection, which waits for no commit."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from demaq.errors import StoreError
from demaq.store.opening import open_store_readonly
from demaq.store.sql_store import SqlStore

T = TypeVar("T")


class StoreReader:
    """May be called from any thread. The connection is made when it is needed first, and anew after an error."""

    def __init__(self, where: str | Path) -> None:
        self._where = where
        self._store: SqlStore | None = None
        self._opening = threading.Lock()

    def read(self, ask: Callable[[SqlStore], T]) -> T:
        """Return what the store says. Raises a StoreError if it says nothing."""
        with self._opening:
            store = self._store = self._store or open_store_readonly(self._where)
        try:
            return ask(store)
        except StoreError:
            self.close()
            raise

    def close(self) -> None:
        with self._opening:
            store, self._store = self._store, None
        if store is not None:
            store.close()
