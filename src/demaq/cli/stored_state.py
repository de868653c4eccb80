"""A stored message and the state around it, as rules of an application would see them that never ran on the store."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from demaq.compiler.plan import Index
from demaq.engine.replay import arrival, stored_original
from demaq.errors import MessageError
from demaq.evaluation.cascade.versions import index_name
from demaq.evaluation.outcomes import ExpectedReads
from demaq.evaluation.round_request import PropertyEvaluator, PropertyResult, compute_one
from demaq.evaluation.state.snapshot_reader import Documents, SnapshotReader, system_properties
from demaq.language.program.program import Program
from demaq.messages import Message, PropertyValue, transport_properties
from demaq.store.protocol import Store, StoredMessage


def recompute_message(
    program: Program,
    evaluator: PropertyEvaluator,
    stored: StoredMessage,
    explicit: Mapping[str, PropertyValue],
    now: datetime,
) -> Message:
    """Return a stored message with the properties it would have if it were run again. Raise a MessageError if refused.

    `explicit` are values that are set instead of its own.
    """
    asked = arrival(program, stored_original(stored), now)
    received = compute_one(evaluator, replace(asked, explicit={**asked.explicit, **explicit}))
    return Message(
        id=str(stored.seq),
        queue=stored.queue,
        document=received.document,
        properties={**system_properties(stored), **received.properties},
        created=stored.created,
        seq=stored.seq,
        transport=transport_properties(stored.properties),
        origin=stored.origin,
    )


class StoredState(SnapshotReader):
    """The store at a snapshot. Slices and indexes that only this program has are computed from the messages."""

    def __init__(
        self, program: Program, former: Program | None, evaluator: PropertyEvaluator, store: Store, snapshot: int
    ) -> None:
        """`former` is the program that ran on the store last."""
        super().__init__(store, snapshot, Documents())
        self._program = program
        self._evaluator = evaluator
        self._complete = store.indexes()
        known = former.slicings if former is not None else {}
        self._slicings_kept = {
            name
            for name, slicing in program.slicings.items()
            if name in known and known[name].property == slicing.property
        }
        self._computed: dict[str, list[tuple[Message, PropertyResult]]] = {}

    def expect(self, reads: ExpectedReads) -> None:
        """Each is read when it is asked for."""

    def slice(self, slicing: str, key: str) -> Sequence[Message]:
        if slicing in self._slicings_kept:
            return super().slice(slicing, key)
        name = self._program.slicings[slicing].property
        found = [
            message
            for queue in self._program.properties[name].values
            for message, received in self._receive_queue(queue)
            if name in received.properties and received.properties[name].key == key
        ]
        return sorted(found, key=lambda message: message.seq)

    def lookup(self, index: Index, entries: Sequence[str]) -> Sequence[Message]:
        if index_name(index) in self._complete:
            return super().lookup(index, entries)
        wanted = {(index.number, entry) for entry in entries}
        return [
            message for message, received in self._receive_queue(index.queue) if not wanted.isdisjoint(received.entries)
        ]

    def find(self, index: Index, entries: Sequence[str]) -> Collection[int]:
        return {message.seq for message in self.lookup(index, entries)}

    def _receive_queue(self, queue: str) -> list[tuple[Message, PropertyResult]]:
        """Return the messages of a queue, each as this program would receive it; without those that it would refuse."""
        if queue not in self._computed:
            found: list[tuple[Message, PropertyResult]] = []
            for stored in self._store.queue(queue, self.snapshot):
                try:
                    received = compute_one(
                        self._evaluator, arrival(self._program, stored_original(stored), stored.created)
                    )
                except MessageError:
                    continue
                found.append((self._documents.message(stored), received))
            self._computed[queue] = found
        return self._computed[queue]
