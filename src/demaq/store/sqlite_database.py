"""The store's SQLite file: opening, schema upgrades, transactions and error messages.

The application id identifies a store's file, the user version the schema of its tables. `MIGRATIONS` upgrade each
version to the next, and an empty file to the newest.
"""

from __future__ import annotations

import os
import re
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

from demaq.errors import StoreDamaged, StoreError, StoreMissing
from demaq.files import make_lasting
from demaq.store.checksums import checksum_of
from demaq.store.mark import MarkFile
from demaq.store.sql_statements import STORE_FILES, load_script, load_statements

FILE_NAME = "store.db"
LOG_NAME = f"{FILE_NAME}-wal"
"""SQLite's write-ahead log."""
MIGRATIONS: tuple[str, ...] = tuple([f"sqlite/version_{version}.sql" for version in range(1, 8)])
"""The script at position n upgrades version n to n + 1 and sets the user version."""
COUNTING_VERSION = 4
"""The first version that counts commits."""
BUSY_SECONDS_MAX = 10.0
"""How long to wait for another process, such as a reader that recovers the log after a crash."""

PROGRESS_STEPS = 20_000
"""Instructions of SQLite's virtual machine between two checks of the time."""
WORDS_MAX = 200
"""How many characters of SQLite's error message are shown."""
PAGES_AT_ONCE = 4096
"""How many pages are copied without a pause."""
ROWS_MAX = 256
"""How many rows one statement takes."""
ROWS_FEW = 16
"""Up to here there is a statement for each number of rows, above for each power of two, so that few are cached."""

_ROW = re.compile(r"VALUES \((\?(, \?)*)\)")
_APPLICATION_ID = 1147498833
_CONNECTION_SQL = load_statements("sqlite", "connection")
_SQL = load_statements("sqlite", *STORE_FILES)
_BEGIN, _COMMIT, _ROLLBACK = [_CONNECTION_SQL[name] for name in ("begin_write", "commit", "rollback")]
_ERRORS = (sqlite3.Error, UnicodeDecodeError)
_FULL = "there is no room left for {log}; what was asked was not stored, and can be asked again when there is room"
_NOT_TEXT = "Could not decode to UTF-8"
_REASONS = {
    sqlite3.SQLITE_FULL: _FULL,
    sqlite3.SQLITE_IOERR: "its disk could not be read or written; what was asked may not have been stored",
    sqlite3.SQLITE_NOTADB: "it is not a store of Demaq",
    sqlite3.SQLITE_CORRUPT: "its file is damaged; demaq verify says what that costs",
    sqlite3.SQLITE_BUSY: "another process keeps it busy",
    sqlite3.SQLITE_INTERRUPT: "it took too long",
    sqlite3.SQLITE_CANTOPEN: "its file cannot be opened",
}


class Database:
    """One connection, used by one caller at a time. Implements Tables."""

    def __init__(self, folder: Path, *, read_only: bool, any_version: bool = False, oldest: int | None = None) -> None:
        """With `any_version`, an old database is opened too; only its version may be relied on.

        `oldest` is the oldest version that is opened for reading, the newest one if None.
        """
        self.folder = folder
        self.name = str(folder)
        self.sql = _SQL
        self.lock = threading.RLock()
        self.is_new = False
        """Whether the store was just created."""
        self.version = 0
        self._connection: sqlite3.Connection | None = None
        self._any_version = any_version
        self._oldest = len(MIGRATIONS) if oldest is None else oldest
        self._seconds_max: float | None = None
        """How long a statement may take, if there is a limit."""
        self._give_up_at = 0.0
        self._transaction = _Transaction(self)
        self._changes = 0
        """How many rows were changed before the transaction."""
        self._mark: MarkFile | None = None
        """Where commits are counted, if they are."""
        self._counted: tuple[int, int] | None = None
        """How many commits there were, and the newest number, if that is known: this process is the only writer."""
        self._counting: tuple[int, int] | None = None
        """The same after the transaction, if it has written it."""
        with self._errors():
            self._connection = self._connect_to_read() if read_only else self._connect_to_write()
            try:
                self._prepare(read_only)
            except BaseException:
                self._connection.close()
                raise

    def rows(self, statement: str, parameters: Sequence[Any] | dict[str, Any] = ()) -> list[Any]:
        with self.lock:
            if self._seconds_max is not None:
                self._give_up_at = time.monotonic() + self._seconds_max
            try:
                return self._open().execute(statement, parameters).fetchall()
            except sqlite3.Error as error:
                raise self._translate_error(error) from error

    def execute(self, statement: str, parameters: Sequence[Any] | dict[str, Any] = ()) -> None:
        self._open().execute(statement, parameters)

    def execute_many(self, statement: str, parameters: Sequence[Sequence[Any]], shared: Sequence[Any] = ()) -> None:
        """Run as few statements as possible: around each one sqlite3 releases the GIL and has to wait for it again."""
        if not parameters:
            return
        connection = self._open()
        if len(parameters) == 1:
            connection.execute(statement, (*shared, *parameters[0]))
            return
        start = 0
        while start < len(parameters):
            size = _choose_row_count(len(parameters) - start)
            widened = _widen(statement, size, len(shared))
            if widened is None:
                assert not shared
                connection.executemany(statement, parameters[start:])
                return
            connection.execute(widened, [*shared, *chain.from_iterable(parameters[start : start + size])])
            start += size

    def stream(self, statement: str) -> Iterator[Any]:
        """Yield rows one by one, for large results. Within `reading`."""
        with self._errors():
            yield from self._open().execute(statement)

    def copy_pages(self, target: sqlite3.Connection) -> None:
        """Copy a snapshot of the whole database. Raises sqlite3.Error of either database."""
        with self.lock:
            source = self._open()
            source.execute(_CONNECTION_SQL["begin_read"])
            try:
                source.execute(_SQL["newest_number"]).fetchone()  # takes the snapshot
                source.backup(target, pages=PAGES_AT_ONCE, progress=_allow_interrupt)
            finally:
                with suppress(sqlite3.Error):
                    source.execute(_CONNECTION_SQL["commit"])

    def transaction(self) -> AbstractContextManager[None]:
        """Run the block as one transaction, durable at its end."""
        return self._transaction

    def set_newest(self, number: int) -> None:
        """Set the newest number. Within a transaction."""
        if self._mark is None:
            self.execute(_SQL["set_newest_number"], [number])
        else:
            self._count_commit(number)  # it is in the same row: one statement for both

    def limit_statements(self, seconds: float) -> None:
        """Let each statement from now on fail with a StoreError if it takes longer."""
        self._seconds_max = seconds
        self._open().set_progress_handler(lambda: int(time.monotonic() > self._give_up_at), PROGRESS_STEPS)

    def allow_invalid_text(self) -> None:
        """Let texts be read that are not valid UTF-8, to look for damage."""
        self._open().text_factory = _decode_any_text

    def check_pages(self, seconds_max: float | None) -> list[str]:
        """Return what SQLite finds wrong with its file. Raises TimeoutError if it takes longer."""
        connection = self._open()
        give_up = time.monotonic() + (seconds_max or 0)
        if seconds_max is not None:
            connection.set_progress_handler(lambda: int(time.monotonic() > give_up), PROGRESS_STEPS)
        try:
            found = connection.execute(_CONNECTION_SQL["check_pages"]).fetchall()
        except sqlite3.Error as error:
            if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_INTERRUPT:
                raise TimeoutError from None
            return [str(error)]
        except UnicodeDecodeError:
            return ["SQLite's message is not UTF-8"]
        finally:
            connection.set_progress_handler(None, 0)
        return [str(line) for (line,) in found if line != "ok"]

    def read_schema(self) -> tuple[tuple[str, ...], ...]:
        """Return the statements that created the tables and indexes."""
        with self._errors():
            return tuple(self._open().execute(_CONNECTION_SQL["schema"]).fetchall())

    def rebuild_indexes(self) -> None:
        with self._errors():
            self._open().execute(_CONNECTION_SQL["rebuild_indexes"])

    def start_mark(self) -> None:
        """Count commits from now on, and write their number to the mark."""
        with self.lock, self._errors():
            commits, newest = self._open().execute(_CONNECTION_SQL["counted"]).fetchone()
            self._mark = MarkFile(self.folder / FILE_NAME)
            self._counted = commits, newest
            self._mark.write(commits, newest)
            self._mark.sync()
            make_lasting(self.folder)

    def _begin(self) -> None:
        """Begin a transaction. If that succeeds, the lock is held until its end."""
        self.lock.acquire()
        try:
            connection = self._open()
            connection.execute(_BEGIN)
            self._changes = connection.total_changes
            self._counting = None
        except BaseException as error:
            self.lock.release()
            if isinstance(error, _ERRORS):
                raise self._translate_error(error) from error
            raise

    def _commit(self) -> None:
        try:
            connection = self._open()
            # Not if nothing was changed: the commit would be written and synced for the counter alone.
            if self._mark is not None and self._counting is None and connection.total_changes != self._changes:
                self._count_commit(None)
            connection.execute(_COMMIT)
        except BaseException as error:
            self._roll_back(error)
            raise
        if self._mark is not None and self._counting is not None:
            self._counted = self._counting
            self._mark.write(*self._counted)  # after the commit, because the mark must never be ahead

    def _roll_back(self, error: BaseException) -> None:
        """Roll back because of an error. Raises it with a message for operators if it is the database's."""
        self._counted = None  # a commit that has failed may have taken place
        # After some errors SQLite has rolled back already.
        if self._connection is not None and self._connection.in_transaction:
            with suppress(sqlite3.Error):
                self._connection.execute(_ROLLBACK)
        if isinstance(error, _ERRORS):
            raise self._translate_error(error) from error

    def _count_commit(self, newest: int | None) -> None:
        """Write that there is one more commit, and the newest number; None if it stays."""
        connection = self._open()
        if self._counted is None:
            self._counted = connection.execute(_CONNECTION_SQL["counted"]).fetchone()
        commits, last = self._counted
        self._counting = commits, newest = commits + 1, last if newest is None else newest
        connection.execute(_CONNECTION_SQL["count_commit"], [newest, commits, checksum_of(commits, newest)])

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Let all reads in the block see one snapshot."""
        with self.lock, self._errors():
            connection = self._open()
            connection.execute(_CONNECTION_SQL["begin_read"])
            try:
                yield
            finally:
                with suppress(sqlite3.Error):
                    connection.execute(_CONNECTION_SQL["commit"])

    def close(self) -> None:
        with self.lock, self._errors():
            if self._connection is not None:
                self._connection.close()
                self._connection = None
            if self._mark is not None:
                self._mark.close()
                self._mark = None

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            raise StoreError(f"the store {self.folder} is closed")
        return self._connection

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except _ERRORS as error:
            raise self._translate_error(error) from error

    def _translate_error(self, error: sqlite3.Error | UnicodeDecodeError) -> StoreError:
        """Return the error with a message for operators."""
        code = getattr(error, "sqlite_errorcode", None)
        if isinstance(error, UnicodeDecodeError) or str(error).startswith(_NOT_TEXT):
            # SQLite's message may quote the content of messages, and may itself not be UTF-8.
            return StoreDamaged(f"the store {self.folder} is damaged: a text in it is not UTF-8; see demaq verify")
        # The low byte is the primary result code.
        reason = _REASONS.get(code & 0xFF) if code is not None else None
        damaged = code is not None and code & 0xFF in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT)
        kind = StoreDamaged if damaged else StoreError
        said = (reason or "SQLite says").replace("{log}", str(self.folder / LOG_NAME))
        # On one line and short: for a damaged file SQLite may quote a whole table.
        words = " ".join(str(error).split())[:WORDS_MAX]
        return kind(f"the store {self.folder} cannot do it: {said} ({words})")

    def _connect_to_write(self) -> sqlite3.Connection:
        return self._connect((self.folder / FILE_NAME).absolute().as_uri())

    def _connect_to_read(self) -> sqlite3.Connection:
        file = self.folder / FILE_NAME
        if not file.is_file():
            raise StoreMissing(f"there is no store in {self.folder}")
        address = file.absolute().as_uri()
        connection = self._connect(f"{address}?mode=ro")
        try:
            connection.execute(_CONNECTION_SQL["version"]).fetchone()
        except sqlite3.OperationalError:
            connection.close()
            # Readers share an index of the log, which SQLite cannot create in a read-only folder. Without a log there
            # is no writer, and the file can be read as it is.
            if os.access(self.folder, os.W_OK) or file.with_name(f"{FILE_NAME}-wal").exists():
                raise
            connection = self._connect(f"{address}?mode=ro&immutable=1")
        return connection

    def _connect(self, address: str) -> sqlite3.Connection:
        return sqlite3.connect(
            address,
            uri=True,
            timeout=BUSY_SECONDS_MAX,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=512,
        )

    def _prepare(self, read_only: bool) -> None:
        connection = self._open()
        if not read_only:
            connection.execute(_CONNECTION_SQL["page_size"])
        version = self.version = self._check_version()
        if self._any_version:
            return
        for name in ("cache", "temporary"):
            connection.execute(_CONNECTION_SQL[name])
        if read_only:
            if version == 0:
                raise StoreMissing(f"there is no store in {self.folder}")
            if version < self._oldest:
                raise StoreError(f"the store {self.folder} was made by an older Demaq; open it for writing once")
            return
        if connection.execute(_CONNECTION_SQL["write_ahead"]).fetchone() != ("wal",):
            raise StoreError(f"the store {self.folder} lies on a disk that SQLite's write-ahead log cannot work on")
        for name in ("synchronous", "checkpoint", "log_size"):
            connection.execute(_CONNECTION_SQL[name]).fetchall()
        if version < len(MIGRATIONS):
            with self.transaction():
                for migration in MIGRATIONS[version:]:
                    for statement in load_script(migration):
                        connection.execute(statement)
        if version == 0:
            make_lasting(self.folder)
            self.is_new = True

    def _check_version(self) -> int:
        application, version, tables = self._open().execute(_CONNECTION_SQL["identity"]).fetchone()
        if application != _APPLICATION_ID and (application, version, tables) != (0, 0, 0):
            raise StoreError(f"{self.folder / FILE_NAME} is a database, but not a store of Demaq")
        if version > len(MIGRATIONS):
            raise StoreError(
                f"the store {self.folder} was made by a newer Demaq: it has version {version}, "
                f"this one knows versions up to {len(MIGRATIONS)}"
            )
        return int(version)


class _Transaction:
    """A transaction of a database, as a context manager: a generator in its place takes longer, for each commit."""

    __slots__ = ("_database",)

    def __init__(self, database: Database) -> None:
        self._database = database

    def __enter__(self) -> None:
        self._database._begin()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        try:
            if error is None:
                self._database._commit()
            else:
                self._database._roll_back(error)
        finally:
            self._database.lock.release()


def _choose_row_count(rows: int) -> int:
    return rows if rows <= ROWS_FEW else min(ROWS_MAX, 1 << (rows.bit_length() - 1))


@cache
def _widen(statement: str, rows: int, shared: int) -> str | None:
    """Return a statement with parameters for so many rows; None if it has no VALUES to repeat.

    All rows share their first parameters, of which there are `shared`: each parameter takes time, None most of all.
    """
    row = _ROW.search(statement)
    if row is None:
        return None
    places = ", ".join([*[f"?{number}" for number in range(1, shared + 1)], *row[1].split(", ")[shared:]])
    return f"{statement[: row.start()]}VALUES {', '.join([f'({places})'] * rows)}{statement[row.end() :]}"


def _allow_interrupt(*_: int) -> None:
    """Do nothing: while Python runs, Ctrl-C can interrupt a long copy."""


def _decode_any_text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")
