"""What must hold of the history of a simulated node: serial, complete, and delivered as promised."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import pairwise
from typing import Any, Literal

from demaq.evaluation.saxon.saxon_evaluator import SaxonEvaluator
from demaq.store.protocol import Committed, Step
from tests.support.reference.serial_engine import Differs, SerialEngine
from tests.support.simulation.faulty_store import Entry, Journal
from tests.support.simulation.receiver import DeliveryAttempt

_IDENTITY = re.compile(r"<!--(\d+)-->\Z")


@dataclass
class Call:
    """What a client has asked a node for, once or, under a name, several times."""

    what: Literal["enqueue", "enqueue_all", "take"]
    queue: str
    bodies: list[str] = field(default_factory=list)
    properties: dict[str, str] = field(default_factory=dict)
    request: str | None = None
    attempts: int = 0
    acknowledged: list[list[int]] = field(default_factory=list)
    """The numbers of each answer."""
    refused: int = 0
    unknown: int = 0
    """How often the client does not know what has become of it."""


def identified(body: str, number: int) -> str:
    """Return a body by which a message is recognised."""
    return f"{body}<!--{number}-->"


def identity_of(body: str) -> str:
    found = _IDENTITY.search(body)
    assert found is not None, body
    return found[1]


class DeliveringSerialEngine(SerialEngine):
    """Follows deliveries, clients and restarts, too. What deliveries and timers lead to arrives like other messages."""

    def deliver(self, step: Step, done: Committed) -> None:
        assert step.delivered is not None
        own = self._own[step.delivered]
        stored = self._stored(own)
        if step.processed is not None and stored.processed is not None:
            raise Differs(f"message {step.delivered} was processed before it was delivered")
        is_made_elsewhere = [replace(new, trigger=own, origin=stored.origin) for new in step.created]
        [committed] = self.store.commit(
            [Step(processed=own if step.processed else None, delivered=own, created=tuple(is_made_elsewhere))]
        )
        self._own.update(zip(done.created, committed.created, strict=True))
        self._arrived += committed.created

    def fire_timers(self, steps: Sequence[Step], committed: Sequence[Committed]) -> None:
        super().fire_timers(steps, committed)
        self._arrived += [self._own[seq] for done in committed for seq in done.created]

    def take_one(self, seq: int) -> None:
        """A client has got a message of a mailbox, which must be the oldest one."""
        stored = self._stored(self._own[seq])
        [oldest] = self.store.waiting(stored.queue, 1)
        if oldest.seq != stored.seq:
            raise Differs(f"a client took message {seq} of {stored.queue}, which is not the oldest")
        self.store.commit([Step(processed=stored.seq)])

    def is_processed_by_rules(self, seq: int) -> bool:
        return self._engine.factory.priority(self._stored(self._own[seq]).queue) is not None

    def restart(self) -> None:
        for seq, row in list(self.store._rows.items()):
            if row.message.transient:
                self.store._remove(seq)
        self._arrived.clear()


class NodeHistory:
    """Follows the journal of a node, and looks at the calls of clients and at what the receiver got."""

    def __init__(self, evaluator: SaxonEvaluator, journal: Journal, start: datetime, hops_max: int) -> None:
        self._journal = journal
        self._now = start
        self._program = evaluator.compiled.plan.program
        self._serial = DeliveringSerialEngine(evaluator, lambda: self._now, hops_max)
        self._followed = 0
        self.calls: list[Call] = []
        self.attempts: list[DeliveryAttempt] = []

    def follow(self, store: Any) -> None:
        """Compare what was committed with a serial execution, and the store with what that leads to."""
        by_identity = {identity_of(body): call for call in self.calls for body in call.bodies}
        for entry in self._journal.entries[self._followed :]:
            self._followed += 1
            if entry.what == "restarted":
                self._serial.restart()
            elif entry.message is not None:
                self._now = entry.message.created
                call = by_identity[identity_of(entry.message.body)]
                self._serial.arrive(entry.seq, entry.message.queue, entry.message.body, call.properties)
            else:
                self._follow_step(entry)
        self._serial.assert_same_state(store)

    def _follow_step(self, entry: Entry) -> None:
        step, done = entry.step, entry.committed
        assert step is not None
        assert done is not None
        if step.created:
            self._now = step.created[0].created
        if step.delivered is not None:
            self._serial.deliver(step, done)
        elif step.fired is not None:
            self._serial.fire_timers([step], [done])
        elif not step.is_event:
            self._serial.follow_passed(step, done)
        elif step.processed is not None and not self._serial.is_processed_by_rules(step.processed):
            self._serial.take_one(step.processed)
        else:
            self._serial.follow(step, done)

    # clients

    def check_calls(self) -> None:
        """Nothing that was acknowledged is lost or doubled, and nothing that was refused is there."""
        stored: dict[str, list[int]] = defaultdict(list)
        for entry in self._journal.entries:
            if entry.message is not None:
                stored[identity_of(entry.message.body)].append(entry.seq)
        for call in self.calls:
            # A transient message is gone after a restart, with the name of its request.
            if call.what != "take" and self._program.queues[call.queue].mode != "transient":
                _check_call(call, [stored[identity_of(body)] for body in call.bodies])
        self._check_taken()

    def _check_taken(self) -> None:
        taken = [seq for call in self.calls if call.what == "take" for seqs in call.acknowledged for seq in seqs]
        assert len(taken) == len(set(taken)), f"taken twice: {taken}"
        processed = {entry.step.processed for entry in self._journal.entries if entry.step is not None}
        assert set(taken) <= processed, "a client got a message that is not marked processed"

    # deliveries

    def check_deliveries(self) -> None:
        """Each message of a gateway was accepted, once unless the sender could not know, and slices in order."""
        ends, created = self._delivered(), self._sendable()
        attempts: dict[int, list[DeliveryAttempt]] = defaultdict(list)
        for attempt in self.attempts:
            assert attempt.began > created[attempt.seq], f"message {attempt.seq} was sent before it was stored"
            attempts[attempt.seq].append(attempt)
        for seq in created:
            assert seq in ends, f"message {seq} was never delivered"
            place, is_delivered = ends[seq]
            assert not is_delivered or any([a.is_accepted for a in attempts[seq]]), f"message {seq} is not delivered"
            _check_attempts(attempts[seq], place)
        for node in {attempt.node for attempt in self.attempts}:
            self._check_order([attempt for attempt in self.attempts if attempt.node == node], created)

    def _sendable(self) -> dict[int, int]:
        """Return the messages of outgoing gateways, each with the place of its creation."""
        found = {}
        for place, entry in enumerate(self._journal.entries):
            if entry.message is not None and entry.message.undelivered:
                found[entry.seq] = place
            if entry.step is not None and entry.committed is not None:
                for new, seq in zip(entry.step.created, entry.committed.created, strict=True):
                    if new.undelivered:
                        found[seq] = place
        return found

    def _delivered(self) -> dict[int, tuple[int, bool]]:
        """Return the place at which the delivery of each message ended, and whether it was delivered."""
        found: dict[int, tuple[int, bool]] = {}
        for place, entry in enumerate(self._journal.entries):
            if entry.step is not None and entry.step.delivered is not None:
                assert entry.step.delivered not in found, f"message {entry.step.delivered} was delivered twice"
                attempt = entry.step.attempt
                assert attempt is not None
                found[entry.step.delivered] = place, attempt.result == "sent"
        return found

    def _check_order(self, attempts: Sequence[DeliveryAttempt], created: Mapping[int, int]) -> None:
        """Within a slice no two are on their way at once, and none is before an older one that is not tried again."""
        for place, attempt in enumerate(attempts):
            for other in attempts[:place]:
                is_over = other.ended is not None and other.ended <= attempt.began
                if not is_over and _share_a_slice(other, attempt):
                    raise AssertionError(f"messages {other.seq} and {attempt.seq} of one slice were sent at once")
        first: dict[int, DeliveryAttempt] = {}
        for attempt in attempts:
            for seq, earlier in first.items():
                is_passed = attempt.seq < seq and attempt.seq not in first and _share_a_slice(earlier, attempt)
                is_put_off = self._journal.postponed.get(attempt.seq, earlier.began + 1) <= earlier.began
                if is_passed and not is_put_off and created[attempt.seq] < earlier.began:
                    raise AssertionError(f"message {seq} was sent before {attempt.seq} of the same slice")
            first.setdefault(attempt.seq, attempt)


def _share_a_slice(one: DeliveryAttempt, other: DeliveryAttempt) -> bool:
    return one.queue == other.queue and not set(one.slices).isdisjoint(other.slices)


def _check_call(call: Call, stored: Sequence[Sequence[int]]) -> None:
    answers = {tuple(seqs) for seqs in call.acknowledged}
    counts = {len(seqs) for seqs in stored}
    assert len(counts) == 1, f"a part of {call} is stored: {stored}"
    [times] = counts
    if call.request is not None:
        assert times <= 1, f"stored {times} times in spite of its name: {call}"
    assert len(answers) <= 1 or call.request is None, f"different answers to one request: {call}"
    if call.acknowledged:
        for seqs in call.acknowledged:
            assert all([seq in found for seq, found in zip(seqs, stored, strict=True)]), f"{call}: {stored}"
        assert times >= 1, f"acknowledged and lost: {call}"
    at_most = 1 if call.request is not None else len(call.acknowledged) + call.unknown
    assert times <= at_most, f"stored {times} times: {call}"
    assert times >= (1 if call.request is not None and call.acknowledged else len(call.acknowledged)), f"lost: {call}"


def _check_attempts(attempts: Sequence[DeliveryAttempt], end: int) -> None:
    """After one that was acknowledged there is another one only if the node ended in between, unnoted."""
    for attempt in attempts:
        assert attempt.began <= end, f"message {attempt.seq} was sent after its delivery was noted"
    for before, after in pairwise(attempts):
        if before.is_acknowledged:
            assert before.node < after.node, f"message {before.seq} was acknowledged and sent again"
