"""Whether an outcome still holds after the steps that were committed in front of it.

All messages of a round are evaluated on one snapshot. In a serial execution a later one would have seen what earlier
ones changed; if it read nothing of that, it would have done the same.

Senders and clients change things at any time. What they do counts as done after all messages that were evaluated
before it, unless one of these is evaluated again: then it is seen, and the rest must have seen it too. Only a reset
never leaves out what arrived before it: it must have seen all it releases.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from demaq.compiler.plan import Plan
from demaq.rounds.outcomes import Reads
from demaq.scheduler.reading import index_name
from demaq.store.protocol import NewMessage, SliceKey, Step, StoredMessage


class Changes:
    """What the steps of a round have changed so far. Rather too much than too little."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._queues: set[str] = set()
        self._slices: set[SliceKey] = set()
        self._resets: set[SliceKey] = set()
        self._entries: set[tuple[str, str]] = set()
        self._shrunk: set[str] = set()
        """Queues of which messages may have become invisible."""
        self._any = False

    def add(self, message: StoredMessage, step: Step) -> None:
        self._any = True
        self.add_messages(step.created)
        self._resets.update(step.resets)
        self._slices.update(step.resets)
        for slicing, _ in step.resets:
            prop = self._plan.program.properties[self._plan.program.slicings[slicing].property]
            self._shrunk.update(prop.values)
        if not [item for item in message.slices if item not in self._resets]:
            self._shrunk.add(message.queue)

    def add_messages(self, messages: Sequence[NewMessage]) -> None:
        self._any = True
        for message in messages:
            self._queues.add(message.queue)
            self._slices.update(message.slices)
            self._entries.update(message.entries)

    def include(self, others: Changes) -> None:
        """Make the changes of others, which could be left out of account so far, count too."""
        self._any |= others._any
        self._queues |= others._queues
        self._slices |= others._slices
        self._resets |= others._resets
        self._entries |= others._entries
        self._shrunk |= others._shrunk

    def touch_slices(self, slices: Iterable[SliceKey]) -> bool:
        return not self._slices.isdisjoint(slices)

    def invalidate(self, message: StoredMessage, reads: Reads) -> bool:
        """Whether a message would have been processed otherwise after these changes."""
        if not self._any:
            return False
        if self._resets.intersection(message.slices):
            return True
        if reads.slices & self._slices or reads.queues & (self._queues | self._shrunk):
            return True
        for number, value in reads.entries:
            index = self._plan.indexes[number - 1]
            if index.queue in self._shrunk or (index_name(index), value) in self._entries:
                return True
        return False
