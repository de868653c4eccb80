"""The sequences of WS-ReliableMessaging of which this node is the source, as the store has them.

A `JournalDraft` collects what one transaction changes about them. These invariants hold:

- One draft is open at a time, from reading a sequence to the end of the commit that stores it.
- What a draft decides holds only when its changes are committed; no number is used before that.
- If a commit fails, it may have taken place all the same: the sequences are read from the store again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from demaq.gateways.reliability.outbound_draft import JournalDraft, SequenceEntry
from demaq.soap.reliability.outbound_sequence import OutboundSequence
from demaq.store.protocol import Store

OUT: Final = "out"


@dataclass(slots=True)
class _JournalState:
    """All sequences that have not ended."""

    entries: dict[str, SequenceEntry] = field(default_factory=dict)
    """By the MessageID of CreateSequence."""
    places: dict[int, tuple[str, int]] = field(default_factory=dict)
    """By message, its sequence and its number in it."""

    def apply(self, draft: JournalDraft) -> None:
        """Take over what a draft has changed. Others may read single entries meanwhile."""
        self.entries.update(draft.touched)
        for message, place in draft.places.items():
            if place is not None:
                self.places[message] = place
            else:
                self.places.pop(message, None)
        for name, entry in draft.touched.items():
            if entry.has_ended:
                del self.entries[name]


class OutboundJournal:
    """All sequences of some gateways. May be used by several threads."""

    def __init__(
        self,
        store: Store,
        queues: Collection[str],
        clock: Callable[[], datetime],
        make_id: Callable[[], str],
        observe: Callable[[Sequence[int]], None] = lambda messages: None,
    ) -> None:
        """`make_id` makes MessageIDs. `observe` is called, in any thread, with messages that were acknowledged."""
        self.queues = frozenset(queues)
        self._store = store
        self._clock = clock
        self._make_id = make_id
        self._observe = observe
        self._lock = threading.Lock()
        self._known: _JournalState | None = None
        """None until they are read from the store."""

    @contextmanager
    def begin(self) -> Iterator[JournalDraft]:
        """Open a draft. Its changes must be committed within the block; if that raises, they do not hold."""
        with self._lock:
            known = self._known = self._known or self._load()
            draft = JournalDraft(known, self._store, self._clock(), self._make_id)
            try:
                yield draft
            except BaseException:
                self._known = None
                raise
            known.apply(draft)
        if draft.acknowledged or draft.touched:
            self._observe(draft.acknowledged)

    def change(self, acts: Sequence[Callable[[JournalDraft], object]]) -> list[object]:
        """Carry out changes in one transaction, and return their results."""
        with self.begin() as draft:
            results = [act(draft) for act in acts]
            changes = draft.changes()
            if changes is not None:
                self._store.change_sequences(changes)
        return results

    def find(self, name: str) -> SequenceEntry | None:
        """Return a sequence by the MessageID of its CreateSequence."""
        return self._current().entries.get(name)

    def find_by_identifier(self, identifier: str) -> SequenceEntry | None:
        """Return a sequence by the identifier that the destination has given it."""
        found = [one for one in self._current().entries.values() if one.value.identifier == identifier]
        return found[0] if found else None

    def locate(self, message: int) -> tuple[SequenceEntry, int] | None:
        """Return the sequence of a message, and its number in it."""
        known = self._current()
        place = known.places.get(message)
        entry = known.entries.get(place[0]) if place is not None else None
        return (entry, place[1]) if place is not None and entry is not None else None

    def entries(self) -> list[SequenceEntry]:
        """Return all sequences."""
        return list(self._current().entries.values())

    def _current(self) -> _JournalState:
        known = self._known
        if known is None:
            with self._lock:
                known = self._known = self._known or self._load()
        return known

    def _load(self) -> _JournalState:
        entries: dict[str, SequenceEntry] = {}
        for stored in self._store.sequences(OUT):
            if stored.has_ended or stored.queue not in self.queues:
                continue
            rows = self._store.sequence_messages(OUT, stored.name)
            entries[stored.name] = SequenceEntry(
                name=stored.name,
                queue=stored.queue,
                peer=stored.peer,
                value=OutboundSequence.from_json(stored.content),
                messages={row.number: row.message for row in rows if row.message is not None},
                changed=stored.changed,
            )
        return _JournalState(entries, _index(entries))


def _index(entries: Mapping[str, SequenceEntry]) -> dict[int, tuple[str, int]]:
    return {message: (name, number) for name, entry in entries.items() for number, message in entry.messages.items()}
