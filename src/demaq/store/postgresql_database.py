"""The store's tables on a PostgreSQL server: opening, schema upgrades, reconnection, transactions and error messages.

One process at a time writes: the one that holds an advisory lock, which belongs to its connection. A new writer begins
the next term (a fencing token). A writer that has lost its connection goes on only if no other process was the writer
since, and no transaction of an earlier term is committed, even if a proxy has released the lock.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import psycopg
from psycopg.pq import TransactionStatus

from demaq.errors import StoreDamaged, StoreError, StoreHeld, StoreMissing, StoreTakenOver
from demaq.store.address import Address
from demaq.store.sql_statements import STORE_FILES, load_script, load_statements

MIGRATIONS: tuple[str, ...] = tuple([f"postgresql/version_{version}.sql" for version in range(1, 6)])
"""The script at position n upgrades version n to n + 1."""
COPY_ROWS_MIN = 20
"""From so many rows on, COPY is used: it takes more round trips but costs less for each row."""
STANDBY_SECONDS = 1.0
"""How often a standby tries to take the lock."""
RECONNECT_SECONDS_MAX = 10.0
"""How long the server may take to close a connection that was lost, before that is an outage."""
OWN_BACKENDS_MAX = 5
"""How many connections may be lost in a row before the server has closed the first of them."""

_CONNECTION_SQL = load_statements("postgresql", "connection")
_SQL = load_statements("postgresql", *STORE_FILES)
_ALWAYS = ("durable", "no_full_scans", "notice_dead_peers")
_FOR_READERS = ("read_only", "short_locks")
"""Settings of every connection, and of readers' connections."""
_ENDED = ("08", "57P")
"""Prefixes of the error codes with which the server closes a connection."""
_COPY = {_SQL[name]: copy for name, copy in load_statements("postgresql", "bulk").items()}
"""COPY statements by the statements that they replace for many rows."""
_Parameters = Sequence[Any] | dict[str, Any]
_connections: weakref.WeakSet[psycopg.Connection] = weakref.WeakSet()


class ServerDatabase:
    """One connection, used by one caller at a time. Implements Tables."""

    def __init__(
        self, address: Address, *, read_only: bool, wait: bool = False, tell: Callable[[str], None] = lambda line: None
    ) -> None:
        self.name = str(address)
        self.sql = _SQL
        self.lock = threading.RLock()
        self._address = address
        self._read_only = read_only
        self._seconds_max: float | None = None
        """How long a statement may take, if there is a limit."""
        self._closed = False
        self._term: int | None = None
        self._backends: deque[int] = deque(maxlen=OWN_BACKENDS_MAX)
        """The server's processes for our last connections: one of them may still hold the lock after it was lost."""
        self.last_origin: str | None = None
        """The origin that was written last; another one than `origin` if the tables were copied or restored."""
        self.origin = ""
        """Identifies the tables: cluster, timeline, database and table."""
        self._in_transaction = False
        self._queued: list[tuple[str, _Parameters]] = []
        """Statements of a transaction without results: they are sent with the next one that has some."""
        self._connection = self._connect()
        try:
            with self._errors():
                self._prepare(wait, tell)
        except BaseException:
            self._connection.close()
            raise

    def rows(self, statement: str, parameters: _Parameters = ()) -> list[Any]:
        with self.lock, self._errors():
            connection = self._open()
            if not self._queued:
                return connection.execute(statement, parameters, prepare=True).fetchall()
            with connection.pipeline():
                self._send(connection)
                return connection.execute(statement, parameters, prepare=True).fetchall()

    def stream(self, statement: str) -> Iterator[Any]:
        """Yield rows one by one, for large results. Within `reading`."""
        with self._errors(), self._open().cursor(name="demaq_rows") as cursor:
            yield from cursor.execute(statement)

    def execute(self, statement: str, parameters: _Parameters = ()) -> None:
        assert self._in_transaction
        self._queued.append((statement, parameters))

    def execute_many(self, statement: str, parameters: Sequence[Sequence[Any]], shared: Sequence[Any] = ()) -> None:
        if not parameters:
            return
        if shared:
            parameters = [(*shared, *row) for row in parameters]
        if len(parameters) < COPY_ROWS_MIN or statement not in _COPY:
            self.execute(statement, [list(column) for column in zip(*parameters, strict=True)])
            return
        self.copy_rows(_COPY[statement], parameters)

    def copy_rows(self, statement: str, rows: Iterable[Sequence[Any]]) -> None:
        """Run a COPY statement with these rows. Within a transaction."""
        self._flush()
        with self._connection.cursor() as cursor, cursor.copy(statement) as copy:
            for row in rows:
                copy.write_row(row)

    def set_newest(self, number: int) -> None:
        """Set the newest number. Within a transaction."""
        self.execute(_SQL["set_newest_number"], [number])

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Run the block as one transaction, durable at its end."""
        with self.lock, self._errors():
            connection = self._open()
            assert not self._in_transaction, "transactions do not nest"
            self._in_transaction = True
            self._queued = [(_CONNECTION_SQL["begin_write"], ())]
            if self._term is not None:
                self._queued.append((_CONNECTION_SQL["expect_term"], [self._term]))
            try:
                yield
                self.execute(_CONNECTION_SQL["commit"])
                self._flush()
            except BaseException:
                self._queued = []
                _roll_back(connection)
                raise
            finally:
                self._in_transaction = False

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Let all reads in the block see one snapshot."""
        with self.lock, self._errors():
            connection = self._open()
            assert not self._in_transaction, "transactions do not nest"
            connection.execute(_CONNECTION_SQL["begin_read"])
            self._in_transaction = True
            try:
                yield
            finally:
                self._in_transaction = False
                _roll_back(connection)  # there is nothing to commit

    def limit_statements(self, seconds: float) -> None:
        """Let each statement from now on fail with a StoreError if it takes longer."""
        self._seconds_max = seconds
        with self.lock, self._errors():
            self._set_limit(self._open())

    def _set_limit(self, connection: psycopg.Connection) -> None:
        if self._seconds_max is not None:
            connection.execute(_CONNECTION_SQL["limit_statements"], [f"{int(self._seconds_max * 1000)}ms"])

    def close(self) -> None:
        with self.lock:
            self._closed = True
            self._connection.close()

    def _flush(self) -> None:
        with self._connection.pipeline():
            self._send(self._connection)

    def _send(self, connection: psycopg.Connection) -> None:
        for statement, parameters in self._queued:
            connection.execute(statement, parameters, prepare=True)
        self._queued = []

    def _open(self) -> psycopg.Connection:
        if self._closed:
            raise StoreError(f"the store {self.name} is closed")
        # Not within a transaction, whose first statements would be lost.
        if self._connection.closed and not self._in_transaction:
            self._reconnect()
        return self._connection

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            said = self._address.remove_secrets(_first_line(error))
            if isinstance(error, psycopg.errors.DivisionByZero):  # only expect_term divides
                raise StoreTakenOver(f"another writer has taken over the store {self.name}; start anew") from error
            if self._is_lost(error):
                self._connection.close()
                reason = f"the connection was lost; what was asked may not have been stored ({said})"
            elif isinstance(error, psycopg.errors.DataCorrupted | psycopg.errors.IndexCorrupted):
                raise StoreDamaged(f"the store {self.name} is damaged: PostgreSQL says: {said}") from None
            elif isinstance(error, psycopg.errors.DiskFull):
                reason = f"there is no room left on the server's disk; what was asked was not stored ({said})"
            else:
                reason = f"PostgreSQL says: {said}"
            raise StoreError(f"the store {self.name} cannot do it: {reason}") from error

    def _is_lost(self, error: psycopg.Error) -> bool:
        return not self._closed and (self._connection.closed or (error.sqlstate or "").startswith(_ENDED))

    def _connect(self) -> psycopg.Connection:
        try:
            connection = self._address.connect()
            _connections.add(connection)
            self._backends.append(connection.info.backend_pid)
            for name in (*_ALWAYS, *(_FOR_READERS if self._read_only else ())):
                connection.execute(_CONNECTION_SQL[name])
            self._set_limit(connection)
        except psycopg.Error as error:
            said = self._address.remove_secrets(_first_line(error))
            raise StoreError(f"the store {self.name} cannot be reached: {said}") from error
        return connection

    def _one(self, name: str, parameters: _Parameters = ()) -> Any:
        row = self._connection.execute(_CONNECTION_SQL[name], parameters).fetchone()
        assert row is not None
        return row[0]

    def _prepare(self, wait: bool, tell: Callable[[str], None]) -> None:
        encoding = self._one("encoding")
        if encoding != "UTF8":
            raise StoreError(f"the store {self.name} is a database in {encoding}; a store must be in UTF8")
        if self._read_only:
            version = self._check_version()
            if version == 0:
                raise StoreMissing(f"there is no store in {self.name}")
            if version < len(MIGRATIONS):
                raise StoreError(f"the store {self.name} was made by an older Demaq; open it for writing once")
            return
        if wait:
            self._wait_for_lock(tell)
        elif not self._one("try_lock"):
            raise StoreHeld(f"the store {self.name} is held by {self._find_holder()[1]}")
        version = self._check_version()
        if version < len(MIGRATIONS):
            with self.transaction():
                self._flush()
                for migration in MIGRATIONS[version:]:
                    for statement in load_script(migration):
                        self._connection.execute(statement)
                self.execute(_CONNECTION_SQL["set_version"], [len(MIGRATIONS)])
        if version == 0:
            tell(f"made a new store in {self.name}")
        self.last_origin = self._one("written_at")
        self.origin = self._read_origin()
        self._term = self._one("next_term")

    def _read_origin(self) -> str:
        known = []
        for name in ("system_identifier", "timeline", "table_identifier"):
            try:
                known.append(str(self._one(name)))
            except psycopg.errors.InsufficientPrivilege:  # a hosting provider may not allow it
                known.append("?")
        return "/".join(known)

    def write_origin(self) -> None:
        """Store the current origin."""
        with self.transaction():
            self.execute(_CONNECTION_SQL["set_written_at"], [self.origin])

    def _wait_for_lock(self, tell: Callable[[str], None]) -> None:
        """Wait until there is no other writer, also while the server is down."""
        last_reason = ""
        while True:
            try:
                if self._connection.closed:
                    self._connection = self._connect()
                if self._one("try_lock"):
                    return
                pid, who = self._find_holder()
                reason = f"the store {self.name} is held by {who}" if pid is not None else last_reason
            except StoreError as error:
                reason = str(error)
            except psycopg.Error as error:
                if not self._is_lost(error):
                    raise
                self._connection.close()
                reason = f"the store {self.name} has ended the connection"
            if reason != last_reason:
                last_reason = reason
                tell(f"standing by: {reason}")
            time.sleep(STANDBY_SECONDS)

    def _check_version(self) -> int:
        version = int(self._one("version")) if self._one("has_tables") else 0
        if version > len(MIGRATIONS):
            raise StoreError(
                f"the store {self.name} was made by a newer Demaq: it has version {version}, "
                f"this one knows versions up to {len(MIGRATIONS)}"
            )
        return version

    def _find_holder(self) -> tuple[int | None, str]:
        """Return the server's process for the writer, and a description of the writer."""
        row = self._connection.execute(_CONNECTION_SQL["holder"]).fetchone()
        if row is None:
            return None, "another writer"
        pid, name, host = row
        return pid, f"{name or 'a process that does not say its name'} (connection {pid} from {host})"

    def _reconnect(self) -> None:
        """Open a new connection. Raises StoreTakenOver if there was another writer meanwhile."""
        self._connection = self._connect()
        if self._read_only:
            return
        try:
            self._retake_lock()
        except BaseException:
            self._connection.close()
            raise

    def _retake_lock(self) -> None:
        give_up = time.monotonic() + RECONNECT_SECONDS_MAX
        while not self._one("try_lock"):
            pid, who = self._find_holder()
            if pid is not None and pid not in self._backends:
                raise StoreTakenOver(f"another writer has taken over the store {self.name}: {who}")
            if time.monotonic() > give_up:
                raise StoreError(f"the store {self.name} still holds a connection that was lost")
            if pid is not None:
                self._one("end_connection", [pid])  # our own lost connection, which the server has not noticed
            time.sleep(STANDBY_SECONDS / 10)
        if self._one("term") != self._term:
            raise StoreTakenOver(f"another writer has taken over the store {self.name}, and is gone again; start anew")


def _roll_back(connection: psycopg.Connection) -> None:
    if _is_idle(connection):
        return  # the transaction has not begun
    with suppress(psycopg.Error):
        connection.execute(_CONNECTION_SQL["rollback"])
    if not _is_idle(connection):
        connection.close()  # interrupted within a statement: a new connection is in a known state


def _is_idle(connection: psycopg.Connection) -> bool:
    return connection.info.transaction_status == TransactionStatus.IDLE


def _first_line(error: psycopg.Error) -> str:
    return error.diag.message_primary or next(iter(str(error).splitlines()), type(error).__name__)


def _close_in_child() -> None:
    """Close the connections that a forked child shares: it would hold the lock after its parent was killed."""
    for connection in list(_connections):
        if not connection.closed:
            os.close(connection.fileno())
    _connections.clear()


os.register_at_fork(after_in_child=_close_in_child)
