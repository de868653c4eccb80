"""Read the next messages to be processed, and step over those of paused queues without reading them again and again.

Messages are read in the order of processing: higher priority first, then older first. A paused queue may hold a million
messages that are older than all others. So while something is paused, it is remembered for each priority up to which
seq nothing else waits, and the next read begins there. New messages have higher seqs; messages that may come back,
because they are in a round or evaluated apart, hold that place back.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from demaq.store.protocol import Store, StoredMessage


class PendingReader:
    """Used by the thread that runs rounds."""

    def __init__(self, store: Store, priorities: Iterable[int]) -> None:
        """`priorities` are those of the queues that rules process."""
        self._store = store
        self._priorities = sorted(set(priorities), reverse=True)
        self._done: dict[int, int] = {}
        """By priority: up to this seq, all messages that wait are of paused queues."""

    def forget(self) -> None:
        """Begin at the oldest message again: what is paused has changed."""
        self._done.clear()

    def read(
        self, limit: int, but: Sequence[int], but_of: Sequence[str], paused: frozenset[str]
    ) -> list[StoredMessage]:
        """Return the next messages, but not these, nor those of these queues and of paused ones."""
        if not paused:
            return self._store.pending(limit, but, but_of)
        found: list[StoredMessage] = []
        for priority in self._priorities:
            if len(found) < limit:
                found += self._read_at(priority, limit - len(found), but, but_of, paused)
        return found

    def _read_at(
        self, priority: int, limit: int, but: Sequence[int], but_of: Sequence[str], paused: frozenset[str]
    ) -> list[StoredMessage]:
        newest = self._store.snapshot()
        after = self._done.get(priority, 0)
        found = self._store.pending_at(priority, after, limit, but, [*but_of, *paused])
        if not but_of:  # messages of these queues may be the next ones later
            first = min([newest + 1, *but, *[message.seq for message in found[:1]]])
            self._done[priority] = max(after, first - 1)
        return found
