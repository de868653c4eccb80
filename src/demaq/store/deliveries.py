"""The outbox of outgoing gateways, their attempts, and the responses that may be asked for again."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from demaq.store.checksums import checksum_of
from demaq.store.encoding import encode_numbers, microseconds, time_at
from demaq.store.protocol import Attempt, Postponed, StoredAnswer, Unsent
from demaq.store.tables import Tables

MEMORY_SECONDS = 24 * 60 * 60
"""How long attempts and responses are remembered."""
ATTEMPTS_MAX = 100_000
"""Of more attempts the oldest are deleted sooner."""
FORGET_STEP = 500
"""How many attempts are deleted at a time."""


def write_attempts(tables: Tables, attempts: Sequence[Attempt]) -> None:
    """Store attempts. Within a transaction."""
    tables.execute_many(
        tables.sql["insert_attempt"], [(*row, checksum_of(*row)) for row in map(_make_attempt_row, attempts)]
    )


def _make_attempt_row(a: Attempt) -> tuple[str | int | float | None, ...]:
    at, seconds = microseconds(a.at), float(a.seconds)
    return a.message, a.queue, a.number, at, seconds, a.destination, a.result, a.status, a.kind, a.reason


def make_outbox_row(seq: int, queue: str, due: int) -> tuple[int, str, int, int, int]:
    """Return the row of a message without attempts."""
    return seq, queue, due, 0, checksum_of(seq, due, 0)


def _make_postponed_row(seq: int, due: int, attempts: int) -> tuple[int, int, int, int]:
    return due, attempts, checksum_of(seq, due, attempts), seq


def postpone(tables: Tables, postponed: Sequence[Postponed]) -> None:
    """Change when messages are due, and count attempts. Messages not in the outbox are ignored.

    Within a transaction.
    """
    made = dict(tables.rows(tables.sql["outbox_of"], [encode_numbers([each.message for each in postponed])]))
    known = {each.message: each for each in postponed if each.message in made}  # the last one of each counts
    tables.execute_many(
        tables.sql["postpone"],
        [
            _make_postponed_row(seq, microseconds(each.due), made[seq] if each.attempt is None else each.attempt.number)
            for seq, each in known.items()
        ],
    )
    write_attempts(tables, [each.attempt for each in known.values() if each.attempt is not None])


def send_again(tables: Tables, seqs: Sequence[int], due: datetime) -> list[int]:
    """Make messages due, in the outbox or not. If some are not stored, change nothing and return these.

    Within a transaction.
    """
    asked = encode_numbers(seqs)
    queues = dict(tables.rows(tables.sql["queues_of"], [asked]))
    gone = sorted(set(seqs) - queues.keys())
    if gone:
        return gone
    at = microseconds(due)
    waiting = dict(tables.rows(tables.sql["outbox_of"], [asked]))
    tables.execute_many(tables.sql["postpone"], [_make_postponed_row(seq, at, 0) for seq in waiting])
    others = [make_outbox_row(seq, queue, at) for seq, queue in queues.items() if seq not in waiting]
    tables.execute_many(tables.sql["insert_outbox"], others)
    return []


def forget_old(tables: Tables, now: int) -> None:
    """Delete some of the attempts and responses that were remembered long enough. Within a transaction."""
    before = now - MEMORY_SECONDS * 1_000_000
    tables.execute(tables.sql["forget_attempts"], {"before": before, "most": ATTEMPTS_MAX, "limit": FORGET_STEP})
    tables.execute(tables.sql["forget_answers"], [before])


def read_unsent(tables: Tables, queue: str | None, message: int | None, limit: int) -> list[Unsent]:
    name = "unsent_message" if message is not None else "unsent" if queue is None else "unsent_in_queue"
    rows = tables.rows(tables.sql[name], {"queue": queue, "seq": message, "limit": limit})
    return [
        Unsent(message=seq, queue=name, created=time_at(created), due=time_at(due), attempts=made)
        for seq, name, created, due, made in rows
        if queue in (None, name)
    ]


def read_attempts(tables: Tables, queue: str | None, message: int | None, limit: int) -> list[Attempt]:
    name = "attempts_of_message" if message is not None else "attempts" if queue is None else "attempts_in_queue"
    rows = tables.rows(tables.sql[name], {"queue": queue, "seq": message, "limit": limit})
    return [
        Attempt(
            message=seq,
            queue=name,
            number=number,
            at=time_at(at),
            seconds=seconds,
            destination=destination,
            result=result,
            status=status,
            kind=kind,
            reason=reason,
        )
        for seq, name, number, at, seconds, destination, result, status, kind, reason in rows
        if queue in (None, name)
    ]


def read_answer(tables: Tables, connection: str) -> StoredAnswer | None:
    rows = tables.rows(tables.sql["answer"], [connection])
    if not rows:
        return None
    name, status, content_type, body = rows[0]
    return StoredAnswer(connection=name, status=status, content_type=content_type, body=body)
