"""Remove messages physically, with everything that was kept for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from demaq.store.deliveries import forget
from demaq.store.encoding import decode_list
from demaq.store.tables import Tables

REQUEST_MEMORY_SECONDS = 24 * 60 * 60
"""So long a repeated request stays harmless after the message of the first was removed."""


def remove_garbage(tables: Tables, retired_before: int, now: int, limit: int) -> int:
    """Messages that retired before a time, longest retired first."""
    rows = tables.rows(tables.sql["garbage"], [retired_before, limit])
    _remove_rows(tables, rows)
    mark_removed(tables, [row[4] for row in rows if row[4] is not None], now)
    tables.execute(tables.sql["forget_requests"], [now - REQUEST_MEMORY_SECONDS * 1_000_000])
    forget(tables, now)
    return len(rows)


def remove_transient(tables: Tables, limit: int) -> int:
    """Messages of transient queues, and the memory of their requests: nobody was promised anything."""
    rows = tables.rows(tables.sql["transient_messages"], [limit])
    _remove_rows(tables, rows)
    tables.execute_many(tables.sql["delete_request"], [(row[4],) for row in rows if row[4] is not None])
    tables.execute_many(
        tables.sql["count"],
        [(queue, -1, -1 if processed is None else 0) for _, queue, processed, retired, *_ in rows if retired is None],
    )
    return len(rows)


def _remove_rows(tables: Tables, rows: Sequence[Any]) -> None:
    seqs = [row[0] for row in rows]
    members = [(*member, row[0]) for row in rows for member in decode_list(row[5])]
    entries = [(*entry, row[3] or 0, row[0]) for row in rows for entry in decode_list(row[6])]
    remove(tables, seqs, members, entries)


def remove(
    tables: Tables,
    seqs: Sequence[int],
    members: Sequence[tuple[str | int, ...]],
    entries: Sequence[tuple[str | int, ...]],
) -> None:
    """Messages by their numbers, with their rows in slices and indexes."""
    numbers = [(seq,) for seq in seqs]
    tables.execute_many(tables.sql["delete_member"], members)
    tables.execute_many(tables.sql["delete_entry"], entries)
    tables.execute_many(tables.sql["delete_body"], numbers)
    tables.execute_many(tables.sql["delete_outbox"], numbers)
    tables.execute_many(tables.sql["delete_message"], numbers)


def mark_removed(tables: Tables, requests: Sequence[str], now: int) -> None:
    """The messages of these requests are removed: they are remembered for some time yet."""
    tables.execute_many(tables.sql["mark_request_removed"], [(now, request) for request in requests])
