"""State in memory: queues, slices and collections that were put there, and nothing ever reset."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from demaq.compiler.plan import Index
from demaq.documents import Document
from demaq.evaluation.outcomes import ExpectedReads
from demaq.evaluation.round_request import PropertyEvaluator, PropertyRequest, compute_one
from demaq.evaluation.state.snapshot_reader import system_properties
from demaq.messages import Message, PropertyValue
from demaq.store.protocol import NewMessage, as_stored


class MemoryState:
    """Messages as an evaluator receives them, readable as a StateReader."""

    def __init__(self, evaluator: PropertyEvaluator, slicings: Mapping[str, str], now: datetime) -> None:
        """`slicings` says on which property each slicing is."""
        self._evaluator = evaluator
        self._slicings = slicings
        self._now = now
        self.messages: list[Message] = []
        self._entries: dict[tuple[int, str], list[Message]] = {}
        self._collections: dict[str, list[Document]] = {}

    def add(self, queue: str, document: Document, explicit: Mapping[str, PropertyValue] | None = None) -> Message:
        """Put a message into a queue. Raises a MessageError where the queue would refuse it."""
        arrival = PropertyRequest(queue=queue, document=document, explicit=explicit or {}, now=self._now)
        received = compute_one(self._evaluator, arrival)
        number = len(self.messages) + 1
        new = NewMessage(queue=queue, body=document.text, properties=received.properties, created=self._now)
        message = Message(
            id=str(number),
            queue=queue,
            document=document,
            properties={**system_properties(as_stored(new, number)), **received.properties},
            created=self._now,
            seq=number,
        )
        self.messages.append(message)
        for entry in received.entries:
            self._entries.setdefault(entry, []).append(message)
        return message

    def add_to_collection(self, name: str, document: Document) -> None:
        self._collections.setdefault(name, []).append(document)

    # a StateReader

    def queue(self, name: str) -> Sequence[Message]:
        return [message for message in self.messages if message.queue == name]

    def slice(self, slicing: str, key: str) -> Sequence[Message]:
        name = self._slicings[slicing]
        return [m for m in self.messages if name in m.properties and m.properties[name].key == key]

    def lookup(self, index: Index, entries: Sequence[str]) -> Sequence[Message]:
        found: dict[str, Message] = {}
        for entry in entries:
            found.update({message.id: message for message in self._entries.get((index.number, entry), [])})
        return list(found.values())

    def find(self, index: Index, entries: Sequence[str]) -> Collection[int]:
        return [message.seq for message in self.lookup(index, entries)]

    def expect(self, reads: ExpectedReads) -> None:
        """It is all here."""

    def collection(self, name: str) -> Sequence[Document]:
        return self._collections.get(name, [])
