"""Timers that aim at a queue which a changed program does not have any more: when they are due they become errors."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime

from demaq.store.protocol import Store, StoredMessage

PAGE = 1000
"""So many timers are read at once."""
NAMED_MAX = 3
"""So many of them are named."""


@dataclass(slots=True)
class AimingTimers:
    """The timers that aim at one queue."""

    count: int = 0
    first: list[StoredMessage] = field(default_factory=list)
    """Those that are due first."""

    def __str__(self) -> str:
        named = [f"message {each.seq} of {each.queue}, due {_due(each):%Y-%m-%d %H:%M:%S}" for each in self.first]
        more = [f"{self.count - len(named):,} more"] if self.count > len(named) else []
        many = "1 timer aims" if self.count == 1 else f"{self.count:,} timers aim"
        return f"{many} at it ({'; '.join([*named, *more])}), to become {'an error' if self.count == 1 else 'errors'}"


def timers_by_target(store: Store, discarded: Collection[str]) -> dict[str, AimingTimers]:
    """Return the timers that wait, by the queue they aim at; not those of queues that are given up themselves."""
    found: dict[str, AimingTimers] = {}
    after: tuple[datetime, int] | None = None
    while page := store.timers(after, PAGE):
        for message in page:
            assert message.timer is not None, "timers have a time and a target"
            after = (message.timer.due, message.seq)
            if message.queue in discarded:
                continue
            aiming = found.setdefault(message.timer.target, AimingTimers())
            aiming.count += 1
            if len(aiming.first) < NAMED_MAX:
                aiming.first.append(message)
    return found


def _due(message: StoredMessage) -> datetime:
    assert message.timer is not None, "timers have a time and a target"
    return message.timer.due
