"""Which messages of one outgoing gateway are read from the store, in pages: a million may wait there.

They are looked at once, in the order of their numbers. Of each lane some are known, as many as keep its peer at work
for a while. More are skipped, and looked at again when there is room in their lane. So those to a slow peer, however
many, do not keep those to others from being found. Messages that are due again after a pause are found by the time.

Messages in slices are not skipped: a later one of the slice, for another peer, would overtake them. If too many are
known altogether, none are read.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from demaq.gateways.outbox.destination import DestinationResolver
from demaq.gateways.outbox.waiting import Due, LaneName, Waiting
from demaq.store.protocol import Store, StoredMessage, ToSend

KNOWN_MAX = 10_000
"""So many messages that are due are known at once, with those on their way. Others wait in the store."""
LANE_KNOWN_MAX = 1_000
"""So many of one lane; fewer if there are many lanes."""
READ_MAX = 500
"""So many are read at once."""
TEXTS_MAX = 16
"""If no more are found, their texts are read at once."""
TEXTS_CHARACTERS_MAX = 1_000_000
"""But not while texts in memory are larger than this together."""
LOOK_SECONDS_MAX = 30.0
"""The store is asked at least so often, whatever is known."""
READ_SHARE_MAX = 0.1
"""This share of the time is spent on pages of which hardly any message is taken, unless a lane has hardly any left."""
FEW_TAKEN = 4
"""Hardly any: fewer than one of so many."""
BEGINNING = (datetime(1970, 1, 1, tzinfo=UTC), 0)

ReadTexts = Callable[[Sequence[int]], Mapping[int, StoredMessage]]


class Page(NamedTuple):
    """What is to be read."""

    after: int | None
    """Messages with larger numbers; None for none."""
    lanes: Mapping[LaneName, int]
    """Lanes that have room again, with the numbers from which on their messages were skipped."""
    again_after: tuple[datetime, int] | None
    """Messages that are due after this time and number; None for none."""
    until: int
    """Those of the latter with numbers up to this one."""
    wants_texts: bool
    """Whether there is room for texts of some."""


class PageFound(NamedTuple):
    """What the store says."""

    at: datetime
    """The time at which messages were due."""
    found: list[ToSend]
    is_end: bool
    """Whether there are no more of them."""
    snapshot: int
    again: list[ToSend]
    is_end_again: bool
    next_due: datetime | None
    texts: Mapping[int, StoredMessage]
    seconds: float
    """How long it took."""


class DueReader:
    """Belongs to one event loop, but for `read`."""

    def __init__(
        self, queue: str, store: Store, addressing: DestinationResolver, waiting: Waiting, connections: int
    ) -> None:
        self._queue = queue
        self._store = store
        self._addressing = addressing
        self._waiting = waiting
        self._lane_least = 2 * connections
        self._lane_known_max = LANE_KNOWN_MAX
        self._has_news = True
        """Whether there may be messages that were never looked at."""
        self._seen = 0
        """The last message that was looked at: all up to it are known, skipped, not due, or done."""
        self._are_more = False
        """Whether there are messages after it, as far as is known."""
        self._skipped: dict[LaneName, int] = {}
        """Lanes with messages that are due and were not taken, and the first of them."""
        self._again = BEGINNING
        """Up to this time and number, messages that are due again were looked at."""
        self._are_more_again = False
        self._next_due: datetime | None = None
        """When the next message is due, as far as that is known."""
        self._looks_again = False
        """Whether all messages are to be looked at again."""
        self._is_reading = False
        self._finished: set[int] = set()
        """Messages that were done while the store was read: what it said of them is of before."""
        self._postponed: datetime | None = None
        """The earliest time at which messages are due that were postponed meanwhile."""
        self._looked = -LOOK_SECONDS_MAX
        self._quiet_until = 0.0

    # what happens

    def note_news(self) -> None:
        """There may be messages that were never looked at."""
        self._has_news = True

    def look_again(self) -> None:
        """Messages that were looked at may be due again, by the word of an operator."""
        self._looks_again = True
        self._has_news = True

    def note_postponed(self, due: datetime) -> None:
        """A message that is done with for now is due at another time, which may have passed already."""
        if self._next_due is None or due < self._next_due:
            self._next_due = due
        if self._postponed is None or due < self._postponed:
            self._postponed = due
        self._again = min(self._again, (due, 0))

    def note_done(self, due: Due) -> bool:
        """A message is not on its way any more. Return whether there is room now for a page to be read."""
        if self._is_reading:
            self._finished.add(due.seq)
        if len(self._waiting) == KNOWN_MAX - 1:
            return True
        if due.lane not in self._skipped or due.slices:
            return False
        return self._waiting.count_in(due.lane) in (self._lane_known_max // 2, self._lane_least)

    # reading

    def plan(self, now: datetime) -> Page | None:
        """Return what is to be read now, if anything is. Then it is, by `read`, before it is asked again."""
        assert not self._is_reading, "one page at a time"
        at = time.monotonic()
        if at - self._looked >= LOOK_SECONDS_MAX:
            self._has_news = True
            if not self._skipped:
                self._again, self._are_more_again = BEGINNING, True
        if len(self._waiting) >= KNOWN_MAX:
            return None
        if self._looks_again:
            self._looks_again = False
            self._seen = 0
            self._skipped.clear()
        after, lanes = self._choose(at)
        is_again = self._are_more_again or (self._next_due is not None and self._next_due <= now)
        if after is None and not is_again:
            return None
        if after == self._seen:
            self._has_news = False  # what comes from now on is news
        self._is_reading = True
        self._finished.clear()
        self._postponed = None
        wants_texts = self._waiting.characters < TEXTS_CHARACTERS_MAX
        return Page(after, lanes, self._again if is_again else None, self._seen, wants_texts)

    def read(self, page: Page, clock: Callable[[], datetime], read_texts: ReadTexts) -> PageFound:
        """Return what the store says. Called in a thread. Raises StoreError; then it has failed."""
        began = time.perf_counter()
        store, queue = self._store, self._queue
        snapshot = store.snapshot()
        now = clock()  # after the snapshot: all messages in it that were never tried are due
        found = [] if page.after is None else store.to_send(queue, now, page.after, READ_MAX)
        again: list[ToSend] = []
        if page.again_after is not None:
            again = store.to_send_again(queue, now, page.again_after, page.until, READ_MAX)
        next_due = store.next_to_send(queue, now)
        numbers = list(dict.fromkeys([each.seq for each in [*found, *again]]))
        texts = read_texts(numbers) if page.wants_texts and 0 < len(numbers) <= TEXTS_MAX else {}
        seconds = time.perf_counter() - began
        is_end, is_end_again = len(found) < READ_MAX, len(again) < READ_MAX
        return PageFound(now, found, is_end, snapshot, again, is_end_again, next_due, texts, seconds)

    def fail(self, page: Page) -> None:
        """A page was not read, and is to be read later."""
        self._is_reading = False
        self._has_news = True
        self._are_more_again = self._are_more_again or page.again_after is not None

    def take(self, page: Page, read: PageFound) -> None:
        """Add what was read to what waits."""
        self._looked = time.monotonic()
        self._lane_known_max = self._compute_lane_known_max()
        before = len(self._waiting)
        if page.after is not None:
            self._take_next(page, page.after, read)
        if page.again_after is not None:
            self._take_again(read)
        self._is_reading = False
        # What was not looked at by time is still to be looked at, also if it has become due meanwhile.
        before_reading = self._next_due if page.again_after is None else None
        known = [due for due in (read.next_due, self._postponed, before_reading) if due is not None]
        self._next_due = min(known, default=None)
        looked_at = len(read.found) + len(read.again)
        if looked_at and (len(self._waiting) - before) * FEW_TAKEN < looked_at:
            self._quiet_until = self._looked + read.seconds / READ_SHARE_MAX

    def pause_seconds(self, now: datetime) -> float:
        """Return how long nothing has to be read, unless something happens."""
        if len(self._waiting) >= KNOWN_MAX:
            return LOOK_SECONDS_MAX  # there is no room for what is due
        at = time.monotonic()
        pause = LOOK_SECONDS_MAX - (at - self._looked)
        if self._choose(self._quiet_until)[0] is not None:
            pause = min(pause, self._quiet_until - at)
        if self._next_due is not None:
            pause = min(pause, (self._next_due - now).total_seconds())
        return 0.0 if self._are_more_again else max(pause, 0.0)

    def _choose(self, at: float) -> tuple[int | None, dict[LaneName, int]]:
        """Return where the next page begins, and for which lanes that have room again."""
        is_quiet = at < self._quiet_until and (self._are_more or bool(self._skipped))
        few = self._lane_least if is_quiet else self._lane_known_max // 2
        lanes = {lane: first for lane, first in self._skipped.items() if self._waiting.count_in(lane) <= few}
        if lanes:
            return min(lanes.values()) - 1, lanes
        return (self._seen if (self._has_news or self._are_more) and not is_quiet else None), lanes

    def _take_next(self, page: Page, after: int, read: PageFound) -> None:
        for lane in page.lanes:
            self._skipped.pop(lane, None)
        position = after
        is_full = False
        for each in read.found:
            is_full = not self._take(each, read.texts)
            if is_full:
                break
            position = each.seq
        else:
            if read.is_end:
                position = max(position, read.snapshot)
        for lane, first in page.lanes.items():
            if lane not in self._skipped and position < self._seen:
                self._skipped[lane] = max(first, position + 1)
        if position >= self._seen:
            self._seen = position
            self._are_more = is_full or not read.is_end

    def _take_again(self, read: PageFound) -> None:
        position = (read.at, 0)
        self._are_more_again = not read.is_end_again
        if read.again and not read.is_end_again:
            position = read.again[-1].due, read.again[-1].seq
        for each in read.again:
            if not self._take(each, read.texts):
                position, self._are_more_again = (each.due, each.seq - 1), True
                break
        self._again = position if self._postponed is None else min(position, (self._postponed, 0))

    def _take(self, found: ToSend, texts: Mapping[int, StoredMessage]) -> bool:
        """Add a message to what waits, or skip it. Return False if there is room for no message at all."""
        if found.seq in self._waiting or found.seq in self._finished:
            return True
        if len(self._waiting) >= KNOWN_MAX:
            return False
        to = self._addressing.of(found)
        due = Due(seq=found.seq, attempts=found.attempts, to=to, slices=found.slices)
        lane = due.lane
        first = self._skipped.get(lane)
        if not found.slices and (first is not None or self._waiting.count_in(lane) >= self._lane_known_max):
            self._skipped[lane] = found.seq if first is None else min(first, found.seq)
            return True
        due.message = texts.get(found.seq)
        self._waiting.add(due)
        return True

    def _compute_lane_known_max(self) -> int:
        return max(self._lane_least, min(LANE_KNOWN_MAX, KNOWN_MAX // (2 * max(self._waiting.lanes, 1))))
