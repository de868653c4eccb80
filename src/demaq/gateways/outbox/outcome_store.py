"""What became of attempts, in the store: messages, sequences and replay keys in one transaction."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from demaq.engine.delivery import Ended
from demaq.engine.engine import Engine
from demaq.gateways.outbox.delivery_results import NO_FACTS, ResponseFacts
from demaq.gateways.reliability.outbound_journal import OutboundJournal
from demaq.store.protocol import Postponed, StoredMessage

CONCLUDED_SECONDS = 600.0
"""So long it is remembered that the answer to a message came by itself. By then the store is all that is known."""
READ_STEP_FIRST = 8
"""So many messages are read without knowing their sizes; then, if they are small, four times as many."""
READ_CHARACTERS_MAX = 4_000_000
"""When more characters than this were read at once, no more are."""


@dataclass(frozen=True, slots=True)
class OutcomeNote:
    """What became of an attempt, with what else the response says."""

    outcome: Ended | Postponed
    facts: ResponseFacts = NO_FACTS


class OutcomeStore:
    """Reads and writes in one thread, but for `note_concluded`."""

    def __init__(self, engine: Engine, journal: OutboundJournal | None) -> None:
        """Without a journal no gateway has sequences or security."""
        self._engine = engine
        self._store = engine.store
        self._journal = journal
        self._concluded: dict[int, float] = {}
        """Messages whose answers came by themselves, and when: they may be known to be due, and are not."""

    def note_concluded(self, message: int) -> None:
        """Remember that the answer to a message came by itself."""
        now = time.monotonic()
        while self._concluded and next(iter(self._concluded.values())) < now - CONCLUDED_SECONDS:
            del self._concluded[next(iter(self._concluded))]
        self._concluded[message] = now

    def read(self, numbers: Sequence[int]) -> dict[int, StoredMessage | None]:
        """Return messages that are to be sent; None for those that are not any more. If they are large, not all."""
        read: dict[int, StoredMessage | None] = {}
        characters, step = 0, READ_STEP_FIRST
        while len(read) < len(numbers) and characters <= READ_CHARACTERS_MAX:
            asked = numbers[len(read) : len(read) + step]
            read.update(dict.fromkeys(asked))
            for message in self._store.messages(asked):
                read[message.seq] = message
                characters += len(message.body)
            step *= 4
        for number in [number for number in read if number in self._concluded]:
            if not self._store.unsent(None, number, 1):
                read[number] = None
        return read

    def read_messages(self, numbers: Sequence[int]) -> dict[int, StoredMessage]:
        """Return those that are to be sent, as far as they were read."""
        return {number: message for number, message in self.read(numbers).items() if message is not None}

    def write(self, notes: Sequence[OutcomeNote]) -> list[None]:
        """Store what became of attempts."""
        ended = [note.outcome for note in notes if isinstance(note.outcome, Ended)]
        postponed = [note.outcome for note in notes if isinstance(note.outcome, Postponed)]
        journal = self._journal
        if journal is not None and any([_concerns(journal, note) for note in notes]):
            self._write_with_sequences(journal, notes, ended)
        elif ended:
            self._engine.deliver(ended)
        if postponed:
            self._store.postpone(postponed)  # does no harm where it is done twice
        return [None] * len(notes)

    def _write_with_sequences(
        self, journal: OutboundJournal, notes: Sequence[OutcomeNote], ended: Sequence[Ended]
    ) -> None:
        with journal.begin() as draft:
            for note in notes:
                draft.note_facts(note.facts)
                if isinstance(note.outcome, Ended):
                    is_received = note.outcome.failure is None or note.facts.is_received
                    draft.settle(note.outcome.message.seq, is_received=is_received)
            changes = draft.changes()
            if ended:
                self._engine.deliver(ended, changes)
            elif changes is not None:
                self._store.change_sequences(changes)


def _concerns(journal: OutboundJournal, note: OutcomeNote) -> bool:
    """Return whether a message was in a sequence, or its response says more than what became of it."""
    is_in_one = isinstance(note.outcome, Ended) and note.outcome.message.queue in journal.queues
    return is_in_one or note.facts != NO_FACTS
