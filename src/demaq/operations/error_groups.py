"""Errors grouped by rule and code, with how many there were over time.

The newest ones are looked at, up to a bound: a queue of a million errors is as quick to look at as one of a thousand.
"""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from datetime import datetime, timedelta
from typing import TypeAlias

from demaq.engine.error_routing import error_head
from demaq.records import record
from demaq.store.message_scan import Scan
from demaq.store.protocol import Store, StoredMessage

ERRORS_MAX = 500
"""How many errors are looked at."""
READ_AT_ONCE = 100
BARS = 24
"""Into how many parts the time of a trend is divided."""


@record
class ErrorItem:
    """One error message, by what it says."""

    seq: int
    queue: str
    """Its own queue."""
    created: datetime
    kind: str
    rule: str | None
    code: str
    description: str
    about: int | None
    """The message that it is about; None if that was refused and so never stored."""
    about_queue: str


KnownErrors: TypeAlias = MutableMapping[int, ErrorItem | None]
"""What error messages say, by their numbers; None for other messages."""


@record
class ErrorGroup:
    """Errors of one rule with one code."""

    rule: str | None
    about_queue: str
    """The queue of the messages that they are about."""
    code: str
    kind: str
    count: int
    first: datetime
    last: datetime
    trend: tuple[int, ...]
    """How many there were in each part of the time, oldest first."""
    newest: ErrorItem


@record
class ErrorOverview:
    groups: tuple[ErrorGroup, ...]
    errors: int
    """How many errors were looked at."""
    is_complete: bool
    """Whether there are no more."""
    since: datetime
    until: datetime
    """The time of the trends."""


def group_errors(
    store: Store,
    queues: Sequence[str],
    now: datetime,
    errors_max: int = ERRORS_MAX,
    known: KnownErrors | None = None,
) -> ErrorOverview:
    """Return the newest errors of some queues, by rule and code, the most frequent first.

    `known` has what was read before, and gets what is read: messages never change.
    """
    items, is_complete = list_errors(store, queues, errors_max, known)
    since = min([item.created for item in items], default=now - timedelta(hours=1))
    since = min(since, now - timedelta(minutes=1))
    found: dict[tuple[str | None, str, str], list[ErrorItem]] = {}
    for item in items:
        found.setdefault((item.rule, item.about_queue, item.code), []).append(item)
    groups = [
        ErrorGroup(
            rule=rule,
            about_queue=queue,
            code=code,
            kind=members[0].kind,
            count=len(members),
            first=min([item.created for item in members]),
            last=max([item.created for item in members]),
            trend=make_trend([item.created for item in members], since, now),
            newest=members[0],
        )
        for (rule, queue, code), members in found.items()
    ]
    groups.sort(key=lambda group: (-group.count, -group.last.timestamp()))
    return ErrorOverview(groups=tuple(groups), errors=len(items), is_complete=is_complete, since=since, until=now)


def list_errors(
    store: Store, queues: Sequence[str], errors_max: int = ERRORS_MAX, known: KnownErrors | None = None
) -> tuple[list[ErrorItem], bool]:
    """Return the newest errors of some queues, newest first, and whether there are no more."""
    items: list[ErrorItem] = []
    is_complete = True
    known = {} if known is None else known
    for queue in queues:
        found = store.scan(Scan(queue=queue, backwards=True, rows_max=4 * errors_max, limit=errors_max))
        seqs = [head.seq for head in found.heads]
        missing = [seq for seq in seqs if seq not in known]
        for start in range(0, len(missing), READ_AT_ONCE):
            for message in store.messages(missing[start : start + READ_AT_ONCE]):
                known[message.seq] = read_item(message)
        items += [item for seq in seqs if (item := known.get(seq)) is not None]
        is_complete = is_complete and found.last is None
    items.sort(key=lambda item: -item.seq)
    return items[:errors_max], is_complete and len(items) <= errors_max


def read_item(message: StoredMessage) -> ErrorItem | None:
    """Return what an error message says; None for any other message."""
    head = error_head(message.body)
    if head is None:
        return None
    about = head.findtext("messageId") or ""
    return ErrorItem(
        seq=message.seq,
        queue=message.queue,
        created=message.created,
        kind=str(head[0].tag),
        rule=head.findtext("rule"),
        code=head.findtext("code") or "",
        description=head.findtext("description") or "",
        about=int(about) if about.isascii() and about.isdigit() else None,
        about_queue=head.findtext("queue") or "",
    )


def make_trend(times: Sequence[datetime], since: datetime, until: datetime, bars: int = BARS) -> tuple[int, ...]:
    """Return how many of the times are in each part between two times."""
    counts = [0] * bars
    length = (until - since) / timedelta(seconds=1)
    for time in times:
        position = (time - since) / timedelta(seconds=1) / length if length > 0 else 0.0
        counts[min(max(int(position * bars), 0), bars - 1)] += 1
    return tuple(counts)
