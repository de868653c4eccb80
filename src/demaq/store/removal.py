"""Remove messages physically, with all rows that belong to them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from demaq.store.deliveries import forget_old
from demaq.store.encoding import decode_list, encode_numbers
from demaq.store.sequences import forget_expired
from demaq.store.tables import Tables

REQUEST_MEMORY_SECONDS = 24 * 60 * 60
"""How long a request is remembered after its message was removed."""


def remove_garbage(tables: Tables, retired_before: int, now: int, limit: int) -> int:
    """Remove messages that retired before a time, longest retired first. Return how many there were."""
    rows = tables.rows(tables.sql["garbage"], [retired_before, limit])
    _remove_rows(tables, rows)
    mark_removed(tables, [row[4] for row in rows if row[4] is not None], now)
    tables.execute(tables.sql["forget_requests"], [now - REQUEST_MEMORY_SECONDS * 1_000_000])
    forget_old(tables, now)
    forget_expired(tables, now)
    return len(rows)


def remove_transient(tables: Tables, limit: int) -> int:
    """Remove messages of transient queues and their requests. Return how many messages there were."""
    rows = tables.rows(tables.sql["transient_messages"], [limit])
    _remove_rows(tables, rows)
    tables.execute_many(tables.sql["delete_request"], [(row[4],) for row in rows if row[4] is not None])
    tables.execute_many(
        tables.sql["count"],
        [(queue, -1, -1 if processed is None else 0) for _, queue, processed, retired, *_ in rows if retired is None],
    )
    return len(rows)


def purge(tables: Tables, seqs: Sequence[int], now: int) -> list[int]:
    """Remove messages whatever their state, but for those that a reliable sequence has numbered. Return which.

    Within a transaction.
    """
    rows = tables.rows(tables.sql["to_purge"], {"seqs": encode_numbers(seqs)})
    _remove_rows(tables, rows)
    mark_removed(tables, [row[4] for row in rows if row[4] is not None], now)
    tables.execute_many(
        tables.sql["count"],
        [(queue, -1, -1 if processed is None else 0) for _, queue, processed, retired, *_ in rows if retired is None],
    )
    if rows:  # what has read them must not be taken for the newest state
        newest = int(tables.rows(tables.sql["newest_number"])[0][0])
        tables.set_newest(newest + 1)
    return [row[0] for row in rows]


def _remove_rows(tables: Tables, rows: Sequence[Any]) -> None:
    seqs = [row[0] for row in rows]
    members = [(*member, row[0]) for row in rows for member in decode_list(row[5])]
    entries = [(*entry, row[3] or 0, row[0]) for row in rows for entry in decode_list(row[6])]
    remove(tables, seqs, members, entries)
    tables.execute_many(tables.sql["delete_outbox"], [(seq,) for seq in seqs])


def remove(
    tables: Tables,
    seqs: Sequence[int],
    members: Sequence[tuple[str | int, ...]],
    entries: Sequence[tuple[str | int, ...]],
) -> None:
    """Remove messages that are not in the outbox by their numbers, with their rows in slices and indexes."""
    numbers = [(seq,) for seq in seqs]
    tables.execute_many(tables.sql["delete_member"], members)
    tables.execute_many(tables.sql["delete_entry"], entries)
    tables.execute_many(tables.sql["delete_body"], numbers)
    tables.execute_many(tables.sql["delete_message"], numbers)


def mark_removed(tables: Tables, requests: Sequence[str], now: int) -> None:
    """Note that the messages of these requests were removed. The requests are remembered for some time."""
    tables.execute_many(tables.sql["mark_request_removed"], [(now, request) for request in requests])
