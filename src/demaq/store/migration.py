"""Migrate a store to a changed program: note what messages will be, decide, apply.

Before the decision, notes have no effect, so the old program can be run again at any time. The decision is one
transaction. After it the notes are applied in small transactions; if that is interrupted, it is completed when the
store is opened next, before anything else.

The tables `evolution` and `restated` are named as in stores on disk.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any, TypeAlias

from demaq.store.checksums import body_checksum, checksum_of, priority_checksum, state_checksum
from demaq.store.encoding import (
    Membership,
    decode_list,
    encode_entries,
    encode_files,
    encode_properties,
    encode_slices,
    microseconds,
)
from demaq.store.protocol import MigratedMessage, NextProgram
from demaq.store.tables import Tables

MIGRATED_BATCH = 2_000
"""How many messages are written in one transaction."""

_ORDER = (
    "set_properties",
    "delete_member",
    "end_member",
    "insert_member",
    "delete_entry",
    "insert_entry",
    "set_slices",
    "set_entries",
    "delete_outbox",
    "set_retired",
    "add_checksum",
    "retire_entry",  # after the entries that were just inserted
    "count",
)


def find_progress(tables: Tables, digest: str) -> int:
    """Return up to which number messages are noted for a version; 0 if no note for it holds."""
    row = _migration(tables)
    return row[2] if row is not None and row[:2] == (digest, _newest(tables)) else 0


def note_migrated(tables: Tables, digest: str, messages: Sequence[MigratedMessage], done: int) -> None:
    """Note what messages will be. Within a transaction."""
    _keep_notes_for(tables, digest)
    rows = [
        (
            message.seq,
            None if message.properties is None else encode_properties(message.properties),
            encode_slices([[slicing, key, 0] for slicing, key in dict.fromkeys(message.slices)]),
            encode_entries(dict.fromkeys(message.entries)),
            int(message.discarded),
        )
        for message in messages
    ]
    tables.execute_many(tables.sql["insert_migrated"], [(*row, checksum_of(*row)) for row in rows])
    tables.execute(tables.sql["set_migration_done"], [done])


def decide(tables: Tables, program: NextProgram, at: datetime) -> int:
    """Make this the active program. Return its version. Within a transaction."""
    _keep_notes_for(tables, program.digest)
    newest = _newest(tables)
    number = newest + 1 if tables.rows(tables.sql["next_migrated"], [1]) else newest
    tables.execute(tables.sql["decide_migration"], [number, json.dumps(dict(program.priorities))])
    tables.set_newest(number)
    tables.execute(tables.sql["delete_complete_indexes"])
    tables.execute_many(
        tables.sql["insert_complete_index"], [(name, checksum_of(name)) for name in dict.fromkeys(program.indexes)]
    )
    last = tables.rows(tables.sql["newest_program"])
    if last and last[0][1] == program.digest:
        return int(last[0][0])
    version = int(last[0][0]) + 1 if last else 1
    values = (version, program.digest, encode_files(program.files), microseconds(at))
    tables.execute(tables.sql["insert_program"], [*values, checksum_of(*values)])
    return version


def apply_batch(tables: Tables, now: int) -> bool:
    """Apply some of what was decided. Return whether there may be more. Within a transaction."""
    row = _migration(tables)
    if row is None or row[3] is None:
        return False
    number, priorities = row[3], json.loads(row[4])
    rows = tables.rows(tables.sql["next_migrated"], [MIGRATED_BATCH])
    if rows:
        _MigratedRows(tables, number, now).write(rows)
        return True
    if priorities:
        queue, priority = next(reversed(priorities.items()))
        if _set_priority(tables, queue, priority) == MIGRATED_BATCH:
            return True
        del priorities[queue]
        tables.execute(tables.sql["decide_migration"], [number, json.dumps(priorities)])
        return True
    tables.execute(tables.sql["delete_migration"])
    return False


def _set_priority(tables: Tables, queue: str, priority: int | None) -> int:
    """Set the priority of some unprocessed messages of a queue. Return how many there were."""
    asked = {"queue": queue, "priority": priority, "limit": MIGRATED_BATCH}
    rows = tables.rows(tables.sql["other_priorities"], asked)
    added = priority_checksum(priority)
    tables.execute_many(
        tables.sql["set_priority"], [(priority, added - priority_checksum(before), seq) for seq, before in rows]
    )
    return len(rows)


_State: TypeAlias = tuple[int | None, int | None, int | None, int]
"""The columns `processed`, `retired`, `retired_at` and `undelivered`."""


class _MigratedRows:
    """Collects the changes of migrated messages; each statement is run once for all of them."""

    def __init__(self, tables: Tables, number: int, now: int) -> None:
        self._tables = tables
        self._number = number
        self._now = now
        self._todo: dict[str, list[tuple[Any, ...]]] = {name: [] for name in _ORDER}

    def write(self, rows: Sequence[Any]) -> None:
        for row in rows:
            seq, properties, slices, entries, discarded, queue, processed, undelivered, had, listed, retired, body = row
            if queue is None:
                continue  # it was removed after it was noted
            if properties is not None:
                self._add("set_properties", properties, body_checksum(seq, body, properties), seq)
            if retired is not None:
                continue
            wanted = [] if discarded else decode_list(slices)
            members = self._members(seq, wanted, decode_list(had))
            kept = decode_list(listed) if discarded else self._entries(seq, decode_list(entries), decode_list(listed))
            free = all([ended for _, _, ended in members])
            if discarded or (processed is not None and free and not undelivered):
                self._retire(seq, queue, processed, members, kept)
                state: _State = (processed or self._number, self._number, self._now, 0)
            else:
                state = (processed, None, None, undelivered)
                if members != decode_list(had):
                    self._add("set_slices", encode_slices(members), 0, seq)
            after = state_checksum(seq, *state, encode_slices(members), _encode(kept))
            before = state_checksum(seq, processed, None, None, undelivered, had, listed)
            if after != before:
                self._add("add_checksum", after - before, seq)
        for name, parameters in self._todo.items():
            self._tables.execute_many(self._tables.sql[name], parameters)
        self._tables.execute_many(self._tables.sql["delete_migrated"], [(row[0],) for row in rows])

    def _add(self, statement: str, *parameters: Any) -> None:
        self._todo[statement].append(parameters)

    def _members(self, seq: int, wanted: list[Membership], had: list[Membership]) -> list[Membership]:
        """Return the memberships after leaving and joining slices.

        Joining again replaces a former, ended membership.
        """
        keys = [(slicing, key) for slicing, key, _ in wanted]
        members: list[Membership] = []
        for slicing, key, ended in had:
            if (slicing, key) not in keys:
                members.append([slicing, key, ended or self._number])
                if not ended:
                    self._add("end_member", self._number, slicing, key, seq)
            elif ended:
                self._add("delete_member", slicing, key, ended, seq)
            else:
                members.append([slicing, key, 0])
                keys.remove((slicing, key))
        for slicing, key in keys:
            members.append([slicing, key, 0])
            self._add("insert_member", slicing, key, 0, seq)
        return members

    def _entries(self, seq: int, wanted: list[list[str]], had: list[list[str]]) -> list[list[str]]:
        if wanted == had:
            return had
        for entry in had:
            if entry not in wanted:
                self._add("delete_entry", *entry, 0, seq)
        for entry in wanted:
            if entry not in had:
                self._add("insert_entry", *entry, 0, seq)
        self._add("set_entries", _encode(wanted), seq)
        return wanted

    def _retire(
        self, seq: int, queue: str, processed: int | None, members: list[Membership], entries: list[list[str]]
    ) -> None:
        self._add("delete_outbox", seq)
        self._add("set_retired", processed or self._number, self._number, self._now, encode_slices(members), 0, seq)
        for entry in entries:
            self._add("retire_entry", self._number, *entry, seq)
        self._add("count", queue, -1, -1 if processed is None else 0)


def _encode(entries: Sequence[Sequence[str]]) -> str | None:
    return encode_entries([(index, value) for index, value in entries])


def _newest(tables: Tables) -> int:
    return int(tables.rows(tables.sql["newest_number"])[0][0])


def _migration(tables: Tables) -> Any:
    rows = tables.rows(tables.sql["migration"])
    return rows[0] if rows else None


def _keep_notes_for(tables: Tables, digest: str) -> None:
    """Delete notes for another version, and notes made before the newest number was taken."""
    row, newest = _migration(tables), _newest(tables)
    if row is None or row[:2] != (digest, newest):
        tables.execute(tables.sql["delete_migration"])
        tables.execute(tables.sql["clear_migrated"])
        tables.execute(tables.sql["insert_migration"], [digest, newest, 0])
