"""What stored messages are under a changed program: their properties, slices and index entries. No rule fires.

A message keeps the values it has, unless they are computed only; a property it lacks is inherited from the message that
caused it, else computed, as on the day it was enqueued. What has no place under the program is kept aside under another
name, so that a program that brings it back finds it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from heapq import merge
from itertools import islice

from demaq.compiler.plan import Plan
from demaq.documents import Document
from demaq.errors import MessageError
from demaq.language.program import Program, Property, Slicing
from demaq.language.system_properties import ECHO_PROPERTIES, GATEWAY_PROPERTIES
from demaq.messages import PropertyValue
from demaq.rounds.changes import index_name
from demaq.rounds.evaluator import Evaluator
from demaq.rounds.outcomes import Arrival, Received
from demaq.scheduler.reading import system_properties
from demaq.store.protocol import IndexEntry, Restated, SliceKey, Store, StoredMessage

BATCH_MESSAGES = 1_000
"""So many messages are evaluated at once and noted in one transaction."""
PAGE_MESSAGES = 200
"""So many messages of a queue are read at once."""
EXAMPLES_MAX = 5
FORMER = "demaq:former."
"""What a value is called that has no place under the program: `demaq:former.customer`."""

_SYSTEM = "demaq:"


class Backfill:
    """Restates messages for the next version of the program, from where it was left."""

    def __init__(self, plan: Plan, evaluator: Evaluator, store: Store, digest: str, old: Program | None) -> None:
        """`old` is the program that was active last, if it is known."""
        self._plan = plan
        self._program = plan.program
        self._evaluator = evaluator
        self._store = store
        self._digest = digest
        self._old = old
        self._known_slicings = frozenset(store.slicings())
        self._declared = {
            queue: {p.name: p for p in self._program.properties_of(queue) if p.decl is not None}
            for queue in self._program.queues
        }
        self._inheriting = {
            queue
            for queue, properties in self._declared.items()
            if any([prop.variant == "inherited" for prop in properties.values()])
        }
        self.failed = 0
        """How many values could not be computed."""
        self.examples: list[str] = []

    def run(
        self, queues: Collection[str], discarded: Collection[str], progress: Callable[[int], None] = lambda done: None
    ) -> None:
        """Note what the messages of these queues will be, and that those of others are given up.

        `progress` hears after every transaction how many messages were looked at since the start.
        """
        # Which queues are given up is said anew at every start: then the beginning is looked at again.
        after = self._store.restated(self._digest) if not discarded else 0
        if not after:
            self._store.restate(self._digest, [], 0)  # forgets what was noted for others
        pages = [stored_messages(self._store, queue, after) for queue in sorted({*queues, *discarded})]
        messages = merge(*pages, key=lambda message: message.seq)
        done = 0
        while batch := list(islice(messages, BATCH_MESSAGES)):
            given_up = [Restated(seq=m.seq, discarded=True) for m in batch if m.queue in discarded]
            kept = self._restated([message for message in batch if message.queue not in discarded])
            self._store.restate(self._digest, given_up + kept, batch[-1].seq)
            done += len(batch)
            progress(done)

    def _restated(self, batch: Sequence[StoredMessage]) -> list[Restated]:
        """Messages are in order, so that one comes behind the one that caused it; it may have to wait for that."""
        found: list[Restated] = []
        triggers = {m.trigger for m in batch if m.trigger is not None and m.queue in self._inheriting}
        properties = self._store.next_properties(sorted(triggers))
        waiting = {message.seq: message for message in batch}
        while waiting:
            ready = [m for m in waiting.values() if m.trigger not in waiting or m.queue not in self._inheriting]
            arrivals = [self._arrival(message, properties.get(message.trigger or 0, {})) for message in ready]
            for message, answer in zip(ready, self._evaluator.restate_many(arrivals), strict=True):
                del waiting[message.seq]
                restated = self._restate(message, answer)
                if restated is not None:
                    found.append(restated)
                    if message.seq in triggers and restated.properties is not None:
                        properties[message.seq] = restated.properties
        return found

    def _arrival(self, message: StoredMessage, inherited: Mapping[str, PropertyValue]) -> Arrival:
        kept: dict[str, PropertyValue] = {}
        declared = self._declared[message.queue]
        for name, value in message.properties.items():
            former = name.removeprefix(FORMER) if name.startswith(FORMER) else None
            if former is not None:
                if _may_keep(declared.get(former)):
                    kept[former] = value  # whatever was computed since
            elif name in declared:
                if _may_keep(declared[name]):
                    kept.setdefault(name, value)
            elif message.trigger is None and _is_of_the_system(name):
                kept[name] = value  # a message from outside: expressions may ask for how it came
        return Arrival(
            queue=message.queue,
            document=Document(message.body),
            explicit=kept,
            now=message.created,
            inherited=inherited,
        )

    def _restate(self, message: StoredMessage, answer: Received | MessageError) -> Restated | None:
        if isinstance(answer, MessageError):
            self._fail(message, answer.message)
            return None  # it stays as it is
        for name, reason in answer.failures:
            self._fail(message, reason if reason.startswith("property ") else f"property {name}: {reason}")
        properties = {**self._set_aside(message, answer), **answer.properties}
        return Restated(
            seq=message.seq,
            properties=None if properties == message.properties else properties,
            slices=self._slices(message, properties),
            entries=self._entries(answer),
        )

    def _set_aside(self, message: StoredMessage, answer: Received) -> dict[str, PropertyValue]:
        """What stays of the former properties beside those that the program declares."""
        declared = self._declared[message.queue]
        found: dict[str, PropertyValue] = {}
        for name, value in message.properties.items():
            if name.startswith(FORMER):
                former = name.removeprefix(FORMER)
                if former not in answer.properties or not _may_keep(declared.get(former)):
                    found.setdefault(name, value)
            elif name not in declared:
                found[name if _is_of_the_system(name) else FORMER + name] = value
            elif name not in answer.properties or self._becomes_fixed(declared[name]):
                found[FORMER + name] = value
        return found

    def _becomes_fixed(self, prop: Property) -> bool:
        """Whether its values may have been set by somebody and are now computed only."""
        before = self._old.properties.get(prop.name) if self._old is not None else None
        return prop.variant == "fixed" and before is not None and before.variant != "fixed"

    def _slices(self, message: StoredMessage, properties: Mapping[str, PropertyValue]) -> tuple[SliceKey, ...]:
        if message.retired is not None:
            return ()
        current = dict(message.slices)
        system = system_properties(message)
        found: list[SliceKey] = []
        for slicing in self._program.slicings_of(message.queue):
            value = properties.get(slicing.property) or system.get(slicing.property)
            if value is None:
                continue
            if slicing.name in current or not self._was_released(message, slicing):
                found.append((slicing.name, value.key))
        return tuple(found)

    def _was_released(self, message: StoredMessage, slicing: Slicing) -> bool:
        """Whether a message that is in no slice of a slicing was in one before a reset."""
        if slicing.property not in message.properties and slicing.property not in system_properties(message):
            return False
        if self._old is None:
            return slicing.name in self._known_slicings
        before = self._old.slicings.get(slicing.name)
        if before is None or before.property != slicing.property:
            return False
        return message.queue in self._old.properties[before.property].values

    def _entries(self, answer: Received) -> tuple[IndexEntry, ...]:
        return tuple([(index_name(self._plan.indexes[number - 1]), value) for number, value in answer.entries])

    def _fail(self, message: StoredMessage, reason: str) -> None:
        self.failed += 1
        if len(self.examples) < EXAMPLES_MAX:
            self.examples.append(f"message {message.seq} of {message.queue}: {reason}")


def stored_messages(store: Store, queue: str, after: int = 0) -> Iterator[StoredMessage]:
    """Everything that is stored in a queue, in order."""
    while page := store.stored(queue, after, PAGE_MESSAGES):
        yield from page
        after = page[-1].seq


def _may_keep(prop: Property | None) -> bool:
    return prop is not None and prop.variant != "fixed"


def _is_of_the_system(name: str) -> bool:
    """Whether a property needs no declaration."""
    return name.startswith(_SYSTEM) or name in ECHO_PROPERTIES or name in GATEWAY_PROPERTIES
