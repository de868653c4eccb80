"""What one transaction changes about sequences of which this node is the source."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Protocol

from demaq.gateways.outbox.delivery_results import ResponseFacts
from demaq.soap.addressing.endpoint_reference import EndpointReference
from demaq.soap.reliability.number_ranges import NO_NUMBERS, NumberRanges
from demaq.soap.reliability.outbound_sequence import ENDED, OutboundSequence, OutboundState
from demaq.soap.reliability.protocol_messages import CreateSequenceResponse
from demaq.soap.reliability.reliability_faults import ReliabilityFault
from demaq.soap.reliability.reliability_versions import MESSAGE_NUMBER_MAX, ReliabilityVersion
from demaq.soap.reliability.sequence_headers import Acknowledgement
from demaq.soap.reliability.sequence_source import (
    OutboundDecision,
    RetransmissionRules,
    assign_number,
    finish,
    give_up,
    leave,
    note_acknowledged,
    note_closed,
    note_created,
    note_expired,
    note_fault,
    note_sent,
    note_terminated,
    restart,
    take_due,
)
from demaq.store.protocol import SequenceChanges, SequenceDirection, SequenceMessage, Store, StoredSequence


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceEntry:
    """A sequence with the messages in it that are not delivered."""

    name: str
    """The MessageID of its CreateSequence."""
    queue: str
    peer: str
    """The address that it goes to."""
    value: OutboundSequence
    messages: Mapping[int, int] = field(default_factory=dict)
    """By number, the numbers of messages in the store. Some are acknowledged, and wait for their answers."""
    changed: datetime

    @property
    def has_ended(self) -> bool:
        """Return whether it can be forgotten."""
        return self.value.state in ENDED and not self.messages

    @property
    def blocks(self) -> bool:
        """Return whether it has a gap: until it is known what was received, nothing else is sent."""
        return self.value.state == OutboundState.CLOSING and bool(self.value.unacknowledged)


class DraftParent(Protocol):
    """What is known before a draft."""

    @property
    def entries(self) -> Mapping[str, SequenceEntry]: ...

    @property
    def places(self) -> Mapping[int, tuple[str, int]]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSequence:
    """How the first message to a destination makes a sequence."""

    queue: str
    peer: str
    version: ReliabilityVersion
    acks_to: EndpointReference


class JournalDraft:
    """Made by `OutboundJournal.begin`. Sees its own changes."""

    def __init__(self, parent: DraftParent, store: Store, now: datetime, make_id: Callable[[], str]) -> None:
        self.touched: dict[str, SequenceEntry] = {}
        self.acknowledged: list[int] = []
        """Messages that were acknowledged for the first time."""
        self.replay_keys: dict[str, datetime] = {}
        self._parent = parent
        self._store = store
        self._now = now
        self._make_id = make_id
        self.places: dict[int, tuple[str, int] | None] = {}
        """Of messages whose place has changed; None for those that are in no sequence any more."""

    def changes(self) -> SequenceChanges | None:
        """Return what has to be committed; None if nothing has changed."""
        if not self.touched and not self.replay_keys:
            return None
        added: list[SequenceMessage] = []
        removed: list[tuple[SequenceDirection, str, int]] = []
        for name, entry in self.touched.items():
            before = self._parent.entries[name].messages if name in self._parent.entries else {}
            added += [
                SequenceMessage(direction="out", sequence=name, number=number, message=message)
                for number, message in entry.messages.items()
                if before.get(number) != message
            ]
            removed += [("out", name, number) for number in before if number not in entry.messages]
        return SequenceChanges(
            sequences=tuple([_make_row(entry) for entry in self.touched.values()]),
            added=tuple(added),
            removed=tuple(removed),
            replay_keys=self.replay_keys,
        )

    # messages

    def assign(self, message: int, new: NewSequence) -> tuple[str, int] | None:
        """Return the sequence of a message and its number, which it gets unless it has one.

        None if there is no room now, or if the message is not to be sent any more.
        """
        place = self._place(message)
        if place is not None:
            return place
        if not self._store.unsent(None, message, 1):  # an answer has come meanwhile
            return None
        mine = [one for one in self._all() if (one.queue, one.peer) == (new.queue, new.peer)]
        if any([one.blocks for one in mine]):
            return None
        live = [one for one in mine if _is_live(one)]
        entry = live[0] if live else self._create(new)
        if entry.value.next_number > MESSAGE_NUMBER_MAX:
            self._put(replace(entry, value=finish(entry.value)))
            entry = self._create(new)
        if not entry.value.has_room:
            return None
        value, number = assign_number(entry.value)
        self._put(replace(entry, value=note_sent(value), messages={**entry.messages, number: message}))
        return entry.name, number

    def settle(self, message: int, *, is_received: bool) -> None:
        """Forget a message that was delivered, or that has finally failed: then it may leave a gap."""
        place = self._place(message)
        if place is None:
            return
        entry, number = self._get(place[0]), place[1]
        if is_received:
            self._acknowledge(entry, NO_NUMBERS.add(number))
            entry = self._get(entry.name)
        messages = {each: one for each, one in entry.messages.items() if one != message}
        value = entry.value
        if number in value.unacknowledged:
            value, pairs = give_up(value, number)
            value = note_sent(value)
            numbers = dict(pairs)
            messages = {numbers.get(each, each): one for each, one in messages.items()}
        self._put(replace(entry, value=value, messages=messages))

    # what the destination says

    def note_created(self, name: str, response: CreateSequenceResponse) -> None:
        entry = self._find(name)
        if entry is not None:
            self._put(replace(entry, value=note_created(entry.value, response, self._now.timestamp())))

    def acknowledge(self, acknowledgements: Iterable[Acknowledgement]) -> None:
        """Note acknowledgements. Those of sequences that are not known here are ignored."""
        for one in acknowledgements:
            for entry in [each for each in self._all() if each.value.identifier == one.identifier]:
                self._advance(entry, note_acknowledged(entry.value, one, self._now.timestamp())[0])

    def note_fault(self, name: str, fault: ReliabilityFault) -> None:
        """Note a fault that answers a message of a sequence."""
        entry = self._find(name)
        if entry is not None:
            self._advance(entry, note_fault(entry.value, fault)[0], is_known_there=False)

    def note_expired(self, name: str) -> None:
        entry = self._find(name)
        if entry is not None:
            self._advance(entry, note_expired(entry.value, self._now.timestamp()), is_known_there=False)

    def note_closed(self, name: str) -> None:
        entry = self._find(name)
        if entry is not None:
            self._advance(entry, note_closed(entry.value))

    def note_terminated(self, name: str) -> None:
        entry = self._find(name)
        if entry is not None:
            self._advance(entry, note_terminated(entry.value))

    def note_facts(self, facts: ResponseFacts) -> None:
        """Note what a response says besides what became of its message."""
        self.acknowledge(facts.acknowledgements)
        if facts.fault is not None and facts.sequence is not None:
            self.note_fault(facts.sequence, facts.fault)
        self.replay_keys.update(facts.replay_keys)

    # the end

    def drop_orphans(self) -> None:
        """Give up messages that are not in the outbox any more: transient ones after a restart."""
        for entry in self._all():
            for message in list(entry.messages.values()):
                if not self._store.unsent(None, message, 1):
                    self.settle(message, is_received=False)

    def finish(self, name: str) -> None:
        """Let a sequence end that has no messages any more. One that was not created is forgotten."""
        entry = self._find(name)
        if entry is None or entry.messages:
            return
        if entry.value.state == OutboundState.CREATING:
            self._put(replace(entry, value=replace(entry.value, state=OutboundState.TERMINATED)))
        else:
            self._put(replace(entry, value=finish(entry.value)))

    def take_due(self, name: str, rules: RetransmissionRules) -> tuple[OutboundDecision, ...]:
        """Return what has to be sent now so that a sequence ends."""
        entry = self._find(name)
        if entry is None:
            return ()
        value, decisions = take_due(entry.value, self._now.timestamp(), rules)
        self._advance(entry, value)
        return decisions

    # helpers

    def _advance(self, entry: SequenceEntry, value: OutboundSequence, *, is_known_there: bool = True) -> None:
        """Put a new value, and begin again if the sequence is lost."""
        if value == entry.value:
            return
        waiting = set(value.unacknowledged)
        fresh = [number for number in entry.value.unacknowledged if number not in waiting]
        self.acknowledged += [entry.messages[number] for number in fresh if number in entry.messages]
        if value.state != OutboundState.LOST:
            self._put(replace(entry, value=value))
            return
        if value.unacknowledged:
            self._restart(entry, value)
        left = {number: message for number, message in entry.messages.items() if number not in waiting}
        self._put(replace(entry, value=leave(value, is_known_there=is_known_there), messages=left))

    def _restart(self, entry: SequenceEntry, lost: OutboundSequence) -> None:
        name = self._make_id()
        value, pairs = restart(replace(lost, is_finishing=False, marker=None), creation_id=name)
        messages = {new: entry.messages[old] for old, new in pairs if old in entry.messages}
        self._put(
            SequenceEntry(
                name=name,
                queue=entry.queue,
                peer=entry.peer,
                value=note_sent(value),
                messages=messages,
                changed=self._now,
            )
        )

    def _acknowledge(self, entry: SequenceEntry, ranges: NumberRanges) -> None:
        if entry.value.identifier is None:
            return
        own = Acknowledgement(version=entry.value.version, identifier=entry.value.identifier, ranges=ranges)
        self._advance(entry, note_acknowledged(entry.value, own, self._now.timestamp())[0])

    def _create(self, new: NewSequence) -> SequenceEntry:
        name = self._make_id()
        value = OutboundSequence(version=new.version, acks_to=new.acks_to, creation_id=name)
        return SequenceEntry(name=name, queue=new.queue, peer=new.peer, value=value, changed=self._now)

    def _put(self, entry: SequenceEntry) -> None:
        before = self._find(entry.name)
        old = before.messages if before is not None else {}
        for number, message in old.items():
            if entry.messages.get(number) != message and self._place(message) == (entry.name, number):
                self.places[message] = None
        for number, message in entry.messages.items():
            if old.get(number) != message:
                self.places[message] = (entry.name, number)
        self.touched[entry.name] = replace(entry, changed=self._now)

    def _place(self, message: int) -> tuple[str, int] | None:
        return self.places[message] if message in self.places else self._parent.places.get(message)

    def _find(self, name: str) -> SequenceEntry | None:
        return self.touched.get(name) or self._parent.entries.get(name)

    def _get(self, name: str) -> SequenceEntry:
        found = self._find(name)
        assert found is not None, "a message is in a sequence that is known"
        return found

    def _all(self) -> list[SequenceEntry]:
        return list({**self._parent.entries, **self.touched}.values())


def _is_live(entry: SequenceEntry) -> bool:
    """Return whether messages are added to a sequence, as soon as there is room."""
    return entry.value.state in (OutboundState.CREATING, OutboundState.OPEN) and not entry.value.is_finishing


def _make_row(entry: SequenceEntry) -> StoredSequence:
    return StoredSequence(
        direction="out",
        name=entry.name,
        queue=entry.queue,
        peer=entry.peer,
        has_ended=entry.has_ended,
        content=entry.value.to_json(),
        changed=entry.changed,
    )
