"""Back a store up, while a node runs or not, and restore it.

A backup is a snapshot in a new folder: a store on SQLite without a mark, also of a store on PostgreSQL. Because there
is no mark, an epoch begins when it is opened, by `demaq restore` or directly: new messages of a restored store differ
from those that were sent after the backup.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from demaq.errors import StoreDamaged, StoreError
from demaq.files import PRIVATE_FILE, make_lasting
from demaq.store.address import Address
from demaq.store.continuity import examine
from demaq.store.copying import copy_from_folder, copy_from_server, copy_to_server
from demaq.store.epochs import Epochs
from demaq.store.folder import expect_database
from demaq.store.location import StoreLocation, store_argument
from demaq.store.postgresql_database import ServerDatabase
from demaq.store.row_verification import VerificationReport, verify_tables
from demaq.store.sql_statements import load_statements
from demaq.store.sqlite import SqliteStore
from demaq.store.sqlite_database import COUNTING_VERSION, FILE_NAME, Database
from demaq.store.store_verification import verify_folder, verify_store

_SQL = load_statements("sqlite", "connection", "copy")
_NO_ROOM = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


@dataclass(frozen=True, slots=True)
class Backup:
    """What a backup holds."""

    messages: int
    newest: int
    """The newest number."""
    size: int
    """In bytes."""


def back_up(place: StoreLocation, destination: Path) -> Backup:
    """Write a backup into a new folder. Raises StoreDamaged if the store is damaged."""
    with _create_folder(destination) as unfinished:
        file = unfinished / FILE_NAME
        if place.is_on_server:
            server = ServerDatabase(Address(str(place.where)), read_only=True)
            with closing(server), _create_database(file, place.name) as target:
                copy_from_server(server, target)
        else:
            _copy_folder(place.folder, file)
        report = verify_folder(unfinished)
        _expect_no_findings(report, f"the store {place} is damaged, so no backup was made", store_argument(place))
        return Backup(report.messages, report.newest, file.stat().st_size)


def restore(backup: Path, place: StoreLocation) -> VerificationReport:
    """Create a store from a backup. Return what was restored. Raises StoreDamaged if the backup is damaged."""
    if not (backup / FILE_NAME).is_file():
        raise StoreError(f"there is no backup in {backup}")
    report = verify_store(backup)
    _expect_no_findings(
        report,
        f"the backup {backup} is damaged, so nothing was restored",
        f"{store_argument(backup)}; restore another one",
    )
    return _restore_to_server(backup, place) if place.is_on_server else _restore_to_folder(backup, place)


def _restore_to_folder(backup: Path, place: StoreLocation) -> VerificationReport:
    with _create_folder(place.folder) as unfinished:
        _copy_folder(backup, unfinished / FILE_NAME)
        store = SqliteStore(unfinished)
        try:
            with closing(Database(backup, read_only=True, oldest=COUNTING_VERSION)) as former:
                if store.identity() == Epochs(former.rows(former.sql["epochs"])).current:
                    store.begin_epoch()
        finally:
            store.close()
        report = verify_folder(unfinished)
        _expect_no_findings(report, f"{backup} was damaged on the way to {place}", store_argument(backup))
        return report


def _restore_to_server(backup: Path, place: StoreLocation) -> VerificationReport:
    with (
        closing(Database(backup, read_only=True, oldest=COUNTING_VERSION)) as source,
        closing(ServerDatabase(Address(str(place.where)), read_only=False)) as target,
    ):
        copy_to_server(source, target)
        target.write_origin()
        report = verify_tables(target)
    _expect_no_findings(report, f"{backup} was damaged on the way to {place}", store_argument(place))
    return report


def _copy_folder(folder: Path, file: Path) -> None:
    """Copy the database of a store in a folder into a new file. Raises StoreDamaged if commits are missing."""
    if folder.is_dir():
        expect_database(folder)
    with (
        closing(Database(folder, read_only=True, oldest=COUNTING_VERSION)) as source,
        _create_database(file, str(folder)) as target,
    ):
        examine(folder)
        copy_from_folder(source, target)


def _expect_no_findings(report: VerificationReport, what: str, where: str) -> None:
    """Raise StoreDamaged if there are findings."""
    if report.findings:
        raise StoreDamaged(f"{what}. {report.first_finding}. To see all of it: demaq verify {where}")


@contextmanager
def _create_folder(folder: Path) -> Iterator[Path]:
    """Yield a temporary folder, private to its owner, which is renamed if the block succeeds."""
    if os.path.lexists(folder):
        raise StoreError(f"{folder} exists already; give the name of a new folder")
    unfinished = None
    try:
        parent = folder.absolute().parent
        parent.mkdir(parents=True, exist_ok=True)
        unfinished = Path(tempfile.mkdtemp(prefix=f".{folder.absolute().name}.unfinished-", dir=parent))
        yield unfinished
        make_lasting(unfinished)
        unfinished.rename(folder)
        make_lasting(folder)
    except OSError as error:
        raise StoreError(f"{folder} cannot be written: {error.strerror or error}") from error
    finally:
        if unfinished is not None:
            shutil.rmtree(unfinished, ignore_errors=True)


@contextmanager
def _create_database(file: Path, source: str) -> Iterator[sqlite3.Connection]:
    """Yield a new database file, which is durable if the block succeeds."""
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE_FILE)
    os.close(descriptor)
    try:
        with closing(sqlite3.connect(file, isolation_level=None)) as target:
            for name in ("page_size", "no_journal", "no_sync"):
                target.execute(_SQL[name]).fetchall()
            yield target
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in _NO_ROOM:
            raise StoreError(f"{file} could not be written: the disk is full or faulty ({error})") from error
        if code in _DAMAGED:
            raise StoreDamaged(f"the store {source} is damaged ({error}); see demaq verify") from error
        raise StoreError(f"{source} could not be copied: SQLite says: {error}") from error
    except UnicodeDecodeError as error:
        raise StoreDamaged(f"the store {source} is damaged: a text in it is not UTF-8; see demaq verify") from error
    with file.open("rb") as written:
        os.fsync(written.fileno())
