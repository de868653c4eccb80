"""Sequences of WS-ReliableMessaging, their messages, and the replay keys of WS-Security, on tables.

Invariant: a message belongs to a stored sequence. Adding one to another sequence is refused, and a sequence is removed
after its messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any, TypeVar

from demaq.errors import StoreDamaged
from demaq.store.checksums import Value, checksum_of
from demaq.store.deliveries import MEMORY_SECONDS
from demaq.store.encoding import encode_texts, microseconds, time_at
from demaq.store.protocol import SequenceChanges, SequenceDirection, SequenceMessage, StoredSequence
from demaq.store.tables import Tables

EXPIRED_STEP = 5_000
"""How many replay keys, sequences and messages of sequences are deleted at a time."""

T = TypeVar("T")


def write_changes(tables: Tables, changes: SequenceChanges | None) -> None:
    """Apply changes of sequences and of replay keys. Within a transaction."""
    if changes is None:
        return
    sequences = {(each.direction, each.name): each for each in changes.sequences}  # the last one of each counts
    _write(tables, "write_sequence", map(_make_sequence_row, sequences.values()))
    added = {(each.direction, each.sequence, each.number): each for each in changes.added}
    _expect_stored(tables, {key[:2] for key in added} - sequences.keys())
    removed = dict.fromkeys(changes.removed)
    _write(tables, "write_sequence_message", [_make_message_row(m) for key, m in added.items() if key not in removed])
    tables.execute_many(tables.sql["delete_sequence_message"], list(removed))
    keys = [(key, microseconds(until)) for key, until in changes.replay_keys.items()]
    _write(tables, "write_replay_key", keys)


def read_sequences(tables: Tables, direction: SequenceDirection | None, queue: str | None) -> list[StoredSequence]:
    name = "sequences_in_queue" if queue is not None else "sequences" if direction is None else "sequences_in_direction"
    rows = tables.rows(tables.sql[name], {"direction": direction, "queue": queue})
    return [_decode(row, _decode_sequence) for row in rows if direction in (None, row[0])]


def read_sequence_messages(tables: Tables, direction: SequenceDirection, name: str) -> list[SequenceMessage]:
    rows = tables.rows(tables.sql["sequence_messages"], {"direction": direction, "name": name})
    return [_decode(row, _decode_message) for row in rows]


def find_replays(tables: Tables, keys: Sequence[str], now: datetime) -> frozenset[str]:
    """Return those of the keys that are remembered at a time."""
    if not keys:
        return frozenset()
    rows = tables.rows(tables.sql["known_replays"], {"keys": encode_texts(keys), "now": microseconds(now)})
    return frozenset([key for (key,) in rows])


def forget_expired(tables: Tables, now: int) -> None:
    """Delete some of the replay keys whose time has passed, and of the sequences that ended long enough ago.

    Within a transaction.
    """
    tables.execute(tables.sql["forget_replay_keys"], {"now": now, "limit": EXPIRED_STEP})
    ended = {"before": now - MEMORY_SECONDS * 1_000_000, "limit": EXPIRED_STEP}
    tables.execute(tables.sql["forget_sequence_messages"], ended)
    tables.execute(tables.sql["forget_sequences"], ended)


def _write(tables: Tables, statement: str, rows: Iterable[tuple[Value, ...]]) -> None:
    tables.execute_many(tables.sql[statement], [(*row, checksum_of(*row)) for row in rows])


def _expect_stored(tables: Tables, names: Iterable[tuple[SequenceDirection, str]]) -> None:
    for direction, name in names:
        known = tables.rows(tables.sql["known_sequence"], [direction, name])
        assert known, "a message is added to a sequence that is not stored"


def _make_sequence_row(each: StoredSequence) -> tuple[Value, ...]:
    changed = microseconds(each.changed)
    return each.direction, each.name, each.queue, each.peer, int(each.has_ended), each.content, changed


def _make_message_row(each: SequenceMessage) -> tuple[Value, ...]:
    return each.direction, each.sequence, each.number, each.message, each.held


def _decode(row: Sequence[Any], decode: Callable[..., T]) -> T:
    """Return the value of a row. Raises StoreDamaged if its checksum, which is the last column, is wrong."""
    *values, checksum = row
    try:
        if checksum is not None and checksum != checksum_of(*values):
            raise ValueError
        return decode(*values)
    except (ValueError, TypeError, OverflowError):
        raise StoreDamaged("what is stored of a sequence is not what was; demaq verify says what to do") from None


def _decode_sequence(
    direction: SequenceDirection, name: str, queue: str, peer: str, has_ended: int, content: str, changed: int
) -> StoredSequence:
    return StoredSequence(
        direction=direction,
        name=name,
        queue=queue,
        peer=peer,
        has_ended=bool(has_ended),
        content=content,
        changed=time_at(changed),
    )


def _decode_message(
    direction: SequenceDirection, sequence: str, number: int, seq: int | None, held: str | None
) -> SequenceMessage:
    return SequenceMessage(direction=direction, sequence=sequence, number=number, message=seq, held=held)
