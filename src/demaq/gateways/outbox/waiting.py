"""Messages of one outgoing gateway that are due: which of them may go now.

Messages of one slice go one after the other: each waits for those of its slices that were there before it. Those that
wait for none are in the lane of whom they go to, in order. Their texts are loaded some ahead, and they go as soon as
there is room for them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from demaq.gateways.outbox.delivery_results import DeliveryFailed
from demaq.gateways.outbox.destination import Answering
from demaq.language.endpoints import Destination
from demaq.store.protocol import SliceKey, StoredMessage

LaneName = str | None
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
    message: StoredMessage | None = None
    """With its text, if that is loaded."""
    lane: LaneName = field(init=False)

    def __post_init__(self) -> None:
        self.lane = self.to.peer if isinstance(self.to, Destination) else None


class Lane:
    """The messages that go to one peer."""

    __slots__ = ("characters", "in_no_slice", "known", "loaded", "loading", "unloaded")

    def __init__(self) -> None:
        self.known = 0
        """How many there are, also on their way or after others of their slices."""
        self.in_no_slice = 0
        """How many of them are in no slice: others may wait for messages that go elsewhere."""
        self.unloaded: deque[Due] = deque()
        """Those that may go, without their texts."""
        self.loading = 0
        """How many texts are being read."""
        self.loaded: deque[Due] = deque()
        """Those that may go, with their texts."""
        self.characters = 0
        """Of all texts that are in memory."""


class Waiting:
    """The messages that are known to be due, until they are done."""

    def __init__(self) -> None:
        self._known: dict[int, Due] = {}
        self._slices: dict[SliceKey, deque[Due]] = {}
        """Messages of each slice in order; the first one is on its way or may be."""
        self._lanes: dict[LaneName, Lane] = {}
        self._open: dict[LaneName, None] = {}
        """Lanes that are worth looking at: they have messages that may go, and nothing is known to keep them."""
        self._closed: set[LaneName] = set()
        """Lanes that are not to be looked at, whatever they have."""
        self._unloaded: dict[LaneName, None] = {}
        """Lanes with messages that may go, whose texts are not being read."""
        self.characters = 0
        """Of all texts that are in memory."""

    def __len__(self) -> int:
        """How many are known, with those on their way."""
        return len(self._known)

    def __contains__(self, seq: int) -> bool:
        return seq in self._known

    @property
    def lanes(self) -> int:
        """How many lanes there are."""
        return len(self._lanes)

    def add(self, due: Due) -> None:
        """Add a message after all that are known."""
        self._known[due.seq] = due
        lane = self._lanes.get(due.lane)
        if lane is None:
            lane = self._lanes[due.lane] = Lane()
        lane.known += 1
        lane.in_no_slice += not due.slices
        if due.message is not None:
            self._count(lane, len(due.message.body))
        for slice in due.slices:
            members = self._slices.setdefault(slice, deque())
            due.waits_for += bool(members)
            members.append(due)
        if not due.waits_for:
            self._is_ready(due)

    def count_in(self, name: LaneName) -> int:
        """Return how many are known in a lane that are in no slice."""
        lane = self._lanes.get(name)
        return 0 if lane is None else lane.in_no_slice

    # lanes

    def open_lanes(self) -> list[LaneName]:
        return list(self._open)

    def close_lane(self, name: LaneName) -> None:
        """It is not worth looking at before `open_lane`."""
        self._closed.add(name)
        self._open.pop(name, None)

    def await_texts(self, name: LaneName) -> None:
        """It is not worth looking at before one of its texts is loaded."""
        self._open.pop(name, None)

    def open_lane(self, name: LaneName) -> None:
        self._closed.discard(name)
        lane = self._lanes.get(name)
        if lane is not None and (lane.loaded or lane.unloaded):
            self._open[name] = None

    def to_the_end(self, name: LaneName) -> None:
        """Look at other lanes before this one."""
        if name in self._open:
            del self._open[name]
            self._open[name] = None

    def has_lane(self, name: LaneName) -> bool:
        """Return whether messages of it are known."""
        return name in self._lanes

    # texts

    def lanes_without_texts(self) -> list[tuple[LaneName, Lane]]:
        """Return the lanes with messages that may go, and whose texts are not being read."""
        return [(name, self._lanes[name]) for name in self._unloaded]

    def begin_loading(self, name: LaneName, count: int) -> list[Due]:
        """Return the next messages of a lane, whose texts are read now."""
        lane = self._lanes[name]
        found = [lane.unloaded.popleft() for _ in range(min(count, len(lane.unloaded)))]
        lane.loading += len(found)
        if not lane.unloaded:
            self._unloaded.pop(name, None)
        return found

    def loaded(self, due: Due, message: StoredMessage) -> None:
        """A text was read."""
        lane = self._lanes[due.lane]
        lane.loading -= 1
        self.add_text(due, message)
        lane.loaded.append(due)
        self._note_ready(due.lane)

    def not_loaded(self, dues: Sequence[Due]) -> None:
        """These texts were not read: they are to be read next."""
        for due in reversed(dues):
            lane = self._lanes[due.lane]
            lane.loading -= 1
            lane.unloaded.appendleft(due)
            self._unloaded[due.lane] = None

    def end_loading(self, due: Due) -> None:
        """There is no text."""
        self._lanes[due.lane].loading -= 1

    def is_short_of_texts(self, name: LaneName, few: int) -> bool:
        """Return whether messages of a lane may go whose texts are still to be read, and only few are."""
        return name in self._unloaded and len(self._lanes[name].loaded) + self._lanes[name].loading < few

    def add_text(self, due: Due, message: StoredMessage) -> None:
        """A text was read for a message that is on its way without."""
        due.message = message
        self._count(self._lanes[due.lane], len(message.body))

    def drop_text(self, due: Due) -> None:
        """A text is not needed."""
        if due.message is not None:
            self._count(self._lanes[due.lane], -len(due.message.body))
            due.message = None

    # on their way

    def take(self, name: LaneName) -> Due | None:
        """Return the first message of a lane that has its text. It is on its way now."""
        lane = self._lanes.get(name)
        if lane is None or not lane.loaded:
            return None
        due = lane.loaded.popleft()
        if not lane.loaded and not lane.unloaded:
            self._open.pop(name, None)
        return due

    def take_unloaded(self, name: LaneName) -> Due | None:
        """Return the first message of a lane, with its text or without."""
        lane = self._lanes.get(name)
        if lane is None or lane.loaded or not lane.unloaded:
            return self.take(name)
        due = lane.unloaded.popleft()
        if not lane.unloaded:
            self._unloaded.pop(name, None)
            self._open.pop(name, None)
        return due

    def done(self, due: Due) -> None:
        """Release a message that was taken, delivered or not: those that wait for it may go."""
        del self._known[due.seq]
        lane = self._lanes[due.lane]
        lane.known -= 1
        lane.in_no_slice -= not due.slices
        self.drop_text(due)
        if not lane.known:
            del self._lanes[due.lane]
        for following in self._remaining(due):
            following.waits_for -= 1
            if not following.waits_for:
                self._is_ready(following)

    def _count(self, lane: Lane, characters: int) -> None:
        lane.characters += characters
        self.characters += characters

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
        name = due.lane
        lane = self._lanes[name]
        if due.message is not None and not lane.unloaded and not lane.loading:
            lane.loaded.append(due)
        else:  # after those that have no texts yet: a lane is kept in order
            self.drop_text(due)
            lane.unloaded.append(due)
            self._unloaded[name] = None
        self._note_ready(name)

    def _note_ready(self, name: LaneName) -> None:
        if name not in self._closed:
            self._open[name] = None
