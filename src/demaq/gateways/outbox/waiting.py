"""Messages of one outgoing gateway that are due: which of them may go now.

They are known here without their texts. Messages of one slice go one after the other: each waits for those of its
slices that were there before it. Those that wait for none are in the lane of whom they go to, and may go as soon as
there is room in it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from demaq.gateways.outbox.delivery_results import DeliveryFailed
from demaq.gateways.outbox.destination import Answering
from demaq.language.endpoints import Destination
from demaq.store.protocol import SliceKey

Lane = str | None
"""Whom messages go to; None for those that leave no connection occupied."""


@dataclass(slots=True, eq=False, kw_only=True)
class Due:
    """A message that is due."""

    seq: int
    attempts: int
    to: Destination | Answering | DeliveryFailed
    slices: tuple[SliceKey, ...]
    waits_for: int = 0
    """In how many of its slices others are before it."""

    @property
    def lane(self) -> Lane:
        return self.to.peer if isinstance(self.to, Destination) else None


class Waiting:
    """The messages that are known to be due, until they are done."""

    def __init__(self) -> None:
        self._known: dict[int, Due] = {}
        self._slices: dict[SliceKey, deque[Due]] = {}
        """Messages of each slice in order; the first one is on its way or may be."""
        self._lanes: dict[Lane, deque[Due]] = {}
        self._open: dict[Lane, None] = {}
        """Lanes that are worth looking at: they have messages, and nothing is known to keep them."""

    def __len__(self) -> int:
        """How many are known, with those on their way."""
        return len(self._known)

    def __contains__(self, seq: int) -> bool:
        return seq in self._known

    @property
    def numbers(self) -> list[int]:
        return list(self._known)

    def add(self, due: Due) -> None:
        """Add a message after all that are known."""
        self._known[due.seq] = due
        for slice in due.slices:
            members = self._slices.setdefault(slice, deque())
            due.waits_for += bool(members)
            members.append(due)
        if not due.waits_for:
            self._is_ready(due)

    def open_lanes(self) -> list[Lane]:
        return list(self._open)

    def close_lane(self, lane: Lane) -> None:
        """It is not worth looking at before `open_lane`."""
        self._open.pop(lane, None)

    def open_lane(self, lane: Lane) -> None:
        if lane in self._lanes:
            self._open[lane] = None

    def to_the_end(self, lane: Lane) -> None:
        """Look at other lanes before this one."""
        if lane in self._open:
            del self._open[lane]
            self._open[lane] = None

    def has_lane(self, lane: Lane) -> bool:
        """Return whether messages wait in it."""
        return lane in self._lanes

    def take(self, lane: Lane) -> Due | None:
        """Return the first message of a lane, which is on its way now."""
        found = self._lanes.get(lane)
        if not found:
            return None
        due = found.popleft()
        if not found:
            del self._lanes[lane]
            self._open.pop(lane, None)
        return due

    def done(self, due: Due) -> None:
        """Release a message that was taken, delivered or not: those that wait for it may go."""
        del self._known[due.seq]
        for following in self._remaining(due):
            following.waits_for -= 1
            if not following.waits_for:
                self._is_ready(following)

    def _remaining(self, due: Due) -> Iterable[Due]:
        for slice in due.slices:
            members = self._slices[slice]
            first = members.popleft()
            assert first is due, "what is on its way is the first of its slices"
            if members:
                yield members[0]
            else:
                del self._slices[slice]

    def _is_ready(self, due: Due) -> None:
        if due.lane not in self._lanes:
            self._lanes[due.lane] = deque()
            self._open[due.lane] = None
        self._lanes[due.lane].append(due)
