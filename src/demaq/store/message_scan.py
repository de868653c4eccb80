"""Look through messages without their texts, some at a time, so that no read takes long.

A scan looks at a bounded number of rows in the order of their seqs and returns those that match. It also says where it
has ended, so that the next one continues there. Each is one short read, so a writer never waits for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal, TypeAlias

from demaq.errors import StoreDamaged
from demaq.records import record
from demaq.store.encoding import decode_list, encode_numbers, microseconds, time_at
from demaq.store.tables import Tables

State: TypeAlias = Literal["waits", "new", "timer", "done", "kept"]
"""What becomes of a message next: it waits for rules or for its delivery; it stays for a client who takes it; it comes
back later; it was processed and is still in a slice; it was processed, and is kept for audit."""
STATE_BITS: dict[str, int] = {"waits": 1, "new": 2, "timer": 4, "done": 8, "kept": 16, "unmatched": 32}
"""Also of what may be asked for besides: `unmatched`, processed without that a rule has reacted to it."""
_STATES: dict[int, State] = {1: "waits", 2: "new", 4: "timer", 8: "done", 16: "kept"}
ROWS_DEFAULT = 20_000
LAST_SEQ = (1 << 62) - 1
_FIRST_TIME, _LAST_TIME = -(1 << 62), 1 << 62


@record
class Scan:
    """Which messages to look at, and which of them match."""

    queue: str | None = None
    """The messages of one queue, or of all."""
    slice: tuple[str, str] | None = None
    """The messages that are in one slice now. With a queue, only its own match."""
    start: int | None = None
    """After this seq, or before it if it goes backwards; None for the first one, or the last."""
    backwards: bool = False
    states: frozenset[str] = frozenset()
    """Keys of STATE_BITS, of which a message has one; empty for all."""
    since: datetime | None = None
    until: datetime | None = None
    """They match if they were created at this time or later, and before this time."""
    rows_max: int = ROWS_DEFAULT
    """At how many to look."""
    limit: int = ROWS_DEFAULT
    """How many to return."""


@record
class MessageHead:
    """A message without its text and properties."""

    seq: int
    queue: str
    created: datetime
    rule: str | None
    trigger: int | None
    origin: int
    processed: int | None
    retired: int | None
    due: datetime | None
    """If it is a timer."""
    slices: tuple[tuple[str, str], ...]
    state: State
    unmatched: bool


@record
class ScanResult:
    heads: tuple[MessageHead, ...]
    scanned: int
    """At how many messages it has looked, about."""
    last: int | None
    """Where the next scan starts; None if there are no more messages."""


def scan_tables(tables: Tables, scan: Scan) -> ScanResult:
    """Return what matches among the next messages."""
    if scan.slice is not None:
        return _scan_slice(tables, scan, *scan.slice)
    back = "_back" if scan.backwards else ""
    of = "_in_queue" if scan.queue is not None else ""
    start = scan.start if scan.start is not None else LAST_SEQ if scan.backwards else 0
    asked = {"queue": scan.queue, "from": start, "rows": scan.rows_max}
    count, end = tables.rows(tables.sql[f"scan_end{back}{of}"], asked)[0]
    if end is None:
        return ScanResult(heads=(), scanned=0, last=None)
    first, last = (end, start - 1) if scan.backwards else (start + 1, end)
    rows = tables.rows(
        tables.sql[f"scan{back}{of}"],
        {
            "queue": scan.queue,
            "first": first,
            "last": last,
            "since": _FIRST_TIME if scan.since is None else microseconds(scan.since),
            "until": _LAST_TIME if scan.until is None else microseconds(scan.until),
            "states": select_bits(scan.states),
            "limit": scan.limit,
        },
    )
    heads = tuple([_make_head(row) for row in rows])
    if len(heads) == scan.limit:
        looked_at = min(count, heads[-1].seq - first + 1 if not scan.backwards else last - heads[-1].seq + 1)
        return ScanResult(heads=heads, scanned=looked_at, last=heads[-1].seq)
    return ScanResult(heads=heads, scanned=count, last=end if count == scan.rows_max else None)


def _scan_slice(tables: Tables, scan: Scan, slicing: str, key: str) -> ScanResult:
    start = scan.start if scan.start is not None else LAST_SEQ if scan.backwards else 0
    asked = {"slicing": slicing, "key": key, "from": start, "rows": scan.rows_max}
    rows = tables.rows(tables.sql["scan_slice_back" if scan.backwards else "scan_slice"], asked)
    seen = [_make_head(row) for row in rows]
    return collect_heads(scan, seen)


def collect_heads(scan: Scan, seen: Sequence[MessageHead]) -> ScanResult:
    """Return those that match among the messages that a scan has looked at."""
    heads = [head for head in seen if matches_scan(head, scan)][: scan.limit]
    is_more = len(seen) == scan.rows_max
    last = heads[-1].seq if len(heads) == scan.limit else seen[-1].seq if is_more else None
    return ScanResult(heads=tuple(heads), scanned=len(seen), last=last)


def matches_scan(head: MessageHead, scan: Scan) -> bool:
    bits = STATE_BITS[head.state] | (STATE_BITS["unmatched"] if head.unmatched else 0)
    is_in_time = (scan.since is None or head.created >= scan.since) and (
        scan.until is None or head.created < scan.until
    )
    return scan.queue in (None, head.queue) and is_in_time and bool(bits & select_bits(scan.states))


def read_heads(tables: Tables, seqs: Sequence[int]) -> list[MessageHead]:
    """Return those of the messages that are stored, in order."""
    return [_make_head(row) for row in tables.rows(tables.sql["heads"], [encode_numbers(seqs)])]


def select_bits(states: frozenset[str]) -> int:
    """Return the bits of the states, of all if there are none."""
    return sum([STATE_BITS[state] for state in states or STATE_BITS])


def describe_state(
    *, processed: int | None, retired: int | None, is_timer: bool, undelivered: bool, has_priority: bool
) -> State:
    """Return the state of a message. The view `message_heads` says the same in SQL."""
    if undelivered:
        return "waits"
    if processed is None:
        return "timer" if is_timer else "waits" if has_priority else "new"
    return "done" if retired is None else "kept"


def _make_head(row: Sequence[Any]) -> MessageHead:
    seq, queue, created, rule, trigger, origin, processed, retired, due, _, slices, state = row
    try:
        members = tuple([(slicing, key) for slicing, key, ended in decode_list(slices) if not ended])
        return MessageHead(
            seq=seq,
            queue=queue,
            created=time_at(created),
            rule=rule,
            trigger=trigger,
            origin=origin,
            processed=None if processed is None else abs(processed),
            retired=retired,
            due=None if due is None else time_at(due),
            slices=members,
            state=_STATES[state & 31],
            unmatched=bool(state & STATE_BITS["unmatched"]),
        )
    except (ValueError, TypeError, LookupError, OverflowError):
        raise StoreDamaged(f"what is stored of message {seq} is not what was; demaq verify says what to do") from None
