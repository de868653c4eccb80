"""What outgoing gateways are still to send, and what is remembered of their attempts and answers."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from demaq.store.checksums import checksum_of
from demaq.store.encoding import encode_numbers, microseconds, time_at
from demaq.store.protocol import Attempt, Postponed, StoredAnswer, Unsent
from demaq.store.tables import Tables

MEMORY_SECONDS = 24 * 60 * 60
"""So long attempts and answers are remembered."""
ATTEMPTS_MAX = 100_000
"""Of more attempts the oldest are forgotten sooner."""
FORGET_STEP = 500
"""So many attempts are forgotten at once."""


def write_attempts(tables: Tables, attempts: Sequence[Attempt]) -> None:
    """Within a transaction: remember attempts."""
    tables.execute_many(
        tables.sql["insert_attempt"],
        [(*row, checksum_of(*row)) for row in map(_attempt_row, attempts)],
    )


def _attempt_row(a: Attempt) -> tuple[str | int | float | None, ...]:
    at, seconds = microseconds(a.at), float(a.seconds)
    return a.message, a.queue, a.number, at, seconds, a.destination, a.result, a.status, a.kind, a.reason


def outbox_row(seq: int, queue: str, due: int) -> tuple[int, str, int, int, int]:
    """A message that was not tried to send yet."""
    return seq, queue, due, 0, checksum_of(seq, due, 0)


def _postponed_row(seq: int, due: int, attempts: int) -> tuple[int, int, int, int]:
    return due, attempts, checksum_of(seq, due, attempts), seq


def postpone(tables: Tables, postponed: Sequence[Postponed]) -> None:
    """Within a transaction: change when messages are due, and count attempts. One that is not to be sent is left."""
    made = dict(tables.rows(tables.sql["outbox_of"], [encode_numbers([each.message for each in postponed])]))
    known = {each.message: each for each in postponed if each.message in made}  # the last one of each counts
    tables.execute_many(
        tables.sql["postpone"],
        [
            _postponed_row(seq, microseconds(each.due), made[seq] if each.attempt is None else each.attempt.number)
            for seq, each in known.items()
        ],
    )
    write_attempts(tables, [each.attempt for each in known.values() if each.attempt is not None])


def send_again(tables: Tables, seqs: Sequence[int], due: datetime) -> list[int]:
    """Within a transaction: let messages be due, in the outbox or not. Return those that are gone; then none is."""
    asked = encode_numbers(seqs)
    queues = dict(tables.rows(tables.sql["queues_of"], [asked]))
    gone = sorted(set(seqs) - queues.keys())
    if gone:
        return gone
    at = microseconds(due)
    waiting = dict(tables.rows(tables.sql["outbox_of"], [asked]))
    tables.execute_many(tables.sql["postpone"], [_postponed_row(seq, at, 0) for seq in waiting])
    others = [outbox_row(seq, queue, at) for seq, queue in queues.items() if seq not in waiting]
    tables.execute_many(tables.sql["insert_outbox"], others)
    return []


def forget(tables: Tables, now: int) -> None:
    """Within a transaction: forget some of what is remembered long enough."""
    before = now - MEMORY_SECONDS * 1_000_000
    tables.execute(tables.sql["forget_attempts"], {"before": before, "most": ATTEMPTS_MAX, "limit": FORGET_STEP})
    tables.execute(tables.sql["forget_answers"], [before])


def unsent(tables: Tables, queue: str | None, message: int | None, limit: int) -> list[Unsent]:
    name = "unsent_message" if message is not None else "unsent" if queue is None else "unsent_in_queue"
    rows = tables.rows(tables.sql[name], {"queue": queue, "seq": message, "limit": limit})
    return [
        Unsent(message=seq, queue=name, created=time_at(created), due=time_at(due), attempts=made)
        for seq, name, created, due, made in rows
        if queue in (None, name)
    ]


def attempts(tables: Tables, queue: str | None, message: int | None, limit: int) -> list[Attempt]:
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


def answer(tables: Tables, connection: str) -> StoredAnswer | None:
    rows = tables.rows(tables.sql["answer"], [connection])
    if not rows:
        return None
    name, status, content_type, body = rows[0]
    return StoredAnswer(connection=name, status=status, content_type=content_type, body=body)
