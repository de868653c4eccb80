"""Sequences, their messages and replay keys in memory: a part of `MemoryStore`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from demaq.store.protocol import SequenceChanges, SequenceDirection, SequenceMessage, StoredSequence


class MemorySequences:
    """What a store in memory knows of sequences. Its caller holds a lock."""

    def __init__(self) -> None:
        self._sequences: dict[tuple[SequenceDirection, str], StoredSequence] = {}
        self._messages: dict[tuple[SequenceDirection, str, int], SequenceMessage] = {}
        self._replay_keys: dict[str, datetime] = {}

    def apply(self, changes: SequenceChanges) -> None:
        known = {*self._sequences, *[(each.direction, each.name) for each in changes.sequences]}
        added = {(each.direction, each.sequence) for each in changes.added}
        assert added <= known, "a message is added to a sequence that is not stored"
        self._sequences.update({(each.direction, each.name): each for each in changes.sequences})
        self._messages.update({(each.direction, each.sequence, each.number): each for each in changes.added})
        for key in changes.removed:
            self._messages.pop(key, None)
        for name, until in changes.replay_keys.items():
            self._replay_keys[name] = max(until, self._replay_keys.get(name, until))

    def find(self, direction: SequenceDirection | None, queue: str | None) -> list[StoredSequence]:
        """Return sequences in the order of direction, queue and name."""
        found = [s for s in self._sequences.values() if direction in (None, s.direction) and queue in (None, s.queue)]
        return sorted(found, key=lambda each: (each.direction, each.queue, each.name))

    def messages(self, direction: SequenceDirection, name: str) -> list[SequenceMessage]:
        """Return the messages of a sequence, in the order of their numbers."""
        return [each for key, each in sorted(self._messages.items()) if key[:2] == (direction, name)]

    def numbered(self) -> set[int]:
        """Return the messages in the store that outgoing sequences have numbered."""
        return {each.message for each in self._messages.values() if each.message is not None}

    def known_replays(self, keys: Sequence[str], now: datetime) -> frozenset[str]:
        """Return those of the keys that are remembered at a time."""
        return frozenset([key for key in keys if key in self._replay_keys and self._replay_keys[key] >= now])

    def remove_outgoing(self) -> None:
        """Remove outgoing sequences and their messages."""
        self._keep({key: each for key, each in self._sequences.items() if each.direction != "out"})

    def forget(self, now: datetime, ended_before: datetime) -> None:
        """Remove replay keys whose time has passed, and sequences that ended before a time."""
        self._replay_keys = {key: until for key, until in self._replay_keys.items() if until >= now}
        kept = {k: each for k, each in self._sequences.items() if not each.has_ended or each.changed >= ended_before}
        self._keep(kept)

    def _keep(self, sequences: dict[tuple[SequenceDirection, str], StoredSequence]) -> None:
        self._sequences = sequences
        self._messages = {key: each for key, each in self._messages.items() if key[:2] in sequences}
