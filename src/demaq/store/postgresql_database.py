"""The store's tables on a PostgreSQL server: opened, checked, brought up to date, and opened again when a connection is
lost; transactions on them; the server's errors in the operator's words.

One process at a time writes: whoever holds an advisory lock, which belongs to its connection. Whoever is the writer for
the first time takes the next term. So one whose connection was lost goes on only if nobody else was the writer since,
and no transaction of one whose term is over is committed, even where something between it and the server took its lock.
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

MIGRATIONS: tuple[str, ...] = tuple([f"postgresql/version_{version}.sql" for version in range(1, 4)])
"""The script at position n leads from version n to n + 1."""
COPY_ROWS_MIN = 20
"""So many rows travel by COPY, which takes journeys of its own to the server but costs less for each row."""
STANDBY_SECONDS = 1.0
"""How often one who waits to be the writer asks."""
RECONNECT_SECONDS_MAX = 10.0
"""How long the server may take to give up a connection that was lost, before it is an outage."""
OWN_BACKENDS_MAX = 5
"""So many connections may be lost one after the other before the server has given up the first of them."""

_CONNECTION_SQL = load_statements("postgresql", "connection")
_SQL = load_statements("postgresql", *STORE_FILES)
_ALWAYS = ("durable", "no_full_scans", "notice_dead_peers")
_FOR_READERS = ("read_only", "short_locks")
"""What is set on every connection, and on those of readers."""
_ENDED = ("08", "57P")
"""How the codes of errors start with which the server ends a connection."""
_COPY = {_SQL[name]: copy for name, copy in load_statements("postgresql", "bulk").items()}
"""COPY statements by the statements that they replace for many rows."""
_Parameters = Sequence[Any] | dict[str, Any]
_connections: weakref.WeakSet[psycopg.Connection] = weakref.WeakSet()


class ServerDatabase:
    """One connection, one caller at a time."""

    def __init__(
        self,
        address: Address,
        *,
        read_only: bool,
        wait: bool = False,
        tell: Callable[[str], None] = lambda line: None,
    ) -> None:
        self.name = str(address)
        self.sql = _SQL
        self.lock = threading.RLock()
        self._address = address
        self._read_only = read_only
        self._closed = False
        self._term: int | None = None
        self._backends: deque[int] = deque(maxlen=OWN_BACKENDS_MAX)
        """The server's processes for our newest connections: one of them may hold the lock when it is lost."""
        self.written_at: str | None = None
        """Where the tables lay when they were written last."""
        self.lies_at = ""
        """Where they lie now: which database of which cluster in which of its histories, and which table there."""
        self._in_transaction = False
        self._queued: list[tuple[str, _Parameters]] = []
        """Statements of a transaction that nobody waits for: they travel with the next one that has an answer."""
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
        """Rows one after the other, for who reads many; within `reading`."""
        with self._errors(), self._open().cursor(name="demaq_rows") as cursor:
            yield from cursor.execute(statement)

    def execute(self, statement: str, parameters: _Parameters = ()) -> None:
        assert self._in_transaction
        self._queued.append((statement, parameters))

    def execute_many(self, statement: str, parameters: Sequence[Sequence[Any]]) -> None:
        if not parameters:
            return
        if len(parameters) < COPY_ROWS_MIN or statement not in _COPY:
            self.execute(statement, [list(column) for column in zip(*parameters, strict=True)])
            return
        self.copy_rows(_COPY[statement], parameters)

    def copy_rows(self, statement: str, rows: Iterable[Sequence[Any]]) -> None:
        """Within a transaction: let a COPY statement have these rows."""
        self._flush()
        with self._connection.cursor() as cursor, cursor.copy(statement) as copy:
            for row in rows:
                copy.write_row(row)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All of the block or nothing of it, durable at its end. Others see it whole or not at all."""
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
        """What is read in the block is of one moment."""
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
        # Within a transaction a new connection would know nothing of its first half.
        if self._connection.closed and not self._in_transaction:
            self._reconnect()
        return self._connection

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            said = self._address.without_secrets(_first_line(error))
            if isinstance(error, psycopg.errors.DivisionByZero):  # by expect_term, and nowhere else
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
        except psycopg.Error as error:
            said = self._address.without_secrets(_first_line(error))
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
            version = self._checked_version()
            if version == 0:
                raise StoreMissing(f"there is no store in {self.name}")
            if version < len(MIGRATIONS):
                raise StoreError(f"the store {self.name} was made by an older Demaq; open it for writing once")
            return
        if wait:
            self._wait_for_lock(tell)
        elif not self._one("try_lock"):
            raise StoreHeld(f"the store {self.name} is held by {self._holder()[1]}")
        version = self._checked_version()
        if version < len(MIGRATIONS):
            with self.transaction():
                self._flush()
                for migration in MIGRATIONS[version:]:
                    for statement in load_script(migration):
                        self._connection.execute(statement)
                self.execute(_CONNECTION_SQL["set_version"], [len(MIGRATIONS)])
        if version == 0:
            tell(f"made a new store in {self.name}")
        self.written_at = self._one("written_at")
        self.lies_at = self._whereabouts()
        self._term = self._one("next_term")

    def _whereabouts(self) -> str:
        known = []
        for name in ("system_identifier", "timeline", "table_identifier"):
            try:
                known.append(str(self._one(name)))
            except psycopg.errors.InsufficientPrivilege:  # a provider may keep it to himself
                known.append("?")
        return "/".join(known)

    def note_whereabouts(self) -> None:
        """From now on the tables belong where they lie."""
        with self.transaction():
            self.execute(_CONNECTION_SQL["set_written_at"], [self.lies_at])

    def _wait_for_lock(self, tell: Callable[[str], None]) -> None:
        """Stand by until nobody else is the writer, whatever becomes of the server meanwhile."""
        told = ""
        while True:
            try:
                if self._connection.closed:
                    self._connection = self._connect()
                if self._one("try_lock"):
                    return
                pid, who = self._holder()
                reason = f"the store {self.name} is held by {who}" if pid is not None else told
            except StoreError as error:
                reason = str(error)
            except psycopg.Error as error:
                if not self._is_lost(error):
                    raise
                self._connection.close()
                reason = f"the store {self.name} has ended the connection"
            if reason != told:
                told = reason
                tell(f"standing by: {told}")
            time.sleep(STANDBY_SECONDS)

    def _checked_version(self) -> int:
        version = int(self._one("version")) if self._one("has_tables") else 0
        if version > len(MIGRATIONS):
            raise StoreError(
                f"the store {self.name} was made by a newer Demaq: it has version {version}, "
                f"this one knows versions up to {len(MIGRATIONS)}"
            )
        return version

    def _holder(self) -> tuple[int | None, str]:
        """The server's process for the writer, and what is known of the writer."""
        row = self._connection.execute(_CONNECTION_SQL["holder"]).fetchone()
        if row is None:
            return None, "another writer"
        pid, name, host = row
        return pid, f"{name or 'a process that does not say its name'} (connection {pid} from {host})"

    def _reconnect(self) -> None:
        """Go on after a lost connection; a writer only if it still is the one."""
        self._connection = self._connect()
        if self._read_only:
            return
        try:
            self._take_lock_again()
        except BaseException:
            self._connection.close()
            raise

    def _take_lock_again(self) -> None:
        give_up = time.monotonic() + RECONNECT_SECONDS_MAX
        while not self._one("try_lock"):
            pid, who = self._holder()
            if pid is not None and pid not in self._backends:
                raise StoreTakenOver(f"another writer has taken over the store {self.name}: {who}")
            if time.monotonic() > give_up:
                raise StoreError(f"the store {self.name} still holds a connection that was lost")
            if pid is not None:
                self._one("end_connection", [pid])  # our own, which the server does not know to be lost
            time.sleep(STANDBY_SECONDS / 10)
        if self._one("term") != self._term:
            raise StoreTakenOver(f"another writer has taken over the store {self.name}, and is gone again; start anew")


def _roll_back(connection: psycopg.Connection) -> None:
    if _is_idle(connection):
        return  # it has not begun yet
    with suppress(psycopg.Error):
        connection.execute(_CONNECTION_SQL["rollback"])
    if not _is_idle(connection):
        connection.close()  # interrupted in the middle of a statement: a new connection is known to be good


def _is_idle(connection: psycopg.Connection) -> bool:
    return connection.info.transaction_status == TransactionStatus.IDLE


def _first_line(error: psycopg.Error) -> str:
    return error.diag.message_primary or next(iter(str(error).splitlines()), type(error).__name__)


def _let_go_in_child() -> None:
    """A forked child shares the connection and would hold the lock on after its parent was killed."""
    for connection in list(_connections):
        if not connection.closed:
            os.close(connection.fileno())
    _connections.clear()


os.register_at_fork(after_in_child=_let_go_in_child)
