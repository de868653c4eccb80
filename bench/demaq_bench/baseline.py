"""Hand-written programs for the workloads, with lxml and SQLite, in one process: messages are stored, then processed.

They promise what a node promises: a message is durable before the next group is taken (write-ahead log, synchronous
FULL), and the effects of a message and the mark that it was processed are in one transaction. Nothing is in the way of
their speed: the key of a message comes with it, each query is answered by an index, bodies are not checked.
"""

from __future__ import annotations

import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Protocol, TypeAlias

from lxml import etree

from demaq_bench.hand_written_steps import (
    NAMED,
    PLAIN,
    TIMERS,
    Made,
    ProcurementSteps,
    asked_customer,
    report_invoices,
    summarize,
    summarize_named,
)
from demaq_bench.workloads import Workload

Arriving: TypeAlias = tuple[str, bytes]
"""What a message is about, and its body."""
RESULTS = 3

_TABLES = """
PRAGMA journal_mode = WAL;
PRAGMA synchronous = FULL;
CREATE TABLE messages (seq INTEGER PRIMARY KEY, queue TEXT NOT NULL, key TEXT, customer TEXT,
  processed INTEGER NOT NULL DEFAULT 0, body BLOB NOT NULL);
CREATE INDEX waiting ON messages (seq) WHERE processed = 0;
CREATE INDEX by_key ON messages (key);
CREATE INDEX by_customer ON messages (customer) WHERE queue = 'invoices';
"""
_FILL = "INSERT INTO messages (queue, customer, processed, body) VALUES ('invoices', ?, 1, ?)"
_INSERT = "INSERT INTO messages (queue, key, body) VALUES (?, ?, ?)"
_INSERT_DONE = "INSERT INTO messages (queue, key, processed, body) VALUES (?, ?, 1, ?)"
INSERT_ANSWER = _INSERT_DONE
"""For programs that store nothing but answers."""
_WAITING = "SELECT seq, queue, key, body FROM messages WHERE processed = 0 ORDER BY seq LIMIT ?"
_PROCESSED = "UPDATE messages SET processed = 1 WHERE seq = ?"
_INVOICES = "SELECT count(*) FROM messages WHERE queue = 'invoices' AND customer = ?"
_CONVERSATION = "SELECT queue, body FROM messages WHERE key = ? AND queue IN ('crm', 'customer')"
_RELEASE = "DELETE FROM messages WHERE key = ? AND queue <> 'customer' AND queue <> 'later'"
_ANSWERS = "SELECT body FROM messages WHERE queue = ?"
_LEFT = "SELECT count(*) FROM messages WHERE processed = 0"
_CLEAR = "DELETE FROM messages WHERE queue NOT IN ('invoices', 'later')"


class Tables:
    """The messages of a hand-written program. Must be closed."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.file = folder / "baseline.db"
        self.connection = sqlite3.connect(self.file, isolation_level=None)
        self.connection.executescript(_TABLES)
        self.execute = self.connection.execute

    def fill(self, stock: Iterable[Arriving]) -> None:
        """Put invoices there, each with its customer."""
        self.execute("BEGIN")
        self.connection.executemany(_FILL, stock)
        self.execute("COMMIT")

    def insert(self, queue: str, key: str, body: bytes) -> None:
        # What comes back in a day does not wait to be processed.
        self.execute(_INSERT_DONE if queue == TIMERS else _INSERT, (queue, key, body))

    def count_invoices(self, customer: str) -> int:
        return int(self.execute(_INVOICES, (customer,)).fetchone()[0])

    def take_answers(self, queue: str) -> list[str]:
        """Return what has come out, and remove it with all that was processed."""
        found = [body.decode() for (body,) in self.execute(_ANSWERS, (queue,))]
        self.execute(_CLEAR)
        return found

    def count_waiting(self) -> int:
        return int(self.execute(_LEFT).fetchone()[0])


class Invoices(Protocol):
    """Where invoices are looked up."""

    def count_invoices(self, customer: str) -> int: ...


class InvoiceReader:
    """Looks up invoices in the tables of another process."""

    def __init__(self, file: Path) -> None:
        self._execute = sqlite3.connect(file, isolation_level=None).execute

    def count_invoices(self, customer: str) -> int:
        return int(self._execute(_INVOICES, (customer,)).fetchone()[0])


class HandWrittenCode(ABC):
    """What a program does with a message, for one workload."""

    @abstractmethod
    def react(self, tables: Tables, queue: str, key: str, body: bytes) -> None:
        """Process a stored message: store what it makes."""

    @abstractmethod
    def answer(self, invoices: Invoices, body: bytes) -> list[Made]:
        """Return what is to be stored in the end for a message that arrives, and of nothing in between."""


class TransformCode(HandWrittenCode):
    def __init__(self, is_named: bool) -> None:
        self._summarize = summarize_named if is_named else summarize

    def react(self, tables: Tables, queue: str, key: str, body: bytes) -> None:
        if queue == "in":
            for made, text in self._summarize(etree.fromstring(body)):
                tables.insert(made, key, text)

    def answer(self, invoices: Invoices, body: bytes) -> list[Made]:
        return self._summarize(etree.fromstring(body))


class ProcurementCode(HandWrittenCode):
    def __init__(self, steps: ProcurementSteps) -> None:
        self._steps = steps

    def react(self, tables: Tables, queue: str, key: str, body: bytes) -> None:
        if queue == "customer":  # decided: release the request
            tables.execute(_RELEASE, (key,))
            return
        document = etree.fromstring(body)
        if queue != "crm":
            tables.insert("crm", key, self._check(tables, queue, document))
        elif etree.QName(document).localname == "offerRequest":
            for made, text in self._steps.fork(document):
                tables.insert(made, key, text)
        else:
            rows = tables.execute(_CONVERSATION, (key,)).fetchall()
            if len(rows) == 1 + RESULTS and all([kind == "crm" for kind, _ in rows]):  # nothing was decided yet
                documents = [etree.fromstring(text) for _, text in rows]
                tables.insert("customer", key, self._steps.decide({etree.QName(d).localname: d for d in documents}))

    def answer(self, invoices: Invoices, body: bytes) -> list[Made]:
        request = etree.fromstring(body)
        documents = {"offerRequest": request}
        stored: list[Made] = []
        for queue, text in self._steps.fork(request):
            if queue == TIMERS:
                stored.append((queue, text))
                continue
            result = etree.fromstring(self._check(invoices, queue, etree.fromstring(text)))
            documents[etree.QName(result).localname] = result
        return [*stored, ("customer", self._steps.decide(documents))]

    def _check(self, invoices: Invoices, queue: str, document: etree._Element) -> bytes:
        match queue:
            case "finance":
                return self._steps.check_credit(document, invoices.count_invoices(self._steps.customer(document)) > 0)
            case "legal":
                return self._steps.check_restrictions(document)
            case _:
                return self._steps.check_capacity(document)


class LookUpCode(HandWrittenCode):
    def react(self, tables: Tables, queue: str, key: str, body: bytes) -> None:
        if queue == "finance":
            for made, text in self.answer(tables, body):
                tables.insert(made, key, text)

    def answer(self, invoices: Invoices, body: bytes) -> list[Made]:
        document = etree.fromstring(body)
        return [("crm", report_invoices(document, invoices.count_invoices(asked_customer(document))))]


def find_code(workload: str) -> HandWrittenCode:
    """Return what is written for a workload."""
    match workload:
        case "W1" | "W1n":
            return TransformCode(is_named=workload == "W1n")
        case "W2" | "W2n":
            return ProcurementCode(NAMED if workload == "W2n" else PLAIN)
        case _:
            return LookUpCode()


class StoringProgram:
    """Stores a group of messages in a transaction, and all of them before it processes the first. Must be closed."""

    def __init__(self, workload: Workload, folder: Path) -> None:
        self._workload = workload
        self._code = find_code(workload.name)
        self._tables = Tables(folder)
        self._tables.fill(workload.stock())

    def run(self, arriving: Sequence[Arriving], per_commit: int) -> None:
        """Process messages that arrive, so many in each transaction."""
        self._receive(arriving, per_commit)
        while self._process(per_commit):
            pass

    def take_answers(self) -> list[str]:
        return self._tables.take_answers(self._workload.answers)

    def count_waiting(self) -> int:
        return self._tables.count_waiting()

    def close(self) -> None:
        self._tables.connection.close()

    def _receive(self, arriving: Sequence[Arriving], per_commit: int) -> None:
        rows = [(self._workload.queue, key, body) for key, body in arriving]
        for first in range(0, len(rows), per_commit):
            self._tables.execute("BEGIN IMMEDIATE")
            self._tables.connection.executemany(_INSERT, rows[first : first + per_commit])
            self._tables.execute("COMMIT")

    def _process(self, per_commit: int) -> int:
        tables, react = self._tables, self._code.react
        tables.execute("BEGIN IMMEDIATE")
        rows = tables.execute(_WAITING, (per_commit,)).fetchall()
        for _, queue, key, body in rows:
            react(tables, queue, key, body)
        tables.connection.executemany(_PROCESSED, [(row[0],) for row in rows])
        tables.execute("COMMIT")
        return len(rows)
