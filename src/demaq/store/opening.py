"""Open a store by its location: a folder, or the address of a database on a PostgreSQL server."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from demaq.errors import StoreMissing
from demaq.store.address import Address, is_address
from demaq.store.location import StoreLocation, store_argument
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
    """Open a store for writing. With `wait`, wait until a store on a server has no other writer.

    `tell` is called with lines for the operator.
    """
    if is_address(where):
        from demaq.store.postgresql import PostgresqlStore  # see `demaq.store.address`

        return PostgresqlStore(str(where), wait=wait, now=now, tell=tell)
    return SqliteStore(Path(where), now=now, tell=tell)


def address_for_executors(where: str | Path) -> str:
    """Return an address of the store for processes on this or other machines. It may hold secrets."""
    return Address(str(where)).for_others() if is_address(where) else str(Path(where).resolve())


def open_store_readonly(where: str | Path) -> SqlStore:
    """Open a store for reading, also while another process writes."""
    if is_address(where):
        from demaq.store.postgresql import PostgresqlStore

        return PostgresqlStore.open_readonly(str(where))
    return SqliteStore.open_readonly(Path(where))


def how_to_make(place: StoreLocation) -> str:
    """Return the commands that create a store, for error messages."""
    return f"demaq run APP {store_argument(place)}, or demaq init to make the store alone"


def program_on(store: Store, place: StoreLocation) -> tuple[int, str, dict[str, str]]:
    """Return number, digest and files of the application that ran on a store last. Raises StoreMissing if none did."""
    known = store.program()
    if known is None:
        raise StoreMissing(f"there is no application on {place} yet: {how_to_make(place)}")
    return known


def identify_file(where: str | Path) -> tuple[int, int] | None:
    """Return device and inode of a store's file, None for a store on a server, to detect that it was replaced.

    A process that keeps a store open for reading checks it before each read: a replaced file stays open and never
    changes again. The inode is not reused while the file is open.
    """
    if is_address(where):
        return None
    try:
        found = os.stat(Path(where) / FILE_NAME)
    except OSError:
        return None
    return found.st_dev, found.st_ino
