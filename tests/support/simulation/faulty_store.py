"""A store on SQLite whose commits fail now and then, and a journal of those that took place.

Faults are raised where SQLite would raise them. A commit may fail before it takes place, or after: then its caller does
not know that it did.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from demaq.engine.arrivals import Arrivals
from demaq.store.commit import CommitBuilder
from demaq.store.protocol import Committed, NewMessage, Postponed, Step
from demaq.store.sql_store import SqlStore
from demaq.store.sqlite_database import _CONNECTION_SQL, BUSY_SECONDS_MAX, Database
from tests.support.simulation.scheduler import Scheduler

_BEGIN, _COMMIT, _ROLLBACK = (_CONNECTION_SQL[name] for name in ("begin_write", "commit", "rollback"))


@dataclass
class Entry:
    """One thing that a commit changed: a message from outside, a step, or a restart, at which nothing is changed."""

    what: Literal["arrived", "step", "restarted"]
    seq: int = 0
    message: NewMessage | None = None
    step: Step | None = None
    committed: Committed | None = None
    commit: int = 0
    """The number of the transaction."""


@dataclass
class StoreFaults:
    """Shares of transactions that fail, all 0 if nothing goes wrong."""

    full: float = 0.0
    busy: float = 0.0
    lost: float = 0.0
    """The commit takes place, and is reported as failed."""
    unread: float = 0.0
    counts: Counter[str] = field(default_factory=Counter)

    def calm(self) -> None:
        self.full = self.busy = self.lost = self.unread = 0.0


class Journal:
    """What was committed, in order."""

    def __init__(self, scheduler: Scheduler, faults: StoreFaults) -> None:
        self.scheduler = scheduler
        self.faults = faults
        self.entries: list[Entry] = []
        self.postponed: dict[int, int] = {}
        """Messages whose delivery was postponed, with how many entries there were then."""
        self.passed: dict[int, list[tuple[int, NewMessage]]] = {}
        """Messages of which nothing but effects is stored, by the identity of the step that stores them."""
        self._open: list[Entry] = []
        self._commits = 0
        self._last = 0
        """The newest number of a message."""
        self.is_dead = False
        """Whether the process that writes was killed: it changes nothing any more."""
        self.is_examined = False
        """Whether the store is read by the one who examines it, to whom no fault happens."""

    def note(self, entry: Entry) -> None:
        self._open.append(entry)

    def begin(self) -> None:
        self._open.clear()

    def commit(self) -> None:
        self._commits += 1
        for entry in self._open:
            entry.commit = self._commits
            if entry.what == "arrived" and entry.seq <= self._last:
                continue  # it is known under the name of its request
            self._last = max(self._last, entry.seq, *(entry.committed.created if entry.committed else ()))
            if entry.committed is not None:
                self._last = max(self._last, entry.committed.number)
            self.entries.append(entry)
            self.scheduler.note(entry.what, entry.seq, entry.committed)
        self._open.clear()

    def draw(self, share: float) -> bool:
        return not self.is_examined and self.scheduler.current is not None and self.scheduler.chance.random() < share


def make_postpone(journal: Journal) -> Callable[[SqlStore, Sequence[Postponed]], None]:
    """Return what stands for `SqlStore.postpone`."""
    act = SqlStore.postpone

    def postpone(store: SqlStore, postponed: Sequence[Postponed]) -> None:
        for each in postponed:
            journal.postponed.setdefault(each.message, len(journal.entries))
        act(store, postponed)

    return postpone


def make_pass(journal: Journal) -> Callable[[Arrivals, Any, int, datetime], Step]:
    """Return what stands for `Arrivals._pass`: it notes the messages, which are not in the store."""
    act = Arrivals._pass

    def note_passed(arrivals: Arrivals, passing: Any, last: int, now: datetime) -> Step:
        step = act(arrivals, passing, last, now)
        journal.passed[id(step)] = [
            (each.seq, NewMessage(queue=each.queue, body=_text(each.incoming.body), properties={}, created=now))
            for each in passing
        ]
        return step

    return note_passed


def _text(body: bytes | str) -> str:
    return body if isinstance(body, str) else body.decode()


def make_builder(journal: Journal) -> type[CommitBuilder]:
    """Return the builder of commits with one that notes what it is given."""

    class NotedBuilder(CommitBuilder):
        _is_applying = False

        def append(self, message: NewMessage) -> int:
            seq = super().append(message)
            if not self._is_applying:
                journal.note(Entry("arrived", seq, message))
            return seq

        def apply(self, step: Step) -> Committed:
            self._is_applying = True
            committed = super().apply(step)
            self._is_applying = False
            if step.is_event:
                journal.note(Entry("step", committed.number, step=step, committed=committed))
            elif not step.elided:
                for seq, message in zip(committed.created, step.created, strict=True):
                    journal.note(Entry("arrived", seq, message))
            else:  # messages that have arrived, of which nothing but effects is stored
                for seq, message in journal.passed.pop(id(step)):
                    journal.note(Entry("arrived", seq, message))
                journal.note(Entry("step", committed.number, step=step, committed=committed))
            return committed

    return NotedBuilder


def make_connect(journal: Journal) -> Callable[[Database, str], sqlite3.Connection]:
    """Return what stands for `Database._connect`."""

    class FailingConnection(sqlite3.Connection):
        def execute(self, statement: str, *parameters: Any) -> sqlite3.Cursor:
            faults = journal.faults
            if statement == _BEGIN:
                _expect_alive()
                if journal.draw(faults.busy):
                    raise _fault("busy", sqlite3.SQLITE_BUSY)
                journal.begin()
            elif statement == _COMMIT and self.in_transaction and self.is_writing:
                journal.scheduler.point()
                _expect_alive()
                if journal.draw(faults.full):
                    raise _fault("full", sqlite3.SQLITE_FULL)
                done = super().execute(statement)
                self.is_writing = False
                journal.commit()
                if journal.draw(faults.lost):
                    raise _fault("lost", sqlite3.SQLITE_IOERR)
                journal.scheduler.point()
                return done
            elif statement == _ROLLBACK:
                journal.begin()
            elif journal.draw(faults.unread) and statement.lstrip().startswith("SELECT"):
                raise _fault("unread", sqlite3.SQLITE_IOERR)
            done = super().execute(statement, *parameters)
            self.is_writing = statement == _BEGIN or (self.is_writing and statement != _ROLLBACK)
            return done

        is_writing = False

    def _expect_alive() -> None:
        if journal.is_dead:
            raise sqlite3.OperationalError("the process was killed")

    def _fault(kind: str, code: int) -> sqlite3.OperationalError:
        journal.faults.counts[kind] += 1
        error = sqlite3.OperationalError(f"simulated: {kind}")
        error.sqlite_errorcode = code
        return error

    def connect(database: Database, address: str) -> sqlite3.Connection:
        return sqlite3.connect(
            address,
            uri=True,
            timeout=BUSY_SECONDS_MAX,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=512,
            factory=FailingConnection,
        )

    return connect
