"""What operators have decided and done: parts of an application that are paused, and the audit trail.

An audit record is written by the transaction of what it is about, so there is none without the other. The record of an
action that takes several transactions is written again by each of them, with what was done so far.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import field
from datetime import datetime
from typing import Any, Literal, TypeAlias

from demaq.errors import StoreDamaged
from demaq.records import record
from demaq.store.checksums import checksum_of
from demaq.store.encoding import microseconds, time_at
from demaq.store.tables import Tables

PauseKind: TypeAlias = Literal["queue", "rule", "gateway"]
PausedPart: TypeAlias = tuple[PauseKind, str]
"""The kind of a part of an application, and its name."""
NO_NUMBER = 0
"""In place of the number of an audit record that was not written yet."""
LAST_NUMBER = (1 << 63) - 1


@record
class Pause:
    """A part of an application that operators have paused."""

    kind: PauseKind
    name: str
    who: str
    why: str
    since: datetime

    @property
    def part(self) -> PausedPart:
        return self.kind, self.name


@record
class AuditRecord:
    """What an operator has done."""

    at: datetime
    who: str
    action: str
    """The name of the command: `pause`, `purge`, …"""
    subject: str
    """What it was done to, in words."""
    why: str = ""
    result: str = ""
    """What became of it, in words."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """The same for programs, as values of JSON."""
    number: int = NO_NUMBER
    """Its place among all records, from 1 on; NO_NUMBER before it is written."""


def change_pauses(tables: Tables, added: Sequence[Pause], removed: Sequence[PausedPart]) -> None:
    """Pause some parts and resume others. A part that is paused already keeps its pause. Within a transaction."""
    rows = [(each.kind, each.name, each.who, each.why, microseconds(each.since)) for each in added]
    tables.execute_many(tables.sql["insert_pause"], [(*row, checksum_of(*row)) for row in rows])
    tables.execute_many(tables.sql["delete_pause"], list(removed))


def read_pauses(tables: Tables) -> list[Pause]:
    found: list[Pause] = []
    for *values, checksum in tables.rows(tables.sql["pauses"]):
        if checksum not in (None, checksum_of(*values)):
            raise StoreDamaged("what is stored of a pause is not what was; demaq verify says what to do")
        kind, name, who, why, since = values
        found.append(Pause(kind=kind, name=name, who=who, why=why, since=time_at(since)))
    return found


def write_audit(tables: Tables, entry: AuditRecord) -> int:
    """Write a record, or write it again if it has a number. Return its number. Within a transaction."""
    number = entry.number or int(tables.rows(tables.sql["next_audit_number"])[0][0])
    details = json.dumps(dict(entry.details), ensure_ascii=False)
    row = (number, microseconds(entry.at), entry.who, entry.action, entry.subject, entry.why, entry.result, details)
    tables.execute(tables.sql["write_audit"], [*row, checksum_of(*row)])
    return number


def read_audit(tables: Tables, before: int | None, limit: int) -> list[AuditRecord]:
    asked = {"before": LAST_NUMBER if before is None else before, "limit": limit}
    found: list[AuditRecord] = []
    for *values, checksum in tables.rows(tables.sql["audit"], asked):
        if checksum not in (None, checksum_of(*values)):
            raise StoreDamaged("what is stored of an audit record is not what was; demaq verify says what to do")
        number, at, who, action, subject, why, result, details = values
        found.append(
            AuditRecord(
                number=number,
                at=time_at(at),
                who=who,
                action=action,
                subject=subject,
                why=why,
                result=result,
                details=json.loads(details),
            )
        )
    return found
