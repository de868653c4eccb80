"""Verify a store in a folder or on a server, while a node runs or not, without changing it."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from functools import cache
from pathlib import Path

from demaq.errors import StoreDamaged
from demaq.store.address import Address, is_address
from demaq.store.continuity import examine
from demaq.store.folder import expect_database
from demaq.store.location import store_argument
from demaq.store.row_verification import VerificationReport, verify_tables
from demaq.store.sql_statements import load_script, load_statements
from demaq.store.sqlite_database import COUNTING_VERSION, FILE_NAME, MIGRATIONS, Database

FINDINGS_SHOWN_MAX = 20

_SQL = load_statements("sqlite", "connection")


def verify_store(where: str | Path, seconds_max: float | None = None) -> VerificationReport:
    """Return what is damaged in a store. The report is incomplete if it takes longer than `seconds_max`."""
    if is_address(where):
        from demaq.store.postgresql_database import ServerDatabase  # see `demaq.store.address`

        with closing(ServerDatabase(Address(str(where)), read_only=True)) as server:
            return verify_tables(server, seconds_max)
    folder = Path(where)
    lost = None
    if folder.is_dir():
        expect_database(folder)
    if (folder / FILE_NAME).exists():
        try:
            examine(folder)  # before the database is read, because a node may commit in between
        except StoreDamaged as error:
            lost = str(error)
    report = verify_folder(folder, seconds_max)
    if lost is not None:
        report.find("commits are missing", lost)
    return report


def verify_folder(folder: Path, seconds_max: float | None = None) -> VerificationReport:
    """Return what is damaged in the database of a store in a folder.

    One of an older version is verified as it is: it must be known to be intact before it is brought up to date.
    """
    began = time.monotonic()
    with closing(Database(folder, read_only=True, oldest=COUNTING_VERSION)) as database:
        database.allow_invalid_text()
        missing = _list_tables(len(MIGRATIONS)) - _list_tables(database.version)
        report = verify_tables(database, seconds_max, missing=missing)
        left = None if seconds_max is None else began + seconds_max - time.monotonic()
        if report.is_complete:
            _verify_file(database, report, left)
    return report


def expect_intact(folder: Path, seconds_max: float) -> VerificationReport:
    """Raise StoreDamaged if damage is found within so many seconds."""
    report = verify_folder(folder, seconds_max)
    if report.findings:
        raise StoreDamaged(
            f"the store {folder} is damaged. {report.first_finding}. Nothing was changed. To see all of it: "
            f"demaq verify {store_argument(folder)}; restore a backup (demaq restore), or: "
            f"demaq verify --accept-loss {store_argument(folder)}"
        )
    return report


def _verify_file(database: Database, report: VerificationReport, seconds_max: float | None) -> None:
    """Check SQLite's pages and indexes, and that the schema is the expected one."""
    try:
        problems = database.check_pages(seconds_max)
    except TimeoutError:
        report.is_complete = False
        return
    if problems:
        report.find(f"the file {FILE_NAME} is damaged in {len(problems)} places", "messages may be lost or not found")
    if database.read_schema() != _make_expected_schema(database.version):
        report.find(f"the tables of {FILE_NAME} are not those that were made", "what is read from them is not certain")


def _list_tables(version: int) -> frozenset[str]:
    """Return the names of the tables of a version."""
    return frozenset([name for kind, name, *_ in _make_expected_schema(version) if kind == "table"])


@cache
def _make_expected_schema(version: int) -> tuple[tuple[str, ...], ...]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        for migration in MIGRATIONS[:version]:
            for statement in load_script(migration):
                connection.execute(statement)
        return tuple(connection.execute(_SQL["schema"]).fetchall())
