"""What an engine has committed of messages that it has evaluated on arrival, done again in the serial order.

Other than rounds, which may take messages of one priority in any order, an arrival may pass no message that waits: the
interpreter processes a message when it is its turn, whenever the engine did that. So each step has to be the one of a
serial execution. Only messages that make no difference to any other one may be processed before their turn on arrival,
and none of these passes what one has led to that has come with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from demaq.engine.arrivals import _Passing
from demaq.engine.intake import IncomingMessage
from demaq.errors import MessageError, StoreError
from demaq.store import MemoryStore
from demaq.store.protocol import Committed, Elision, NewMessage, SequenceChanges, Step
from demaq.system_properties import ERROR_LEVEL
from tests.support.reference.interpreter import Kept, Refused
from tests.support.reference.serial_run import SerialRun


@dataclass(frozen=True, kw_only=True)
class Happened:
    """What was written in one transaction."""

    steps: Sequence[Step]
    committed: Sequence[Committed]


class RecordingStore(MemoryStore):
    """Records transactions, and may fail before one or after it."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        super().__init__(now=now)
        self.happened: list[Happened] = []
        self.failing = ""
        """`before` or `after` the next transaction, in which case its result is lost."""

    def append(self, messages: Sequence[NewMessage], changes: SequenceChanges | None = None) -> list[int]:
        self._fail("before")
        before = self.snapshot()
        numbers = super().append(messages, changes)
        arrival = Step(created=tuple(messages))
        self.happened.append(
            Happened(steps=[arrival], committed=[Committed(number=before, created=tuple(numbers), retired=())])
        )
        self._fail("after")
        return numbers

    def commit(
        self, steps: Sequence[Step], elide: Elision = False, changes: SequenceChanges | None = None
    ) -> list[Committed]:
        self._fail("before")
        committed = super().commit(steps, elide, changes)
        self.happened.append(Happened(steps=list(steps), committed=list(committed)))
        self._fail("after")
        return committed

    def _fail(self, when: str) -> None:
        if self.failing == when:
            self.failing = ""
            raise StoreError(f"failed {when} it was written")


@dataclass(eq=False, kw_only=True)
class _Turn:
    """A message that the engine has processed, with what that has led to."""

    number: int
    created: list[tuple[NewMessage, int]]
    is_folded: bool
    has_passed: bool


class ArrivalRun(SerialRun):
    """An interpreter that follows an engine to which messages come while others wait."""

    def __init__(
        self,
        text: str,
        now: datetime,
        hops_max: int,
        comes_and_goes: Callable[[str], bool],
        messages_max: int,
        is_paused: Callable[[str], bool],
        is_alone: Callable[[str], bool],
        is_exact: bool,
    ) -> None:
        """`is_alone` says of a queue whether its messages make no difference to others, unless they are in a slice. If
        `is_exact`, rounds process messages in the serial order, too."""
        super().__init__(text, now, hops_max, frozenset(), comes_and_goes, messages_max, is_paused)
        self._is_alone = is_alone
        self._is_exact = is_exact
        self._waiting: dict[int, _Turn] = {}
        """What the engine has processed before its turn, by number."""
        self._seqs: dict[Kept, int] = {}
        """The engine's numbers."""
        self.overtaken = 0
        """How many messages were processed before their turn."""
        self.passed_priorities = 0
        """How many messages were processed while one of a lower priority waited."""

    def assert_nothing_waits(self) -> None:
        """All that the engine has processed has had its turn."""
        first = self._first()
        waits_for = first and (self._seqs[first], first.queue, first.body)
        assert not self._waiting, f"the engine has processed {list(self._waiting)}, and before that comes {waits_for}"

    def follow_commit(
        self,
        happened: Happened,
        sent: Mapping[int, tuple[str, IncomingMessage]],
        passing: Mapping[int, Sequence[_Passing]],
    ) -> None:
        """`sent` has what was sent, by the identity of the message that is stored of it; `passing` the messages of
        which nothing else is stored, by the identity of the step that stores their effects."""
        fired: list[tuple[NewMessage, int]] = []
        is_arrival = any([_is_arrival(step) for step in happened.steps])
        for step, done in zip(happened.steps, happened.committed, strict=True):
            created = list(zip(step.created, done.created, strict=True))
            if step.fired is not None:
                fired += created
            elif id(step) in passing:
                self._pass(passing[id(step)], created)
            elif step.processed is not None:
                is_folded = step.elided > 0
                turn = _Turn(number=step.processed, created=created, is_folded=is_folded, has_passed=False)
                self._take_turn(turn, is_arrival or self._is_exact)
                if is_arrival:
                    self._expect_alone(turn)
            else:
                for new, number in created:
                    if number not in self._known:  # else it repeats a request
                        self.arrive(number, *sent[id(new)])
        if any([step.fired is not None for step in happened.steps]):
            self._take_all_turns()
            self._fire_timers([step.fired for step in happened.steps if step.fired is not None], fired)

    def arrive(self, number: int, queue: str, incoming: IncomingMessage) -> None:
        body = incoming.body if isinstance(incoming.body, str) else incoming.body.decode("utf-8")
        self.arrived(number, queue, body, incoming.properties)
        kept = self.interpreter.stored[-1]
        kept.hops = incoming.hops
        if ERROR_LEVEL in incoming.system:
            kept.level = int(incoming.system[ERROR_LEVEL].text)

    def is_refused(self, queue: str, incoming: IncomingMessage) -> bool:
        """Return whether a message may not come."""
        count = self.interpreter.count
        try:
            self.arrive(0, queue, incoming)
        except (Refused, MessageError):
            return True
        self._seqs.pop(self.interpreter.stored.pop())
        self.interpreter.count = count
        return False

    def take_turns(self) -> None:
        """Process what the engine has processed, as far as nothing waits before it."""
        while self._waiting:
            first = self._first()
            if first is None or self._seqs[first] not in self._waiting:
                return
            self._process_turn(self._waiting.pop(self._seqs[first]))

    def _pass(self, passing: Sequence[_Passing], created: list[tuple[NewMessage, int]]) -> None:
        place = 0
        for each in passing:
            made = created[place : place + len(each.passed.created)]
            place += len(made)
            self.arrive(each.seq, each.queue, each.incoming)
            is_folded = each.passed.folded is not None
            turn = _Turn(number=each.seq, created=made, is_folded=is_folded, has_passed=True)
            self._take_turn(turn, True)
            self._expect_alone(turn, each.is_alone)
            if turn.number in self._waiting:
                first = self._first()
                earlier = [number for _, number in created[: place - len(made)]]
                assert first is None or self._seqs[first] not in earlier, f"{turn.number} passes {self._seqs[first]}"
        assert place == len(created)

    def _take_turn(self, turn: _Turn, in_order: bool) -> None:
        self._waiting[turn.number] = turn
        message = self._known.get(turn.number)
        is_taken = message is not None and not self.interpreter.pertaining(message.queue)
        if message is not None and (is_taken or not in_order):
            self._process_turn(self._waiting.pop(turn.number))
        self.take_turns()
        self.overtaken += turn.number in self._waiting

    def _expect_alone(self, turn: _Turn, has_read_nothing: bool = False) -> None:
        """Let nothing be processed before its turn on arrival that others may see, or that may see others.

        What has read nothing is only compared in its turn: rules that would read did not apply to it.
        """
        if turn.number in self._waiting:
            kept = self._known.get(turn.number)
            is_alone = kept is not None and (has_read_nothing or self._is_alone(kept.queue))
            may_be_first = kept is not None and is_alone and not kept.slices
            may_be_first = may_be_first and not any(["<error" in new.body for new, _ in turn.created])
            assert may_be_first, f"message {turn.number} was processed before its turn"

    def _take_all_turns(self) -> None:
        """Timers have no place in the order."""
        while known := [self._known[number] for number in self._waiting if number in self._known]:
            self._process_turn(self._waiting.pop(self._seqs[min(known, key=self._place)]))
        assert not self._waiting

    def _fire_timers(self, fired: Sequence[int], created: list[tuple[NewMessage, int]]) -> None:
        """Timers that were set before their turn have other places here among those of the same time."""
        before = len(self.interpreter.made)
        self.interpreter._fire_timers()
        made = self.interpreter.made[before:]
        numbers = [kept.number for kept in made]
        places = {number: place for place, number in enumerate(fired)}
        made.sort(key=lambda kept: -1 if kept.trigger is None else places.get(self._seqs[kept.trigger], -1))
        for kept, number in zip(made, numbers, strict=True):
            kept.number = number
        self._same(created, made)

    def _first(self) -> Kept | None:
        """Return the message whose turn it is."""
        pending = [kept for kept in self.interpreter.stored if self._is_pending(kept)]
        return min(pending, key=self._place, default=None)

    def _is_pending(self, kept: Kept) -> bool:
        is_pending = not kept.processed and bool(self.interpreter.pertaining(kept.queue))
        return is_pending and not self._is_paused(kept.queue)

    def _place(self, kept: Kept) -> tuple[int, int]:
        return -self.interpreter.program.queues[kept.queue].priority, self._seqs[kept]

    def _process_turn(self, turn: _Turn) -> None:
        message = self._known[turn.number]
        priority = self._place(message)[0]
        self.passed_priorities += any(
            [self._place(kept)[0] > priority for kept in self.interpreter.stored if self._is_pending(kept)]
        )
        before = len(self.interpreter.made)
        self._process(message, turn.is_folded)
        made = self.interpreter.made[before:]
        if turn.is_folded:
            made = [kept for kept in made if not self._comes_and_goes(kept.queue)]
        self._same(turn.created, made)
        assert not turn.has_passed or message.gone_at is not None, "a message that was not stored has not gone"

    def _know(self, number: int, kept: Kept) -> None:
        super()._know(number, kept)
        self._seqs[kept] = number


def _is_arrival(step: Step) -> bool:
    """Whether a step stores messages from outside, or what they have led to."""
    return step.processed is None and step.fired is None
