"""Read stored messages at a snapshot: as rules see them, with system properties, each document made once."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime

from demaq.compiler.plan import Index
from demaq.documents import Document
from demaq.evaluation.cascade.versions import index_name
from demaq.evaluation.outcomes import ExpectedReads
from demaq.messages import Message, PropertyValue, transport_properties
from demaq.store.protocol import Store, StoredMessage
from demaq.system_properties import REPLAY_RULE

DOCUMENTS_MAX = 20_000
DOCUMENTS_CHARACTERS_MAX = 32_000_000
"""Limits of the cache of documents. Bodies never change, so the oldest are dropped only to save memory."""


NO_SLICES: frozenset[str] = frozenset()


class Documents:
    """A cache of the documents of stored messages."""

    def __init__(self) -> None:
        self._known: OrderedDict[int, Document] = OrderedDict()
        self._characters = 0

    def of(self, stored: StoredMessage) -> Document:
        document = self._known.get(stored.seq)
        if document is None:
            document = self._known[stored.seq] = Document(stored.body)
            self._characters += len(stored.body)
            while len(self._known) > DOCUMENTS_MAX or self._characters > DOCUMENTS_CHARACTERS_MAX:
                _, forgotten = self._known.popitem(last=False)
                self._characters -= len(forgotten.text)
        return document

    def next_message(self, stored: StoredMessage) -> Message:
        """Return a message to be processed. It is not cached if it is in no slice: it will hardly be read again."""
        if stored.slices or stored.seq in self._known:
            return self.message(stored)
        return make_message(stored, Document(stored.body))

    def message(self, stored: StoredMessage) -> Message:
        return make_message(stored, self.of(stored))


def make_message(stored: StoredMessage, document: Document) -> Message:
    """Return a stored message as rules see it."""
    properties = stored.properties
    return Message(
        id=str(stored.seq),
        queue=stored.queue,
        document=document,
        properties=StoredProperties(stored),
        created=stored.created,
        seq=stored.seq,
        slices=frozenset([slicing for slicing, _ in stored.slices]) if stored.slices else NO_SLICES,
        transport=transport_properties(properties) if properties else {},
        origin=stored.origin,
        only_rule=properties[REPLAY_RULE].text if REPLAY_RULE in properties else None,
    )


class StoredProperties(Mapping[str, PropertyValue]):
    """All properties of a stored message. System properties are made on demand."""

    __slots__ = ("_all", "_stored")

    def __init__(self, stored: StoredMessage) -> None:
        self._stored = stored
        self._all: dict[str, PropertyValue] | None = None

    def __getitem__(self, name: str) -> PropertyValue:
        found = self._stored.properties.get(name)
        return self._everything()[name] if found is None else found

    def __iter__(self) -> Iterator[str]:
        return iter(self._everything())

    def __len__(self) -> int:
        return len(self._everything())

    def _everything(self) -> dict[str, PropertyValue]:
        if self._all is None:
            self._all = {**system_properties(self._stored), **self._stored.properties}
        return self._all


def system_properties(stored: StoredMessage) -> dict[str, PropertyValue]:
    """Return the properties that the system sets on every message."""
    created = date_time(stored.created)
    size = str(size_of(stored.body))
    found = {
        "demaq:id": PropertyValue.string(str(stored.seq)),
        "demaq:queue": PropertyValue.string(stored.queue),
        "demaq:created": PropertyValue("dateTime", created, created),
        "demaq:size": PropertyValue("integer", size, size),
        "demaq:origin": PropertyValue.string(str(stored.origin)),
    }
    if stored.rule is not None:
        found["demaq:rule"] = PropertyValue.string(stored.rule)
    if stored.trigger is not None:
        found["demaq:trigger"] = PropertyValue.string(str(stored.trigger))
    return found


def date_time(time: datetime) -> str:
    """Return a time as XQuery writes it in UTC, which is also its key."""
    text = time.astimezone(UTC).replace(tzinfo=None).isoformat()
    return f"{text.rstrip('0') if '.' in text else text}Z"


def size_of(body: str) -> int:
    """Return the size of a body in bytes of UTF-8."""
    return len(body) if body.isascii() else len(body.encode("utf-8"))


class SnapshotReader:
    """A StateReader of the store at a snapshot."""

    def __init__(self, store: Store, snapshot: int, documents: Documents) -> None:
        self._store = store
        self.snapshot = snapshot
        self._documents = documents
        self._slices: dict[tuple[str, str], Sequence[Message]] = {}
        self._entries: dict[tuple[int, str], Sequence[Message]] = {}
        """What was prefetched by `expect`."""
        self._found: dict[tuple[int, str], Sequence[int]] = {}
        self._queues: dict[str, Sequence[Message]] = {}
        self._collections: dict[str, Sequence[Document]] = {}

    def expect(self, reads: ExpectedReads) -> None:
        for slicing, keys in reads.slices.items():
            if wanted := [key for key in keys if (slicing, key) not in self._slices]:
                for key, stored in self._read_slices(slicing, wanted).items():
                    self._slices[(slicing, key)] = self._messages(stored)
        for number, (index, values) in reads.lookups.items():
            if wanted := [value for value in values if (number, value) not in self._entries]:
                for value, stored in self._read_lookups(index, wanted).items():
                    self._entries[(number, value)] = self._messages(stored)
        for number, (index, values) in reads.found.items():
            if wanted := [value for value in values if (number, value) not in self._found]:
                self._found |= {(number, value): seqs for value, seqs in self._read_seqs(index, wanted).items()}

    def _read_slices(self, slicing: str, keys: Sequence[str]) -> dict[str, list[StoredMessage]]:
        return self._store.slices(slicing, keys, self.snapshot)

    def _read_lookups(self, index: Index, values: Sequence[str]) -> dict[str, list[StoredMessage]]:
        return self._store.lookups(index_name(index), values, self.snapshot)

    def _read_seqs(self, index: Index, values: Sequence[str]) -> dict[str, list[int]]:
        return self._store.find(index_name(index), values, self.snapshot)

    def queue(self, name: str) -> Sequence[Message]:
        if name not in self._queues:
            self._queues[name] = self._messages(self._store.queue(name, self.snapshot))
        return self._queues[name]

    def slice(self, slicing: str, key: str) -> Sequence[Message]:
        expected = self._slices.get((slicing, key))
        return self._messages(self._store.slice(slicing, key, self.snapshot)) if expected is None else expected

    def lookup(self, index: Index, entries: Sequence[str]) -> Sequence[Message]:
        if len(entries) == 1 and (index.number, entries[0]) in self._entries:
            return self._entries[(index.number, entries[0])]
        if any([(index.number, entry) not in self._entries for entry in entries]):
            return self._messages(self._store.lookup(index_name(index), entries, self.snapshot))
        found = {message.id: message for entry in entries for message in self._entries[(index.number, entry)]}
        return sorted(found.values(), key=lambda message: message.seq)

    def find(self, index: Index, entries: Sequence[str]) -> Collection[int]:
        self.expect(ExpectedReads(found={index.number: (index, set(entries))}))
        if len(entries) == 1:
            return self._found[(index.number, entries[0])]
        return {seq for entry in entries for seq in self._found[(index.number, entry)]}

    def collection(self, name: str) -> Sequence[Document]:
        if name not in self._collections:
            self._collections[name] = [Document(body) for body in self._store.collection(name)[1]]
        return self._collections[name]

    def _messages(self, stored: list[StoredMessage]) -> list[Message]:
        return [self._documents.message(item) for item in stored]
