"""Verify the rows of a store: their checksums, and that derived rows agree with the messages.

Members of slices, index entries and counts are derived from the messages and compared with them, so that a changed,
added or missing row is found, as is a message without its body.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

from demaq.errors import StoreDamaged
from demaq.store.checksums import (
    ROW_TABLES,
    body_checksum,
    checksum_of,
    message_checksum,
    request_checksum,
    state_checksum,
)
from demaq.store.encoding import decode_list
from demaq.store.tables import Tables

LOOK_EVERY = 256
"""How many rows are read between two checks of the time."""
NUMBERS_SHOWN_MAX = 10

_COSTS = {
    "outbox": "messages that were to be sent may not be, or twice",
    "attempts": "what is shown of attempts to send is not certain",
    "answers": "a repeated request may get another answer than the first",
    "collections": "rules may read other documents",
    "collection_documents": "rules may read other documents",
    "programs": "which application ran last is not certain",
    "restated": "a change of the application would be wrong; it is computed anew by the next run",
    "complete_indexes": "rules may not find what they look up",
    "epochs": "other nodes may not know again what was sent to them",
    "sequences": "messages of a reliable sequence may be processed twice or not at all",
    "sequence_messages": "messages of a reliable sequence may be lost",
    "replay_keys": "a repeated message may be taken for a new one",
    "pauses": "what operators have paused may not be",
    "audit": "what operators have done is not certain",
}


@dataclass(frozen=True, slots=True)
class Damage:
    """Something that is damaged, and what that costs."""

    what: str
    cost: str

    def __str__(self) -> str:
        return f"{self.what}: {self.cost}"


class _NoTimeLeft(Exception):
    pass


@dataclass(slots=True)
class VerificationReport:
    """What was found in a store."""

    findings: list[Damage] = field(default_factory=list)
    messages: int = 0
    rows: int = 0
    without_checksum: int = 0
    """Rows of versions before there were checksums."""
    newest: int = 0
    is_complete: bool = True
    """Whether there was time to verify everything."""
    damaged: list[int] = field(default_factory=list)
    """Messages with wrong checksums."""

    @property
    def first_finding(self) -> str:
        """The first finding, and how many more there are."""
        more = f"; and {len(self.findings) - 1:,} findings more" if len(self.findings) > 1 else ""
        return f"{self.findings[0]}{more}"

    def find(self, what: str, cost: str) -> None:
        self.findings.append(Damage(what, cost))


def verify_tables(
    tables: Tables,
    seconds_max: float | None = None,
    clock: Callable[[], float] = time.monotonic,
    missing: Collection[str] = (),
) -> VerificationReport:
    """Return what is damaged. The report is incomplete if it takes longer than `seconds_max`.

    `missing` names the tables that a store of this version does not have.
    """
    report = VerificationReport()
    with tables.reading():
        _Verification(tables, report, None if seconds_max is None else clock() + seconds_max, clock, missing).run()
    return report


class _Verification:
    def __init__(
        self,
        tables: Tables,
        report: VerificationReport,
        give_up: float | None,
        clock: Callable[[], float],
        missing: Collection[str],
    ) -> None:
        self._tables = tables
        self._missing = missing
        self._report = report
        self._give_up = give_up
        self._clock = clock
        self._members = 0
        self._entries = 0
        self._requests = 0
        self._visible: Counter[str] = Counter()
        self._waiting: Counter[str] = Counter()

    def run(self) -> None:
        try:
            self._verify("numbers", self._numbers, "numbers may be given out again")
            self._verify("messages", self._messages, "messages are lost")
            self._verify("members of slices", self._slices, "rules see other slices")
            self._verify("entries of indexes", self._indexes, "rules do not find what they look up")
            self._verify("requests", self._known_requests, "a repeated request may be taken for a new one")
            self._verify("counts of queues", self._counts, "what is shown of queues is wrong")
            self._verify("outbox", self._outbox, "messages may not be sent")
            if "sequence_messages" not in self._missing:
                self._verify("sequence_messages", self._sequence_messages, _COSTS["sequence_messages"])
            for table in [table for table in ROW_TABLES if table not in self._missing]:
                self._verify(table, lambda table=table: self._rows(table), _COSTS[table])  # type: ignore[misc]
        except _NoTimeLeft:
            self._report.is_complete = False

    def _verify(self, name: str, check: Callable[[], None], cost: str) -> None:
        """Verify one table. If it cannot be read, report that and go on with the others."""
        try:
            check()
        except StoreDamaged:
            self._report.find(f"{name} cannot be read", cost)
        except (ValueError, TypeError, AttributeError, LookupError):
            self._report.find(f"{name}: something is damaged", cost)

    def _stream(self, name: str) -> Iterator[Any]:
        yield from self._stream_rows(self._tables.sql[name])

    def _stream_rows(self, statement: str) -> Iterator[Any]:
        for position, row in enumerate(self._tables.stream(statement)):
            if self._give_up is not None and position % LOOK_EVERY == 0 and self._clock() > self._give_up:
                raise _NoTimeLeft
            self._report.rows += 1
            yield row

    def _numbers(self) -> None:
        rows = list(self._stream("verify_numbers"))
        if len(rows) != 1:
            self._report.find("the newest number is missing", "numbers may be given out again")
            return
        newest, *counted = rows[0]
        self._report.newest = newest
        if counted and counted[1] is not None and counted[1] != checksum_of(counted[0], newest):
            self._report.find("the newest number is damaged", "numbers may be given out again")

    def _messages(self) -> None:
        report = self._report
        beyond: list[int] = []
        bodiless: list[int] = []
        for row in self._stream("verify_messages"):
            seq, body = row[0], row[19]
            report.messages += 1
            try:
                if body is None:
                    bodiless.append(seq)
                elif not self._is_intact(row):
                    report.damaged.append(seq)
            except (ValueError, TypeError, AttributeError, LookupError):
                report.damaged.append(seq)
            if seq > report.newest:
                beyond.append(seq)
        if report.damaged:
            report.find(f"{_list_messages(report.damaged)} not what was stored", "their content or state is lost")
        if bodiless:
            report.find(f"{_list_messages(bodiless)} without a body", "their content is lost")
        if beyond:
            report.find(f"{_list_messages(beyond)} beyond the newest number", "numbers may be given out again")
        alone = [seq for (seq,) in self._stream("verify_bodies_alone")]
        if alone:
            report.find(f"{_list_messages(alone)} only a body is there", "they are lost")

    def _is_intact(self, row: Any) -> bool:
        """Return whether the checksums of a message are right. Adds up what its derived rows must be."""
        (
            seq, queue, created, rule, caused_by, origin, hops, transient, timer_due, timer_target, request,
            processed, retired, retired_at, undelivered, slices, entries, priority, checksum,
            body, properties, body_sum,
        ) = row  # fmt: skip
        for slicing, key, ended in decode_list(slices):
            self._members += checksum_of(slicing, key, ended, seq)
        for name, value in decode_list(entries):
            self._entries += checksum_of(name, value, retired or 0, seq)
        if request is not None:
            self._requests += checksum_of(request, seq)
        self._visible[queue] += retired is None
        self._waiting[queue] += processed is None
        self._report.without_checksum += (checksum is None) + (body_sum is None)
        fixed = (seq, queue, created, rule, caused_by, origin, hops, transient, timer_due, timer_target, request)
        state = state_checksum(seq, processed, retired, retired_at, undelivered, slices, entries)
        return checksum in (None, message_checksum(fixed, state, priority)) and body_sum in (
            None,
            body_checksum(seq, body, properties),
        )

    def _slices(self) -> None:
        self._compare("verify_members", self._members, "members of slices", "rules see other slices")

    def _indexes(self) -> None:
        self._compare("verify_entries", self._entries, "entries of indexes", "rules do not find what they look up")

    def _compare(self, statement: str, expected: int, what: str, cost: str) -> None:
        if sum([checksum_of(*row) for row in self._stream(statement)]) != expected:
            self._report.find(f"{what} are not those of the messages", cost)

    def _known_requests(self) -> None:
        found = 0
        damaged = 0
        for request, seq, removed, checksum in self._stream("verify_requests"):
            if removed is None:
                found += checksum_of(request, seq)
            self._report.without_checksum += checksum is None
            damaged += checksum not in (None, request_checksum(request, seq, removed))
        if damaged or found != self._requests:
            self._report.find(
                f"{damaged} requests are damaged" if damaged else "requests are not those of the messages",
                "a repeated request may be taken for a new one",
            )

    def _counts(self) -> None:
        found = {queue: (visible, waiting) for queue, visible, waiting in self._stream("verify_counts")}
        expected = {queue: (self._visible[queue], self._waiting[queue]) for queue in self._visible}
        queues = [queue for queue in {*found, *expected} if found.get(queue, (0, 0)) != expected.get(queue, (0, 0))]
        if queues:
            self._report.find(f"{len(queues)} queues hold other messages than were counted", "messages may be lost")

    def _outbox(self) -> None:
        alone = [seq for (seq,) in self._stream("verify_outbox_alone")]
        missing = [seq for (seq,) in self._stream("verify_not_to_be_sent")]
        if alone or missing:
            self._report.find(
                f"{_list_messages(alone + missing)} not in the outbox as they were", "they may not be sent"
            )
        for _, _, _, _, priorities in self._stream("migration"):
            json.loads(priorities or "{}")

    def _sequence_messages(self) -> None:
        alone = len(list(self._stream("verify_sequence_messages_alone")))
        if alone:
            self._report.find(f"{alone:,} rows of sequence_messages without a sequence", _COSTS["sequence_messages"])

    def _rows(self, table: str) -> None:
        columns = ROW_TABLES[table]
        damaged = 0
        for row in self._stream_rows(f"SELECT {', '.join(columns)}, checksum FROM {table}"):
            *values, checksum = row
            self._report.without_checksum += checksum is None
            damaged += checksum not in (None, checksum_of(*values))
        if damaged:
            self._report.find(f"{damaged} rows of {table} are damaged", _COSTS[table])


def _list_messages(seqs: list[int]) -> str:
    shown = ", ".join([str(seq) for seq in sorted(seqs)[:NUMBERS_SHOWN_MAX]])
    more = f" and {len(seqs) - NUMBERS_SHOWN_MAX:,} more" if len(seqs) > NUMBERS_SHOWN_MAX else ""
    return f"{'message' if len(seqs) == 1 else 'messages'} {shown}{more}:"
