"""Threads that read the store for pages, each with a connection of its own, with limits on number and time.

The node has its own connections and its own process, so it does not wait for any of this.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from demaq.errors import OperatorError, StoreError
from demaq.store.opening import identify_file, open_store_readonly
from demaq.store.sql_store import SqlStore

THREADS = 4
WAITING_MAX = 32
"""So many requests wait for a thread; further ones are refused."""
SECONDS_MAX = 10.0
"""How long a page may take."""
STATEMENT_SECONDS_MAX = 5.0
"""How long one statement may take."""

T = TypeVar("T")


class ConsoleBusy(OperatorError):
    """Too many requests wait, or one took too long."""


class StorePool:
    """Belongs to one event loop."""

    def __init__(self, where: str | Path) -> None:
        self._where = where
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="demaq-console")
        self._local = threading.local()
        self._waiting = 0

    async def run(self, act: Callable[[SqlStore], T], seconds: float = SECONDS_MAX) -> T:
        """Return what `act` returns, called in a thread with a store. Raises ConsoleBusy."""
        if self._waiting >= WAITING_MAX + THREADS:
            raise ConsoleBusy("too many pages are asked for at once; try again in a moment")
        self._waiting += 1
        task = asyncio.get_running_loop().run_in_executor(self._threads, self._call, act)
        task.add_done_callback(self._note_done)
        try:
            return await asyncio.wait_for(asyncio.shield(task), seconds)
        except TimeoutError:
            raise ConsoleBusy("the store takes too long to answer; try again in a moment") from None

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _note_done(self, task: asyncio.Future[T]) -> None:
        self._waiting -= 1
        if not task.cancelled():
            task.exception()  # it was raised where it is waited for, unless that took too long

    def _call(self, act: Callable[[SqlStore], T]) -> T:
        store = self._open()
        try:
            return act(store)
        except StoreError:
            self._local.opened = None
            store.close()
            raise

    def _open(self) -> SqlStore:
        identity = identify_file(self._where)
        known: tuple[SqlStore, object] | None = getattr(self._local, "opened", None)
        if known is not None and known[1] == identity:
            return known[0]
        if known is not None:  # another store was put in its place
            known[0].close()
        store = open_store_readonly(self._where)
        limit = getattr(store, "limit_statements", None)
        if limit is not None:
            limit(STATEMENT_SECONDS_MAX)
        self._local.opened = (store, identity)
        return store
