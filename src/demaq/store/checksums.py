"""Checksums of stored rows, by which each can be told intact or not.

CRC-32 of what a row holds, written in ASCII so that it is the same for every version of Python and every database. The
checksum of a row that changes is a sum, with a term for each part that changes apart from the others: a statement that
writes such a part adds the difference, and need not know the rest. A row that was damaged before stays so.

Nothing here is secret: a checksum notices faults, not forgers.
"""

from __future__ import annotations

from functools import lru_cache
from zlib import crc32

MESSAGE_COLUMNS = (
    "seq", "queue", "created", "rule", "caused_by", "origin", "hops", "transient", "timer_due", "timer_target",
    "request",
)  # fmt: skip
"""What never changes in a row of `messages`."""
STATE_COLUMNS = ("processed", "retired", "retired_at", "undelivered", "slices", "entries")
"""What becomes of a message."""
ROW_TABLES: dict[str, tuple[str, ...]] = {
    "outbox": ("seq", "due", "attempts"),
    "attempts": (
        "seq", "queue", "attempt", "at", "seconds", "destination", "result", "status", "kind", "reason",
    ),
    "answers": ("connection", "status", "content_type", "body", "at"),
    "collections": ("name", "version"),
    "collection_documents": ("name", "position", "body"),
    "programs": ("number", "digest", "files", "at"),
    "restated": ("seq", "properties", "slices", "entries", "discarded"),
    "complete_indexes": ("name",),
    "epochs": ("first", "name"),
}  # fmt: skip
"""Tables whose rows have the checksum of these columns. The queue in the outbox is that of the message."""

Value = str | int | float | None


def checksum_of(*values: Value) -> int:
    return crc32(ascii(values).encode())


def body_checksum(seq: int, body: str, properties: str) -> int:
    # Without `ascii`, which takes longer for long texts: it is computed whenever a message is read.
    return crc32(body.encode(), crc32(properties.encode(), seq & 0xFFFFFFFF))


def state_checksum(
    seq: int,
    processed: int | None,
    retired: int | None,
    retired_at: int | None,
    undelivered: int,
    slices: str | None,
    entries: str | None,
) -> int:
    return checksum_of(seq, processed, retired, retired_at, undelivered, slices, entries)


@lru_cache(maxsize=1024)  # of every message, and most have one of a few
def priority_checksum(priority: int | None) -> int:
    return checksum_of("priority", priority)


def message_checksum(fixed: tuple[Value, ...], state: int, priority: int | None) -> int:
    """Of a row of `messages`: what never changes, the checksum of its state, and its priority."""
    return checksum_of(*fixed) + state + priority_checksum(priority)


def request_checksum(request: str, seq: int, removed: int | None) -> int:
    return checksum_of(request, seq) + (removed or 0)
