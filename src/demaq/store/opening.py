"""Open a store by where it is: a folder, or the address of a database on a PostgreSQL server."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from demaq.errors import StoreMissing
from demaq.store.address import Address, is_address
from demaq.store.location import StoreLocation, store_argument
from demaq.store.postgresql import PostgresqlStore
from demaq.store.protocol import Store
from demaq.store.sql_store import SqlStore, system_time
from demaq.store.sqlite import SqliteStore
from demaq.store.sqlite_database import FILE_NAME


def open_store(
    where: str | Path,
    *,
    wait: bool = False,
    now: Callable[[], datetime] = system_time,
    tell: Callable[[str], None] = lambda line: None,
) -> SqlStore:
    """The store, for its only writer. With `wait`, one on a server is opened as soon as its writer is gone.

    `tell` hears what is waited for, and what the operator should know about the store.
    """
    if is_address(where):
        return PostgresqlStore(str(where), wait=wait, now=now, tell=tell)
    return SqliteStore(Path(where), now=now, tell=tell)


def address_for_executors(where: str | Path) -> str:
    """What leads to the store from other processes, on this machine or others. It may hold secrets."""
    return Address(str(where)).for_others() if is_address(where) else str(Path(where).resolve())


def open_store_readonly(where: str | Path) -> SqlStore:
    """The reading half, for other processes."""
    if is_address(where):
        return PostgresqlStore.open_readonly(str(where))
    return SqliteStore.open_readonly(Path(where))


def how_to_make(place: StoreLocation) -> str:
    """Return how a store comes to be, for who has none yet."""
    return f"demaq run APP {store_argument(place)}, or demaq init to make the store alone"


def program_on(store: Store, place: StoreLocation) -> tuple[int, str, dict[str, str]]:
    """Return number, digest and files of the application that ran on a store last. Raise if there is none yet."""
    known = store.program()
    if known is None:
        raise StoreMissing(f"there is no application on {place} yet: {how_to_make(place)}")
    return known


def identify_file(where: str | Path) -> tuple[int, int] | None:
    """Return what tells the file of a store from another one that is put in its place; None where it has none.

    Who keeps a store open for reading asks again before it reads: a file that was replaced, by a backup that was
    restored or after a crash in a test, stays open and never changes again. No other file gets its number meanwhile.
    """
    if is_address(where):
        return None
    try:
        found = os.stat(Path(where) / FILE_NAME)
    except OSError:
        return None
    return found.st_dev, found.st_ino
