"""The sequences of WS-ReliableMessaging of which this node is the destination.

A `SequenceTransition` collects what one transaction changes about them. The pure rules are in
`demaq.soap.reliability.sequence_destination`. These invariants hold:

- One transition is open at a time, from reading a sequence to the end of the commit that stores it.
- What a transition decides holds only when its changes are committed, together with the messages that it lets in.
- If a commit fails, it may have taken place all the same: the sequences are read from the store again.
- A sequence is used by its creator alone: for all others, and through other gateways, it does not exist.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from demaq.soap.reliability.inbound_sequence import InboundSequence, InboundState
from demaq.soap.reliability.protocol_messages import CreateSequence
from demaq.soap.reliability.reliability_faults import FaultName, ReliabilityFault
from demaq.soap.reliability.reliability_versions import ReliabilityVersion
from demaq.soap.reliability.sequence_creation import CreationRules, create_inbound
from demaq.soap.reliability.sequence_destination import (
    InboundDecision,
    InboundEvent,
    TerminateRequested,
    TimePassed,
    advance,
    refuse_unknown,
)
from demaq.store.protocol import SequenceChanges, SequenceMessage, Store, StoredSequence

SEQUENCES_MAX = 10_000
"""The most sequences of one gateway that have not ended. Further ones are refused for now."""
IN: Final = "in"


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceOwner:
    """Who may use a sequence: one sender, through one gateway."""

    queue: str
    peer: str
    """The authenticated name of the sender; empty if the gateway asks for none."""


@dataclass(frozen=True, slots=True)
class _OwnedSequence:
    owner: SequenceOwner
    sequence: InboundSequence
    used: datetime
    """When it was changed, or asked for."""


class InboundSequences:
    """All of them. May be used by several threads."""

    def __init__(
        self,
        store: Store,
        clock: Callable[[], datetime],
        inactivity: Mapping[str, timedelta] | None = None,
    ) -> None:
        """`inactivity` is, by gateway, after what time without messages a sequence is terminated."""
        self._store = store
        self._clock = clock
        self._inactivity = inactivity or {}
        self._known: dict[str, _OwnedSequence] | None = None
        """None until they are read from the store."""
        self._lock = threading.Lock()

    @contextmanager
    def begin(self) -> Iterator[SequenceTransition]:
        """Open a transition. Its changes must be committed within the block; if that raises, they do not hold."""
        with self._lock:
            known = self._load()
            transition = SequenceTransition(self._store, known, self._clock())
            try:
                yield transition
            except BaseException:
                self._known = None
                raise
            known.update(transition.touched)

    def list_inactive(self) -> list[tuple[SequenceOwner, InboundSequence]]:
        """Return the sequences that have expired, or were not used for too long."""
        now = self._clock()
        with self._lock:
            known = self._load()
            ended = [name for name, each in known.items() if _is_forgotten(each, now)]
            for name in ended:
                del known[name]
            return [(each.owner, each.sequence) for each in known.values() if self._is_over(each, now)]

    def _is_over(self, known: _OwnedSequence, now: datetime) -> bool:
        sequence = known.sequence
        if sequence.state == InboundState.TERMINATED:
            return False
        limit = self._inactivity.get(known.owner.queue)
        is_expired = sequence.expires_at is not None and now.timestamp() >= sequence.expires_at
        return is_expired or (limit is not None and now - known.used >= limit)

    def _load(self) -> dict[str, _OwnedSequence]:
        if self._known is None:
            self._known = {
                stored.name: _OwnedSequence(
                    SequenceOwner(queue=stored.queue, peer=stored.peer),
                    InboundSequence.from_json(stored.content),
                    stored.changed,
                )
                for stored in self._store.sequences(IN)
            }
        return self._known


class SequenceTransition:
    """What one transaction changes about sequences."""

    def __init__(self, store: Store, known: Mapping[str, _OwnedSequence], now: datetime) -> None:
        self._store = store
        self._before = known
        self._now = now
        self._added: dict[tuple[str, int], str] = {}
        self._removed: list[tuple[str, int]] = []
        self.touched: dict[str, _OwnedSequence] = {}

    def changes(self, replay_keys: Mapping[str, datetime] | None = None) -> SequenceChanges | None:
        """Return what has to be committed; None if nothing has to be."""
        written = [each for name, each in self.touched.items() if each.sequence is not self._sequence_before(name)]
        if not written and not replay_keys:
            return None
        return SequenceChanges(
            sequences=tuple([_make_row(each) for each in written]),
            added=tuple(
                [
                    SequenceMessage(direction=IN, sequence=name, number=number, held=text)
                    for (name, number), text in self._added.items()
                ]
            ),
            removed=tuple([(IN, name, number) for name, number in self._removed]),
            replay_keys=replay_keys or {},
        )

    def create(
        self,
        owner: SequenceOwner,
        request: CreateSequence,
        rules: CreationRules,
        *,
        message_id: str | None,
        identifier: str,
    ) -> InboundSequence | ReliabilityFault:
        """Return the new sequence, the one that the same request has made before, or why there is none."""
        before = self.find_created(owner, message_id)
        if before is not None:
            return before
        live = [each for each in self._all().values() if each.owner.queue == owner.queue and _is_live(each.sequence)]
        if len(live) >= SEQUENCES_MAX:
            reason = "there are too many sequences already"
            return ReliabilityFault(
                version=request.version,
                name=FaultName.CREATE_SEQUENCE_REFUSED,
                reason=reason,
                is_from_receiver=True,
            )
        made = create_inbound(request, rules, identifier=identifier, message_id=message_id, now=self._now.timestamp())
        if isinstance(made, InboundSequence):
            self.touched[identifier] = _OwnedSequence(owner, made, self._now)
        return made

    def find_created(self, owner: SequenceOwner, message_id: str | None) -> InboundSequence | None:
        """Return the sequence that a request with this MessageID has made, if it has not ended."""
        own = [each.sequence for each in self._all().values() if each.owner == owner and _is_live(each.sequence)]
        same = [each for each in own if message_id is not None and each.created_by == message_id]
        return same[0] if same else None

    def find(self, owner: SequenceOwner, identifier: str) -> InboundSequence | None:
        """Return a sequence of this owner."""
        known = self.touched.get(identifier) or self._before.get(identifier)
        return known.sequence if known is not None and known.owner == owner else None

    def advance(
        self, owner: SequenceOwner, version: ReliabilityVersion, identifier: str, event: InboundEvent
    ) -> tuple[InboundSequence | None, tuple[InboundDecision, ...]]:
        """Return a sequence after an event, None if there is no such sequence, and what has to be done."""
        sequence = self.find(owner, identifier)
        if sequence is None or sequence.version != version:
            return None, (refuse_unknown(version, identifier),)
        after, decisions = advance(sequence, event, self._now.timestamp())
        unchanged = after == sequence
        self.touched[identifier] = _OwnedSequence(owner, sequence if unchanged else after, self._now)
        return after, decisions

    def end_inactive(self, owner: SequenceOwner, identifier: str) -> tuple[InboundDecision, ...]:
        """Terminate a sequence that has expired, or was not used for too long."""
        sequence = self.find(owner, identifier)
        if sequence is None or sequence.state == InboundState.TERMINATED:
            return ()
        _, expired = self.advance(owner, sequence.version, identifier, TimePassed())
        known = self.touched[identifier]
        if known.sequence.state == InboundState.TERMINATED:
            return expired
        return self.advance(owner, sequence.version, identifier, TerminateRequested())[1]

    def hold(self, identifier: str, number: int, text: str) -> None:
        """Keep a message that waits for those before it."""
        self._added[identifier, number] = text

    def release(self, identifier: str, numbers: Sequence[int]) -> list[str]:
        """Return messages that were held back, in this order, and keep them no longer."""
        stored: dict[int, str] = {}
        if any([(identifier, number) not in self._added for number in numbers]):
            rows = self._store.sequence_messages(IN, identifier)
            stored = {row.number: row.held for row in rows if row.held is not None}
        texts = []
        for number in numbers:
            text = self._added.pop((identifier, number), None)
            if text is None:
                text = stored.get(number)
                self._removed.append((identifier, number))
            if text is not None:  # it is missing only in a damaged store
                texts.append(text)
        return texts

    def _sequence_before(self, name: str) -> InboundSequence | None:
        known = self._before.get(name)
        return known.sequence if known is not None else None

    def _all(self) -> dict[str, _OwnedSequence]:
        return {**self._before, **self.touched}


def _make_row(known: _OwnedSequence) -> StoredSequence:
    sequence = known.sequence
    return StoredSequence(
        direction=IN,
        name=sequence.identifier,
        queue=known.owner.queue,
        peer=known.owner.peer,
        has_ended=not _is_live(sequence),
        content=sequence.to_json(),
        changed=known.used,
    )


def _is_live(sequence: InboundSequence) -> bool:
    return sequence.state != InboundState.TERMINATED


def _is_forgotten(known: _OwnedSequence, now: datetime) -> bool:
    """Return whether the store has removed a sequence that has ended, or will soon."""
    return not _is_live(known.sequence) and now - known.used >= timedelta(days=1)
