"""The state that a conversation reads: the snapshot, and what the conversation itself has changed since."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from demaq.compiler.plan import Index
from demaq.documents import Document
from demaq.evaluation.cascade.versions import SliceKey
from demaq.evaluation.outcomes import ExpectedReads, Reads, StateReader
from demaq.messages import Message


class ConversationState:
    """A StateReader. What it returns is valid until the next change."""

    __slots__ = ("_base", "_ended", "_entries", "_gone", "_queues", "_slices", "_uncertain")

    def __init__(self, base: StateReader) -> None:
        """`base` reads the snapshot."""
        self._base = base
        self._queues: dict[str, list[Message]] = {}
        self._slices: dict[SliceKey, list[Message]] = {}
        self._entries: dict[tuple[int, str], list[Message]] = {}
        """Messages that were created, by what they are found in."""
        self._gone: set[int] = set()
        """Messages that have become invisible."""
        self._ended: set[SliceKey] = set()
        """Slices that were reset: their stored members are gone."""
        self._uncertain: set[str] = set()
        """Queues in which a reset may have made messages invisible; which ones is not known here."""

    def add(
        self, message: Message, in_queue: bool, slices: Iterable[SliceKey], entries: Iterable[tuple[int, str]]
    ) -> None:
        """Add a created message, with `in_queue` also to what is read as a queue."""
        if in_queue:
            self._queues.setdefault(message.queue, []).append(message)
        for key in slices:
            self._slices.setdefault(key, []).append(message)
        for entry in entries:
            self._entries.setdefault(entry, []).append(message)

    def remove(self, message: Message) -> None:
        """Record that a message has become invisible."""
        self._gone.add(message.seq)

    def reset(self, slices: Iterable[SliceKey], queues: Iterable[str]) -> None:
        """Begin new lifetimes of slices; members of the old ones may have become invisible in some queues."""
        for key in slices:
            self._ended.add(key)
            self._slices.pop(key, None)
        self._uncertain.update(queues)

    def is_uncertain(self, reads: Reads, indexes: Sequence[Index]) -> bool:
        """Return whether a queue was read whose visible messages are not known."""
        if not self._uncertain:
            return False
        if not self._uncertain.isdisjoint(reads.queues):
            return True
        return any([indexes[number - 1].queue in self._uncertain for number, _ in reads.entries])

    # StateReader

    def queue(self, name: str) -> Sequence[Message]:
        return self._visible([*self._base.queue(name), *self._queues.get(name, ())])

    def slice(self, slicing: str, key: str) -> Sequence[Message]:
        added = self._slices.get((slicing, key), ())
        if (slicing, key) in self._ended:
            return added
        return [*self._base.slice(slicing, key), *added]

    def lookup(self, index: Index, entries: Sequence[str]) -> Sequence[Message]:
        found = self._base.lookup(index, entries)
        if self._entries:
            added = {m.id: m for entry in entries for m in self._entries.get((index.number, entry), ())}
            found = [*found, *added.values()]
        return self._visible(found)

    def find(self, index: Index, entries: Sequence[str]) -> Collection[int]:
        found = self._base.find(index, entries)
        if self._entries:
            added = {m.seq for entry in entries for m in self._entries.get((index.number, entry), ())}
            found = added.union(found)
        return [seq for seq in found if seq not in self._gone] if self._gone else found

    def expect(self, reads: ExpectedReads) -> None:
        self._base.expect(reads)

    def collection(self, name: str) -> Sequence[Document]:
        return self._base.collection(name)

    def _visible(self, messages: Sequence[Message]) -> Sequence[Message]:
        return [message for message in messages if message.seq not in self._gone] if self._gone else messages
