"""Remove messages physically, with everything that was kept for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from demaq.store.database import Database
from demaq.store.encoding import decode_list
from demaq.store.statements import statements

REQUEST_MEMORY_SECONDS = 24 * 60 * 60
"""So long a repeated request stays harmless after the message of the first was removed."""

_WRITING = statements("writing.sql")


def remove_garbage(database: Database, retired_before: int, now: int, limit: int) -> int:
    """Messages that retired before a time, longest retired first."""
    rows = database.rows(_WRITING["garbage"], [retired_before, limit])
    _remove(database, rows)
    database.execute_many(_WRITING["mark_request_removed"], [(now, row[4]) for row in rows if row[4] is not None])
    database.execute(_WRITING["forget_requests"], [now - REQUEST_MEMORY_SECONDS * 1_000_000])
    return len(rows)


def remove_transient(database: Database, limit: int) -> int:
    """Messages of transient queues, and the memory of their requests: nobody was promised anything."""
    rows = database.rows(_WRITING["transient_messages"], [limit])
    _remove(database, rows)
    database.execute_many(_WRITING["delete_request"], [(row[4],) for row in rows if row[4] is not None])
    database.execute_many(
        _WRITING["count"],
        [(queue, -1, -1 if processed is None else 0) for _, queue, processed, retired, *_ in rows if retired is None],
    )
    return len(rows)


def _remove(database: Database, rows: Sequence[Any]) -> None:
    seqs = [(row[0],) for row in rows]
    members = [(*member, row[0]) for row in rows for member in decode_list(row[5])]
    entries = [(*entry, row[3] or 0, row[0]) for row in rows for entry in decode_list(row[6])]
    database.execute_many(_WRITING["delete_member"], members)
    database.execute_many(_WRITING["delete_entry"], entries)
    database.execute_many(_WRITING["delete_body"], seqs)
    database.execute_many(_WRITING["delete_message"], seqs)
