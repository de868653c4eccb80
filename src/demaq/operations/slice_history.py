"""A slice over time: its messages, its former lifetimes as far as they are stored, and timers that concern it."""

from __future__ import annotations

from datetime import datetime

from demaq.records import record
from demaq.store.protocol import Store, StoredMessage

MEMBERS_MAX = 200
"""How many messages of a lifetime are shown."""
LIFETIMES_MAX = 20
ENDED_ROWS_MAX = 100_000
"""Of how many ended memberships of the slicing those of a slice are looked for."""
TIMERS_MAX = 1_000
"""Among how many timers those of a slice are looked for."""


@record
class SliceMember:
    seq: int
    queue: str
    created: datetime
    rule: str | None
    is_processed: bool


@record
class Lifetime:
    """The messages of a slice between two resets."""

    members: tuple[SliceMember, ...]
    ended: int | None
    """The number of the reset that ended it; None for the current one."""
    ended_by: int | None
    """The message whose processing has reset it, if that is stored."""
    ended_at: datetime | None
    """About when: no earlier than the last message before the reset."""


@record
class PendingTimer:
    seq: int
    queue: str
    target: str
    due: datetime


@record
class SliceHistory:
    slicing: str
    key: str
    lifetimes: tuple[Lifetime, ...]
    """Oldest first. The last one is the current one; it may be empty."""
    timers: tuple[PendingTimer, ...]
    has_more: bool
    """Whether the current lifetime has more messages."""


def read_slice_history(store: Store, slicing: str, key: str) -> SliceHistory:
    """Return a slice over time."""
    current = store.members(slicing, key, 0, MEMBERS_MAX + 1)
    by_reset: dict[int, list[int]] = {}
    for seq, ended in store.ended_members(slicing, key, ENDED_ROWS_MAX):
        by_reset.setdefault(ended, []).append(seq)
    lifetimes: list[Lifetime] = []
    for ended in sorted(by_reset)[-LIFETIMES_MAX:]:
        stored = store.messages(by_reset[ended][:MEMBERS_MAX])
        before = store.stored(None, max(ended - 1, 0), 1)
        found = [message.seq for message in stored if message.processed == ended]
        lifetimes.append(
            Lifetime(
                members=tuple([_member(message) for message in stored]),
                ended=ended,
                ended_by=found[0] if found else None,
                ended_at=before[0].created if before else None,
            )
        )
    lifetimes.append(
        Lifetime(
            members=tuple([_member(message) for message in current[:MEMBERS_MAX]]),
            ended=None,
            ended_by=None,
            ended_at=None,
        )
    )
    return SliceHistory(
        slicing=slicing,
        key=key,
        lifetimes=tuple(lifetimes),
        timers=tuple(_list_timers(store, slicing, key, {message.origin for message in current})),
        has_more=len(current) > MEMBERS_MAX,
    )


def _list_timers(store: Store, slicing: str, key: str, origins: set[int]) -> list[PendingTimer]:
    """Return timers that are in the slice, or that conversations of its messages have set."""
    return [
        PendingTimer(seq=message.seq, queue=message.queue, target=message.timer.target, due=message.timer.due)
        for message in store.timers(None, TIMERS_MAX)
        if message.timer is not None and ((slicing, key) in message.slices or message.origin in origins)
    ]


def _member(message: StoredMessage) -> SliceMember:
    return SliceMember(
        seq=message.seq,
        queue=message.queue,
        created=message.created,
        rule=message.rule,
        is_processed=message.processed is not None,
    )
