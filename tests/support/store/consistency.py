"""What holds in every store on SQLite after every commit: each fact that lies in two places is the same in both."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime
from typing import Any

from demaq.store import SqliteStore
from tests.support.store.contract import seqs

ALL = 1_000_000
THE_END = datetime.max.replace(tzinfo=UTC)
COLUMNS = """
    seq, queue, caused_by, origin, priority, processed, retired, retired_at, undelivered, timer_due, request, slices,
    entries
"""
Row = dict[str, Any]


def assert_consistent(store: SqliteStore) -> None:
    """Tables, indexes and answers agree; no step is there in part."""
    rows = store._database.rows
    assert rows("PRAGMA integrity_check") == [("ok",)]
    names = [name.strip() for name in COLUMNS.split(",")]
    messages: list[Row] = [
        dict(zip(names, row, strict=True)) for row in rows(f"SELECT {COLUMNS} FROM messages ORDER BY seq")
    ]
    for message in messages:
        for name in ("slices", "entries"):
            message[name] = json.loads(message[name] or "[]")
    _check_each(store, messages)
    _check_tables(store, messages)
    _check_answers(store, [message for message in messages if message["retired"] is None])


def _check_each(store: SqliteStore, messages: list[Row]) -> None:
    newest = store.snapshot()
    for message in messages:
        seq = message["seq"]
        ended = [number for _, _, number in message["slices"]]
        processed = message["processed"]  # negative if no rule has reacted
        taken = [processed and abs(processed), message["retired"], *[number for number in ended if number]]
        assert seq <= newest, message
        assert all([number is None or seq < number <= newest for number in taken]), message
        assert message["caused_by"] is None or message["caused_by"] < seq, message
        assert message["origin"] <= seq, message
        is_needed = message["processed"] is None or message["undelivered"] or not all(ended)
        assert (message["retired"] is None) == is_needed, message
        assert (message["retired_at"] is None) == is_needed, message


def _check_tables(store: SqliteStore, messages: list[Row]) -> None:
    rows = store._database.rows
    assert rows("SELECT seq FROM bodies ORDER BY seq") == [(message["seq"],) for message in messages]
    members = [(slicing, ended, key, m["seq"]) for m in messages for slicing, key, ended in m["slices"]]
    assert sorted(rows("SELECT slicing, ended, key, seq FROM slice_members")) == sorted(members)
    entries = [(name, m["retired"] or 0, value, m["seq"]) for m in messages for name, value in m["entries"]]
    assert sorted(rows("SELECT name, retired, value, seq FROM index_entries")) == sorted(entries)
    requests = [(m["request"], m["seq"]) for m in messages if m["request"] is not None]
    assert sorted(rows("SELECT request, seq FROM requests WHERE removed IS NULL")) == sorted(requests)
    to_send = [(m["seq"],) for m in messages if m["undelivered"]]
    assert rows("SELECT seq FROM outbox ORDER BY seq") == to_send
    owners = rows("SELECT DISTINCT direction, sequence FROM sequence_messages")
    assert {*owners} <= {*rows("SELECT direction, name FROM sequences")}
    visible = Counter([m["queue"] for m in messages if m["retired"] is None])
    waiting = Counter([m["queue"] for m in messages if m["processed"] is None])
    counted = {queue: counts for queue, *counts in rows("SELECT queue, visible, unprocessed FROM queue_counts")}
    assert {queue: counts for queue, counts in counted.items() if counts != [0, 0]} == {
        queue: [visible[queue], waiting[queue]] for queue in visible
    }


def _check_answers(store: SqliteStore, visible: list[Row]) -> None:
    """What the store says is what its rows say."""
    newest = store.snapshot()
    by_queue: dict[str, list[int]] = {}
    by_slice: dict[tuple[str, str], list[int]] = {}
    by_entry: dict[tuple[str, str], list[int]] = {}
    for message in visible:
        by_queue.setdefault(message["queue"], []).append(message["seq"])
        for slicing, key, ended in message["slices"]:
            if not ended:
                by_slice.setdefault((slicing, key), []).append(message["seq"])
        for name, value in message["entries"]:
            by_entry.setdefault((name, value), []).append(message["seq"])
    for queue, expected in by_queue.items():
        assert seqs(store.queue(queue, newest)) == expected, queue
    assert {queue: count for queue, (count, _) in store.counts().items()} == {q: len(s) for q, s in by_queue.items()}
    for (slicing, key), expected in by_slice.items():
        assert seqs(store.slice(slicing, key, newest)) == expected, (slicing, key)
    for slicing in {slicing for slicing, _ in by_slice}:
        keys = sorted([(key, len(members)) for (name, key), members in by_slice.items() if name == slicing])
        assert store.slice_keys(slicing, None, ALL) == keys
    for (name, value), expected in by_entry.items():
        assert seqs(store.lookup(name, [value], newest)) == expected, (name, value)
    waiting = [message for message in visible if message["processed"] is None]
    pending = sorted([(-m["priority"], m["seq"]) for m in waiting if m["priority"] is not None])
    assert seqs(store.pending(ALL)) == [seq for _, seq in pending]
    timers = sorted([(m["timer_due"], m["seq"]) for m in waiting if m["timer_due"] is not None])
    assert seqs(store.due_timers(THE_END, ALL)) == [seq for _, seq in timers]
