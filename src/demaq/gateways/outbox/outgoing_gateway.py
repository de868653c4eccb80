"""One outgoing gateway at work: whom its messages go to, which texts are wanted, and what may begin now."""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple

from demaq.backoff import Backoff
from demaq.gateways.outbox.delivery_results import DeliveryFailed
from demaq.gateways.outbox.destination import Answering, DestinationResolver
from demaq.gateways.outbox.due_reader import LOOK_SECONDS_MAX, DueReader
from demaq.gateways.outbox.peers import Peer
from demaq.gateways.outbox.waiting import Due, LaneName, Waiting
from demaq.gateways.rate_limit import RateLimit
from demaq.gateways.settings import OutgoingSettings
from demaq.language.endpoints import Destination
from demaq.store.protocol import Postponed, Store

SENDING_MAX = 256
"""So many messages of a gateway are sent at once, whomever they go to."""
SENDING_MANY = SENDING_MAX // 2
"""From here on only peers begin that have no message on its way: slow ones may have the others."""
AHEAD_SHARE = 16
"""For each connection so many texts are loaded ahead, and half of them at least at once."""
AHEAD_MIN, AHEAD_MAX = 16, 256
PUT_OFF_MAX = 100_000
"""Of so many messages it is remembered that they wait for another side to come back."""
LAST_ATTEMPTS = 3
"""So many attempts of a message keep their pauses, so that one that comes and goes does not use all of them up."""
HASTEN_MAX = 500
"""So many messages become due at once."""


class Begun(NamedTuple):
    """A message that goes now."""

    due: Due
    to: Destination | Answering | DeliveryFailed
    """Where to, or why it does not go."""
    peer: Peer | None
    """Whose turn it takes, if it takes one."""


class OutgoingGateway:
    """Belongs to one event loop."""

    def __init__(
        self,
        queue: str,
        settings: OutgoingSettings,
        addressing: DestinationResolver,
        store: Store,
        is_paused: Callable[[], bool] = lambda: False,
    ) -> None:
        """`is_paused` says whether operators let nothing be sent now."""
        self.queue = queue
        self.settings = settings
        self.is_paused = is_paused
        rate = settings.gateway_rate_per_second
        self._limit = RateLimit(rate, settings.gateway_burst) if rate is not None else None
        self.purged: set[int] = set()
        """Messages that operators have removed, and that may be known here."""
        self.waiting = Waiting()
        self.reader = DueReader(queue, store, addressing, self.waiting, settings.connections)
        self._ahead = min(max(AHEAD_SHARE * settings.connections, AHEAD_MIN), AHEAD_MAX)
        self._peers: dict[str, Peer] = {}
        self._later: list[tuple[float, str]] = []
        """When lanes open again whose turn is a matter of time."""
        self._sending = 0
        self._put_off: dict[str, dict[int, datetime | None]] = {}
        """By whom they go to, messages that failed because of the other side, with when it wants to be asked again."""
        self._put_offs = 0
        self._back: dict[int, datetime | None] = {}
        """Those of them whose other side is back."""

    def open_breakers(self) -> list[str]:
        """Return who is not even tried now. May be called from any thread."""
        return [name for name, peer in self._peers.copy().items() if not peer.is_open]

    # what is due

    def postponed(self, due: datetime) -> None:
        """A message that is done with for now is due at another time."""
        self.reader.note_postponed(due)

    def note_put_off(self, lane: str, seq: int, attempts: int, not_before: datetime | None) -> None:
        """A message waits for another side to come back, after so many attempts."""
        if attempts > self.settings.attempts - LAST_ATTEMPTS or self._put_offs >= PUT_OFF_MAX:
            return
        messages = self._put_off.setdefault(lane, {})
        self._put_offs += seq not in messages
        messages[seq] = not_before

    def hasten(self, now: datetime) -> list[Postponed]:
        """Return what need not wait any longer, because its other side is back: when it is due instead."""
        seqs = list(self._back)[:HASTEN_MAX] if self._back else []
        found = [(seq, self._back.pop(seq)) for seq in seqs]
        return [
            Postponed(message=seq, due=max(now, at) if at is not None else now)
            for seq, at in found
            if seq not in self.waiting  # it is on its way again, and what becomes of that decides
        ]

    def pause_seconds(self, now: datetime) -> float:
        """Return how long there is nothing to do, unless something ends or comes."""
        if self.is_paused():
            return LOOK_SECONDS_MAX
        if self._back:
            return 0.0
        limited = self._limit.wait_seconds() if self._limit is not None else 0.0
        if limited and self.waiting.open_lanes():
            return limited
        pause = self.reader.pause_seconds(now)
        return max(min(pause, self._later[0][0] - time.monotonic()), 0.0) if self._later else pause

    # texts

    def wanted_texts(self, limit: int, count_room: Callable[[int], int]) -> list[Due]:
        """Return messages whose texts are to be read now. `count_room` returns for how many texts there is room in a
        lane that has so many characters."""
        found: list[Due] = []
        for name, lane in self.waiting.lanes_without_texts():
            if len(found) >= limit:
                break
            wanted = self._ahead - len(lane.loaded) - lane.loading
            if name is not None:
                peer = self._peers.get(name)
                if peer is not None and not peer.may_try:
                    continue  # they are put off without
                if peer is not None and not peer.is_open and (lane.loaded or lane.loading):
                    continue  # one is enough to see whether the other side is back
            if wanted > 0 and (wanted >= self._ahead // 2 or len(lane.unloaded) <= wanted):
                room = count_room(lane.characters)
                found += self.waiting.begin_loading(name, min(wanted, room, limit - len(found)))
        return found

    def vanished(self, due: Due) -> None:
        """A message whose text was wanted is not to be sent any more."""
        self.waiting.end_loading(due)
        self.done(due)

    def wants_texts(self, name: LaneName) -> bool:
        """Return whether few texts of a lane are left."""
        return self.waiting.is_short_of_texts(name, self._ahead // 2)

    # what may begin

    def begin_next(self) -> Begun | None:
        """Return the next message that may go."""
        if self.is_paused():
            return None
        at = time.monotonic()
        while self._later and self._later[0][0] <= at:
            self.waiting.open_lane(heapq.heappop(self._later)[1])
        for name in self.waiting.open_lanes():
            begun = self.begin_in(name)
            if begun is not None:
                self.waiting.to_the_end(name)
                return begun
        return None

    def begin_in(self, name: LaneName) -> Begun | None:
        """Return the next message of a lane that may go."""
        waiting = self.waiting
        if self.is_paused():
            return None
        if name is None:
            due = self._take_stored(waiting.take, name)
            if due is None:
                waiting.await_texts(name)
            return None if due is None else Begun(due, due.to, None)
        peer = self._peer(name)
        if self._sending >= SENDING_MAX or (self._sending >= SENDING_MANY and peer.is_busy):
            return None
        wait = peer.wait_seconds()
        if wait is None or wait > 0:
            waiting.close_lane(name)
            if wait is not None:
                heapq.heappush(self._later, (time.monotonic() + wait, name))
            return None
        if self._limit is not None and self._limit.wait_seconds():
            return None
        due = self._take_stored(waiting.take if peer.may_try else waiting.take_unloaded, name)
        if due is None:
            waiting.await_texts(name)
            return None
        refusal = peer.refusal()
        if refusal is not None:
            return Begun(due, refusal, None)
        peer.begin()
        if self._limit is not None:
            self._limit.take()
        self._sending += 1
        return Begun(due, due.to, peer)

    def _take_stored(self, take: Callable[[LaneName], Due | None], name: LaneName) -> Due | None:
        """Return the next message that operators have not removed."""
        due = take(name)
        while due is not None and self.purged and due.seq in self.purged:
            self.done(due)
            due = take(name)
        return due

    def end(self, due: Due, peer: Peer, failure: DeliveryFailed | None) -> None:
        """An attempt is over, and its connection free; what it makes of the message is still to be noted."""
        self._sending -= 1
        is_back = peer.end(failure)
        lane = due.lane
        assert lane is not None, "it took the turn of a peer"
        if is_back:
            put_off = self._put_off.pop(lane, {})
            self._put_offs -= len(put_off)
            self._back.update(put_off)
        self.waiting.open_lane(lane)

    def done(self, due: Due) -> bool:
        """What became of a message is noted. Return whether something may begin or be read because of that."""
        lane = due.lane
        self.waiting.done(due)
        self.purged.discard(due.seq)
        if lane is not None and not self.waiting.has_lane(lane):
            peer = self._peers.get(lane)
            if peer is not None and peer.is_idle:
                del self._peers[lane]
        return self.reader.note_done(due) or bool(due.slices)

    def _peer(self, name: str) -> Peer:
        known = self._peers.get(name)
        if known is None:
            settings = self.settings
            known = self._peers[name] = Peer(
                settings.connections,
                settings.rate_per_second,
                settings.breaker_failures,
                Backoff(settings.retry_first_seconds, settings.breaker_pause_seconds),
                time.monotonic,
            )
        return known
