"""Hand-written programs for the workloads, with lxml and SQLite, for no other purpose than these.

Meant to be good: durable like the engine's store (write-ahead log, synchronous FULL), prepared statements, group
commits, no queries that an index does not answer, parsed documents handed on in memory as long as they are in work.
What is done with is deleted at once. It promises as much as the engine does: a message is checked before it is
acknowledged, and processing it, its effects and its mark are one transaction.
"""

from __future__ import annotations

import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Self

from lxml import etree
from lxml.etree import SubElement, _Element

from demaq.xml_parsers import file_parser
from demaq_bench.workloads import RESTRICTIONS

WAITING, KEPT = 0, 1
"""A message waits to be processed, or stays: to be taken from a mailbox, or because it belongs to a slice."""

_TABLES = """
PRAGMA journal_mode = WAL;
PRAGMA synchronous = FULL;
PRAGMA cache_size = -65536;
PRAGMA wal_autocheckpoint = 4000;
CREATE TABLE messages (seq INTEGER PRIMARY KEY, queue TEXT NOT NULL, body TEXT NOT NULL, state INTEGER NOT NULL);
CREATE INDEX waiting ON messages (seq) WHERE state = 0;
CREATE TABLE slices (key TEXT NOT NULL, seq INTEGER NOT NULL, kind TEXT NOT NULL, PRIMARY KEY (key, seq)) WITHOUT ROWID;
CREATE TABLE invoices (customer TEXT NOT NULL, seq INTEGER NOT NULL, PRIMARY KEY (customer, seq)) WITHOUT ROWID;
"""
_INSERT = "INSERT INTO messages (seq, queue, body, state) VALUES (?, ?, ?, ?)"
_WAITING = "SELECT seq, body FROM messages WHERE state = 0 ORDER BY seq LIMIT ?"
_KEEP = "UPDATE messages SET state = 1 WHERE seq = ?"
_DELETE = "DELETE FROM messages WHERE seq = ?"
_JOIN_SLICE = "INSERT INTO slices (key, seq, kind) VALUES (?, ?, ?)"
_SLICE = "SELECT seq, kind FROM slices WHERE key = ? ORDER BY seq"
_BODY = "SELECT body FROM messages WHERE seq = ?"
_RESET = "DELETE FROM slices WHERE key = ?"
_ADD_INVOICE = "INSERT INTO invoices (customer, seq) VALUES (?, ?)"
_HAS_INVOICE = "SELECT 1 FROM invoices WHERE customer = ? LIMIT 1"
_INVOICES = "SELECT body FROM invoices JOIN messages USING (seq) WHERE customer = ? ORDER BY seq"

_parser = file_parser()


class Baseline(ABC):
    """Queues in a table: messages arrive, and are processed in order. Must be closed."""

    answers_in = ""
    """The queue of what comes out in the end."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._answers: list[str] = []
        self._connection = sqlite3.connect(folder / "baseline.db", isolation_level=None, cached_statements=256)
        self._connection.executescript(_TABLES)
        self._do = self._connection.execute
        self._newest = 0
        self._trees: dict[int, _Element] = {}
        """Documents of messages that are in work. After a restart they would be parsed again."""

    def process_all(self, queue: str, bodies: Sequence[bytes], per_commit: int) -> int:
        """Messages arrive in groups, each of which is processed at once. Return how many were processed."""
        steps = 0
        for start in range(0, len(bodies), per_commit):
            self.receive(queue, bodies[start : start + per_commit], per_commit)
            steps += self.work(per_commit)
        return steps

    def new_answers(self) -> list[str]:
        """Return what has come out since it was last asked."""
        found, self._answers = self._answers, []
        return found

    def receive(self, queue: str, bodies: Sequence[bytes], per_commit: int) -> None:
        for start in range(0, len(bodies), per_commit):
            self._do("BEGIN IMMEDIATE")
            for body in bodies[start : start + per_commit]:
                self._store(queue, etree.fromstring(body, _parser), body.decode())
            self._do("COMMIT")

    def work(self, per_commit: int) -> int:
        """Process until nothing is left. Return how many messages there were."""
        steps = 0
        while waiting := self._do(_WAITING, (per_commit,)).fetchall():
            self._do("BEGIN IMMEDIATE")
            for seq, body in waiting:
                tree = self._trees.get(seq)
                self.process(seq, etree.fromstring(body, _parser) if tree is None else tree)
            self._do("COMMIT")
            steps += len(waiting)
        return steps

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # for the workloads

    @abstractmethod
    def process(self, seq: int, message: _Element) -> None:
        """What becomes of a message."""

    def arrived(self, seq: int, queue: str, message: _Element) -> int:
        """Return whether a new message waits to be processed or stays; what else is to be noted about it."""
        return WAITING

    def make(self, queue: str, message: _Element) -> None:
        body: str = etree.tostring(message, encoding="unicode")
        if queue == self.answers_in:
            self._answers.append(body)
        self._store(queue, message, body)

    def keep(self, seq: int) -> None:
        """Processed, but not released yet."""
        self._do(_KEEP, (seq,))

    def drop(self, seq: int) -> None:
        """Processed, and no longer needed."""
        self._trees.pop(seq, None)
        self._do(_DELETE, (seq,))

    def _store(self, queue: str, message: _Element, body: str) -> None:
        self._newest += 1
        state = self.arrived(self._newest, queue, message)
        self._do(_INSERT, (self._newest, queue, body, state))
        if state == WAITING:
            self._trees[self._newest] = message


class TransformBaseline(Baseline):
    """W1."""

    answers_in = "offers"

    def arrived(self, seq: int, queue: str, message: _Element) -> int:
        return KEPT if queue == "offers" else WAITING

    def process(self, seq: int, message: _Element) -> None:
        if message.tag == "message" and message.find("offerRequest") is not None:
            self.make("offers", _offer(message))
        self.drop(seq)


def _offer(message: _Element) -> _Element:
    offer = etree.Element("offer")
    for name in ("requestID", "customerID"):
        _copy_into(offer, message.iter(name))
    items = list(message.iter("item"))
    for item in items[:2]:
        SubElement(offer, "line", name=item.get("name", ""), kilograms=item.get("kilograms", ""))
    total = sum([float(item.get("kilograms", "0")) * float(item.get("price", "0")) for item in items])
    SubElement(offer, "total").text = _number(total)
    SubElement(offer, "terms").text = "Payment within thirty days of the invoice, delivery free to the door."
    return offer


class ProcurementBaseline(Baseline):
    """W2."""

    answers_in = "customer"
    RESULTS = ("customerInfoResult", "restrictionsResult", "capacityResult")
    DECISIONS = ("offer", "refusal")

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._restricted = {item.get("name") for item in etree.fromstring(RESTRICTIONS, _parser).iter("item")}
        self._processing: dict[str, Callable[[int, _Element], None]] = {
            "offerRequest": self._new_request,
            "requestCustomerInfo": self._check_credit_rating,
            "requestRestrictionInfo": self._check_restrictions,
            "requestCapacityInfo": self._check_capacity,
            **dict.fromkeys(self.RESULTS, self._join),
            **dict.fromkeys(self.DECISIONS, self._release),
        }

    def arrived(self, seq: int, queue: str, message: _Element) -> int:
        if queue == "invoices":
            self._do(_ADD_INVOICE, (message.findtext("customerID"), seq))
            return KEPT
        if queue in ("crm", "customer"):
            self._do(_JOIN_SLICE, (message.findtext("requestID"), seq, message.tag))
        return WAITING

    def process(self, seq: int, message: _Element) -> None:
        self._processing[str(message.tag)](seq, message)

    def _new_request(self, seq: int, message: _Element) -> None:
        for queue, name, part in (
            ("finance", "requestCustomerInfo", "customerID"),
            ("legal", "requestRestrictionInfo", "items"),
            ("supplier", "requestCapacityInfo", "items"),
        ):
            self.make(queue, _about(name, message, part))
        self.keep(seq)

    def _check_credit_rating(self, seq: int, message: _Element) -> None:
        result = _about("customerInfoResult", message)
        unpaid = self._do(_HAS_INVOICE, (message.findtext("customerID"),)).fetchone()
        SubElement(result, "refuse" if unpaid else "accept")
        self.make("crm", result)
        self.drop(seq)

    def _check_restrictions(self, seq: int, message: _Element) -> None:
        result = _about("restrictionsResult", message)
        for item in message.iter("item"):
            name = item.get("name", "")
            if name in self._restricted:
                SubElement(result, "restrictedItem", name=name)
        self.make("crm", result)
        self.drop(seq)

    def _check_capacity(self, seq: int, message: _Element) -> None:
        result = _about("capacityResult", message)
        kilograms = sum([float(item.get("kilograms", "0")) for item in message.iter("item")])
        SubElement(result, "accept" if kilograms < 100_000 else "refuse")
        self.make("crm", result)
        self.drop(seq)

    def _join(self, seq: int, message: _Element) -> None:
        self.keep(seq)
        key = message.findtext("requestID")
        found = {kind: member for member, kind in self._do(_SLICE, (key,))}
        if not all([kind in found for kind in self.RESULTS]) or any([kind in found for kind in self.DECISIONS]):
            return
        results = {kind: self._document(found[kind]) for kind in self.RESULTS}
        if (
            results["customerInfoResult"].find("accept") is not None
            and results["restrictionsResult"].find("restrictedItem") is None
            and results["capacityResult"].find("accept") is not None
        ):
            self.make("customer", _about("offer", self._document(found["offerRequest"]), "items"))
        else:
            self.make("customer", _about("refusal", message))

    def _release(self, seq: int, message: _Element) -> None:
        key = message.findtext("requestID")
        for member, _ in self._do(_SLICE, (key,)).fetchall():
            self.drop(member)
        self._do(_RESET, (key,))

    def _document(self, seq: int) -> _Element:
        tree = self._trees.get(seq)
        return etree.fromstring(self._do(_BODY, (seq,)).fetchone()[0], _parser) if tree is None else tree


class LookUpBaseline(Baseline):
    """W3."""

    answers_in = "answers"

    def arrived(self, seq: int, queue: str, message: _Element) -> int:
        if queue == "invoices":
            self._do(_ADD_INVOICE, (message.findtext("customerID"), seq))
        return WAITING if queue == "questions" else KEPT

    def process(self, seq: int, message: _Element) -> None:
        rows = self._do(_INVOICES, (message.findtext("customerID"),)).fetchall()
        invoices = [etree.fromstring(body, _parser) for (body,) in rows]
        answer = etree.Element("answer")
        _copy_into(answer, message.iter("customerID"))
        SubElement(answer, "count").text = str(len(invoices))
        total = sum([float(invoice.findtext("total", "0")) for invoice in invoices])
        SubElement(answer, "total").text = _number(total)
        self.make("answers", answer)
        self.drop(seq)


def _about(name: str, message: _Element, *parts: str) -> _Element:
    """Return a new element with copies of the request's ID and other parts of a message."""
    made = etree.Element(name)
    for part in ("requestID", *parts):
        _copy_into(made, message.iter(part))
    return made


def _number(value: float) -> str:
    """As XQuery writes it."""
    return str(value).removesuffix(".0")


def _copy_into(made: _Element, found: Iterator[_Element]) -> None:
    for element in found:
        copied = deepcopy(element)
        copied.tail = None
        made.append(copied)


BASELINES: dict[str, type[Baseline]] = {
    "W1": TransformBaseline,
    "W2": ProcurementBaseline,
    "W3": LookUpBaseline,
}
