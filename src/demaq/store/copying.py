"""Copy a snapshot of a store from one database into another.

Rows are copied with their checksums, so verifying the copy verifies the transfer too. The tables and columns are those
of SQLite; PostgreSQL has the same ones, except for the count of commits.
"""

from __future__ import annotations

import sqlite3

from demaq.errors import StoreError
from demaq.store.checksums import checksum_of
from demaq.store.epochs import begin_epoch
from demaq.store.postgresql_database import ServerDatabase
from demaq.store.sql_statements import load_script, load_statements
from demaq.store.sqlite_database import MIGRATIONS, Database

_SQL = load_statements("sqlite", "connection", "copy", "reads")
_OWN_COLUMNS = {("attempts", "number"), ("numbers", "commits"), ("numbers", "checksum")}
"""Columns that each database generates itself."""
_ORDERS = {"messages": " ORDER BY seq", "bodies": " ORDER BY seq", "attempts": " ORDER BY number"}
_MADE_WITH_A_ROW = ("numbers", "epochs")
"""Tables that have a row even in a new store."""


def copy_from_folder(source: Database, target: sqlite3.Connection) -> None:
    """Copy all pages into an empty file."""
    source.copy_pages(target)
    target.execute(_SQL["without_log"])


def copy_from_server(source: ServerDatabase, target: sqlite3.Connection) -> None:
    """Copy all rows into an empty file."""
    for migration in MIGRATIONS:
        for statement in load_script(migration):
            target.execute(statement)
    target.execute(_SQL["begin_write"])
    with source.reading():
        for table, columns in _list_columns(target).items():
            target.execute(f"DELETE FROM {table}")
            places = ", ".join("?" * len(columns))
            insert = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({places})"
            target.executemany(insert, source.stream(_select(table, columns)))
    # A store without a commit would be taken for a new one.
    [newest] = target.execute(_SQL["newest_number"]).fetchone()
    target.execute(_SQL["count_commit"], [newest, 1, checksum_of(1, newest)])
    target.execute(_SQL["commit"])


def copy_to_server(source: Database, target: ServerDatabase) -> None:
    """Copy all rows into an empty store and begin an epoch, in one transaction."""
    with source.reading(), target.transaction():
        tables = _list_columns(source)
        for table in tables:
            if table not in _MADE_WITH_A_ROW and target.rows(f"SELECT 1 FROM {table} LIMIT 1"):
                raise StoreError(f"the store {target.name} is not empty; restore into a database or schema without one")
        for table, columns in tables.items():
            target.execute(f"DELETE FROM {table}")
            rows = source.stream(_select(table, columns))
            target.copy_rows(f"COPY {table} ({', '.join(columns)}) FROM STDIN", rows)
        begin_epoch(target)


def _list_columns(known: sqlite3.Connection | Database) -> dict[str, list[str]]:
    """Return the tables of a store with those of their columns that are copied."""
    rows = known.rows(_SQL["columns"]) if isinstance(known, Database) else known.execute(_SQL["columns"]).fetchall()
    found: dict[str, list[str]] = {}
    for table, column in rows:
        if (table, column) not in _OWN_COLUMNS:
            found.setdefault(table, []).append(column)
    return found


def _select(table: str, columns: list[str]) -> str:
    return f"SELECT {', '.join(columns)} FROM {table}{_ORDERS.get(table, '')}"
