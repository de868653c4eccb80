"""One outgoing gateway at work: which messages are due, whom they go to, and what may begin now."""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple

from demaq.backoff import Backoff
from demaq.gateways.outbox.delivery_results import DeliveryFailed
from demaq.gateways.outbox.destination import Answering, DestinationResolver
from demaq.gateways.outbox.peers import Peer
from demaq.gateways.outbox.waiting import Due, Waiting
from demaq.gateways.settings import OutgoingSettings
from demaq.language.endpoints import Destination
from demaq.store.protocol import Postponed, Store, ToSend

KNOWN_MAX = 5_000
"""So many messages that are due are known at once, with those on their way. Others wait in the store."""
READ_MAX = 1_000
"""So many are read at once."""
FLYING_MAX = 256
"""So many messages of a gateway are on their way at once, whomever they go to."""
LOOK_SECONDS_MAX = 30.0
"""The store is asked at least so often, whatever is known."""
READ_SHARE_MAX = 0.1
"""While messages wait for their turn, this share of the time is spent on reading more of them."""
PUT_OFF_MAX = 100_000
"""Of so many messages it is remembered that they wait for another side to come back."""
LAST_ATTEMPTS = 3
"""So many attempts of a message keep their pauses, so that one that comes and goes does not use all of them up."""
HASTEN_MAX = 500
"""So many messages become due at once."""


class Read(NamedTuple):
    """What the store says."""

    found: list[ToSend]
    are_all: bool
    next_due: datetime | None
    seconds: float
    """How long it took."""


class OutgoingGateway:
    """Belongs to one event loop, but for `read`."""

    def __init__(self, queue: str, settings: OutgoingSettings, addressing: DestinationResolver, store: Store) -> None:
        self.queue = queue
        self.has_news = True
        """Whether there may be messages that were never read."""
        self._settings = settings
        self._addressing = addressing
        self._store = store
        self._waiting = Waiting()
        self._peers: dict[str, Peer] = {}
        self._later: list[tuple[float, str]] = []
        """When lanes open again whose turn is a matter of time."""
        self._in_flight = 0
        self._numbers: list[int] = []
        """What was known when it was decided to read."""
        self._are_more = False
        """Whether the store has messages that are due and not known."""
        self._next_due: datetime | None = None
        """When the next message is due, as far as that is known."""
        self._postponed: dict[int, datetime] = {}
        """Messages that were postponed, and that the last reading may not have seen: they were on their way then."""
        self._put_off: dict[str, dict[int, datetime | None]] = {}
        """By whom they go to, messages that failed because of the other side, with when it wants to be asked again."""
        self._back: dict[int, datetime | None] = {}
        """Those of them whose other side is back."""
        self._looked = -LOOK_SECONDS_MAX
        self._quiet_until = 0.0

    def open_breakers(self) -> list[str]:
        """Return who is not even tried now. May be called from any thread."""
        return [name for name, peer in self._peers.copy().items() if not peer.is_open]

    # what is due

    def wants_reading(self, now: datetime) -> bool:
        """Return whether the store is to be asked now; then it is, by `read`."""
        at = time.monotonic()
        if at < self._quiet_until and len(self._waiting) > self._in_flight:
            return False
        is_wanted = (
            self._has_to_look(now)
            or (self._are_more and len(self._waiting) <= KNOWN_MAX // 2)
            or at - self._looked >= LOOK_SECONDS_MAX
        )
        if not is_wanted or len(self._waiting) >= KNOWN_MAX:
            return False
        self.has_news = False  # what comes from now on is news
        self._numbers = self._waiting.numbers
        self._postponed = {seq: due for seq, due in self._postponed.items() if seq in self._waiting}
        return True

    def read(self, clock: Callable[[], datetime]) -> Read:
        """Return what is due, from the store. Called in a thread. Raises StoreError; then it is to be read again."""
        try:
            return self._read(clock)
        except BaseException:
            self.has_news = True  # otherwise it would be found when the store is asked for another reason
            raise

    def _read(self, clock: Callable[[], datetime]) -> Read:
        began = time.perf_counter()
        limit = min(READ_MAX, KNOWN_MAX - len(self._numbers))
        # The clock is read after the snapshot: all messages of the snapshot that were never tried are due then. A later
        # one may be due before an earlier one that is not, so those after the snapshot are left to the next reading.
        snapshot = self._store.snapshot()
        now = clock()
        found = self._store.to_send(self.queue, now, limit, self._numbers)
        next_due = self._store.next_to_send(self.queue, now)
        seen = [message for message in found if message.seq <= snapshot]
        return Read(seen, len(found) < limit and len(seen) == len(found), next_due, time.perf_counter() - began)

    def add(self, read: Read, now: datetime) -> None:
        self._looked = time.monotonic()
        self._quiet_until = self._looked + read.seconds / READ_SHARE_MAX
        self._are_more = not read.are_all
        known = [read.next_due, *self._postponed.values()]
        self._next_due = min([due for due in known if due is not None], default=None)
        # In the order of seqs: a message that is created later may have an earlier time, that of its evaluation.
        for found in sorted(read.found, key=lambda found: found.seq):
            if found.seq not in self._waiting:
                to = self._addressing.of(found)
                self._waiting.add(Due(seq=found.seq, attempts=found.attempts, to=to, slices=found.slices))

    def postponed(self, seq: int, due: datetime) -> None:
        """A message is due at another time, which may have passed already."""
        self._postponed[seq] = due
        if self._next_due is None or due < self._next_due:
            self._next_due = due

    def note_put_off(self, lane: str, seq: int, attempts: int, not_before: datetime | None) -> None:
        """A message waits for another side to come back, after so many attempts."""
        if attempts > self._settings.attempts - LAST_ATTEMPTS:
            return
        messages = self._put_off.setdefault(lane, {})
        if len(messages) < PUT_OFF_MAX:
            messages[seq] = not_before

    def hasten(self, now: datetime) -> list[Postponed]:
        """Return what need not wait any longer, because its other side is back: when it is due instead."""
        seqs = list(self._back)[:HASTEN_MAX]
        found = [(seq, self._back.pop(seq)) for seq in seqs]
        return [Postponed(message=seq, due=max(now, at) if at is not None else now) for seq, at in found]

    def pause_seconds(self, now: datetime) -> float:
        """Return how long there is nothing to do, unless something ends or comes."""
        at = time.monotonic()
        if self._back:
            return 0.0
        pause = LOOK_SECONDS_MAX
        if self._later:
            pause = min(pause, self._later[0][0] - at)
        if self._next_due is not None:
            pause = min(pause, (self._next_due - now).total_seconds())
        if self._has_to_look(now) and len(self._waiting) < KNOWN_MAX:
            pause = min(pause, self._quiet_until - at)
        elif pause <= 0 and len(self._waiting) >= KNOWN_MAX:
            pause = LOOK_SECONDS_MAX  # there is no room for what is due
        return max(pause, 0.0)

    def _has_to_look(self, now: datetime) -> bool:
        return self.has_news or (self._next_due is not None and self._next_due <= now)

    # what may begin

    def begin_next(self) -> tuple[Due, Destination | Answering | DeliveryFailed, Peer | None] | None:
        """Return the next message that may go, whereto, and whose turn it takes, if it takes one."""
        at = time.monotonic()
        while self._later and self._later[0][0] <= at:
            self._waiting.open_lane(heapq.heappop(self._later)[1])
        for lane in self._waiting.open_lanes():
            if lane is None:
                due = self._waiting.take(lane)
                if due is not None:
                    return self._begin(due, due.to, None)
                continue
            if self._in_flight >= FLYING_MAX:
                continue
            peer = self._peer(lane)
            wait = peer.wait_seconds()
            if wait is None or wait > 0:
                self._waiting.close_lane(lane)
                if wait is not None:
                    heapq.heappush(self._later, (at + wait, lane))
                continue
            due = self._waiting.take(lane)
            if due is None:
                continue
            self._waiting.to_the_end(lane)
            refusal = peer.refusal()
            if refusal is not None:
                return self._begin(due, refusal, None)
            peer.begin()
            return self._begin(due, due.to, peer)
        return None

    def end(self, due: Due, peer: Peer, failure: DeliveryFailed | None) -> None:
        """An attempt is over, and its connection free; what it makes of the message is still to be noted."""
        is_back = peer.end(failure)
        if due.lane is not None:
            if is_back:
                self._back.update(self._put_off.pop(due.lane, {}))
            self._waiting.open_lane(due.lane)
            if peer.is_idle and not self._waiting.has_lane(due.lane):
                self._peers.pop(due.lane, None)

    def done(self, due: Due) -> None:
        """What became of a message is noted."""
        self._in_flight -= 1
        self._waiting.done(due)

    def _begin(
        self, due: Due, to: Destination | Answering | DeliveryFailed, peer: Peer | None
    ) -> tuple[Due, Destination | Answering | DeliveryFailed, Peer | None]:
        self._in_flight += 1
        return due, to, peer

    def _peer(self, name: str) -> Peer:
        known = self._peers.get(name)
        if known is None:
            settings = self._settings
            known = self._peers[name] = Peer(
                settings.connections,
                settings.rate_per_second,
                settings.breaker_failures,
                Backoff(settings.retry_first_seconds, settings.breaker_pause_seconds),
                time.monotonic,
            )
        return known
