"""Back-fill: compute properties, slices and index entries of stored messages under a changed program. No rule fires.

A message keeps its properties, unless they are fixed; one that it lacks is inherited from the message that caused it,
else computed, with the time at which the message was enqueued. A property that the program no longer declares is kept
under another name, so that a later program that declares it again finds it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from heapq import merge
from itertools import islice
from typing import Protocol

from demaq.compiler.plan import Plan
from demaq.documents import Document
from demaq.errors import MessageError
from demaq.evaluation.cascade.versions import index_name
from demaq.evaluation.round_request import PropertyEvaluator, PropertyRequest, PropertyResult
from demaq.evaluation.state.snapshot_reader import system_properties
from demaq.language.program.program import Program, Property, Slicing
from demaq.messages import PropertyValue
from demaq.store.protocol import MigratedMessage, SliceKey, Store, StoredMessage
from demaq.system_properties import ECHO_PROPERTIES, GATEWAY_PROPERTIES

BATCH_MESSAGES = 1_000
"""Messages in one request to the evaluator."""
PAGE_MESSAGES = 200
"""Messages of a queue in one read."""
EXAMPLES_MAX = 5
FORMER = "demaq:former."
"""Prefix of a property that the program does not declare any more: `demaq:former.customer`."""

_SYSTEM = "demaq:"


@dataclass(frozen=True, slots=True)
class MigrationOutcome:
    """The result of migrating one message."""

    migrated: MigratedMessage | None
    """None if it does not change."""
    failures: tuple[str, ...] = ()
    """Properties that could not be computed, each with the reason."""


class Migrator(Protocol):
    """Computes what stored messages are under the next program."""

    @property
    def batch_messages(self) -> int:
        """How many messages are computed in one call, and noted in one transaction."""

    def migrate(self, messages: Sequence[StoredMessage]) -> Sequence[MigrationOutcome]:
        """Return one outcome for each message. Messages come in order; the results of earlier ones are noted before, if
        these may inherit from them."""


class Backfill:
    """Notes what messages are under the next program. Continues where an earlier run has stopped."""

    def __init__(self, migrator: Migrator, store: Store, digest: str, in_order: bool) -> None:
        """With `in_order` messages are computed after all earlier ones were noted; without it, at the same time."""
        self._migrator = migrator
        self._store = store
        self._digest = digest
        self._in_order = in_order
        self.looked_at = 0
        self.changed = 0
        """How many messages have other properties than before."""
        self.failed = 0
        """How many properties could not be computed."""
        self.examples: list[str] = []

    def run(
        self, queues: Collection[str], discarded: Collection[str], progress: Callable[[int], None] = lambda done: None
    ) -> None:
        """Note what the messages of `queues` become, and that those of `discarded` are given up.

        `progress` is called after each batch with the number of messages examined since the start.
        """
        # The discarded queues may be others at every start: then the back-fill begins from the first message.
        after = self._store.migrated_until(self._digest) if not discarded else 0
        if not after:
            self._store.note_migrated(self._digest, [], 0)  # deletes notes for other programs
        pages = [stored_messages(self._store, queue, after) for queue in sorted({*queues, *discarded})]
        messages = merge(*pages, key=lambda message: message.seq)
        batch = self._next(messages)
        computed: tuple[list[MigratedMessage], int] | None = None
        with ThreadPoolExecutor(1, "demaq-backfill") as pool:
            while batch:
                if computed is not None and self._in_order:
                    self._note(computed)
                    computed = None
                # While these are computed, the results of the batch before are noted and the next batch is read.
                following = pool.submit(self._note_and_read, computed, messages)
                given_up = [MigratedMessage(seq=m.seq, discarded=True) for m in batch if m.queue in discarded]
                kept = self._migrated([message for message in batch if message.queue not in discarded])
                computed = (given_up + kept, batch[-1].seq)
                self.looked_at += len(batch)
                batch = following.result()
                progress(self.looked_at)
        if computed is not None:
            self._note(computed)

    def _note_and_read(
        self, computed: tuple[list[MigratedMessage], int] | None, messages: Iterator[StoredMessage]
    ) -> list[StoredMessage]:
        if computed is not None:
            self._note(computed)
        return self._next(messages)

    def _note(self, computed: tuple[list[MigratedMessage], int]) -> None:
        self._store.note_migrated(self._digest, *computed)

    def _next(self, messages: Iterator[StoredMessage]) -> list[StoredMessage]:
        return list(islice(messages, self._migrator.batch_messages))

    def _migrated(self, messages: Sequence[StoredMessage]) -> list[MigratedMessage]:
        found: list[MigratedMessage] = []
        for message, answer in zip(messages, self._migrator.migrate(messages), strict=True):
            for reason in answer.failures:
                self._fail(message, reason)
            if answer.migrated is not None:
                found.append(answer.migrated)
                self.changed += answer.migrated.properties is not None
        return found

    def _fail(self, message: StoredMessage, reason: str) -> None:
        self.failed += 1
        if len(self.examples) < EXAMPLES_MAX:
            self.examples.append(f"message {message.seq} of {message.queue}: {reason}")


class LocalMigrator:
    """Computes with an evaluator of this process."""

    def __init__(
        self,
        plan: Plan,
        evaluator: PropertyEvaluator,
        store: Store,
        old: Program | None,
        known_slicings: Collection[str],
    ) -> None:
        """`old` is the program that was active last, if known.

        `known_slicings` are the slicings that messages are in, or were in before a reset.
        """
        self._plan = plan
        self._program = plan.program
        self._evaluator = evaluator
        self._store = store
        self._old = old
        self._known_slicings = frozenset(known_slicings)
        self._declared = {
            queue: {p.name: p for p in self._program.properties_of(queue) if p.decl is not None}
            for queue in self._program.queues
        }
        self._slicings = {queue: self._program.slicings_of(queue) for queue in self._program.queues}
        self._index_names = {index.number: index_name(index) for index in plan.indexes}
        self._inheriting = inheriting_queues(self._program)

    @property
    def batch_messages(self) -> int:
        return BATCH_MESSAGES

    def migrate(self, messages: Sequence[StoredMessage]) -> list[MigrationOutcome]:
        # A message comes after the one that caused it, and may have to wait until that one is migrated.
        found: dict[int, MigrationOutcome] = {}
        triggers = {m.trigger for m in messages if m.trigger is not None and m.queue in self._inheriting}
        properties = self._store.next_properties(sorted(triggers)) if triggers else {}
        waiting = {message.seq: message for message in messages}
        while waiting:
            ready = [m for m in waiting.values() if m.trigger not in waiting or m.queue not in self._inheriting]
            arrivals = [self._arrival(message, properties.get(message.trigger or 0, {})) for message in ready]
            for message, answer in zip(ready, self._evaluator.migrate_properties(arrivals), strict=True):
                del waiting[message.seq]
                found[message.seq] = self._outcome(message, answer)
                migrated = found[message.seq].migrated
                if message.seq in triggers and migrated is not None and migrated.properties is not None:
                    properties[message.seq] = migrated.properties
        return [found[message.seq] for message in messages]

    def _arrival(self, message: StoredMessage, inherited: Mapping[str, PropertyValue]) -> PropertyRequest:
        kept: dict[str, PropertyValue] = {}
        declared = self._declared[message.queue]
        for name, value in message.properties.items():
            former = name.removeprefix(FORMER) if name.startswith(FORMER) else None
            if former is not None:
                if _may_keep(declared.get(former)):
                    kept[former] = value  # also if another value was computed since
            elif name in declared:
                if _may_keep(declared[name]):
                    kept.setdefault(name, value)
            elif message.trigger is None and _is_of_the_system(name):
                kept[name] = value  # a message from outside: expressions may read properties of its transport
        return PropertyRequest(
            queue=message.queue,
            document=Document(message.body),
            explicit=kept,
            now=message.created,
            inherited=inherited,
        )

    def _outcome(self, message: StoredMessage, answer: PropertyResult | MessageError) -> MigrationOutcome:
        if isinstance(answer, MessageError):
            return MigrationOutcome(None, (answer.message,))
        failures = [
            reason if reason.startswith("property ") else f"property {name}: {reason}"
            for name, reason in answer.failures
        ]
        properties = {**self._set_aside(message, answer), **answer.properties}
        migrated = MigratedMessage(
            seq=message.seq,
            properties=None if properties == message.properties else properties,
            slices=self._slices(message, properties),
            entries=tuple([(self._index_names[number], value) for number, value in answer.entries]),
        )
        return MigrationOutcome(migrated, tuple(failures))

    def _set_aside(self, message: StoredMessage, answer: PropertyResult) -> dict[str, PropertyValue]:
        """Return properties that are kept besides those that the program declares."""
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
        """Return whether a property could be set explicitly before, and is fixed now."""
        before = self._old.properties.get(prop.name) if self._old is not None else None
        return prop.variant == "fixed" and before is not None and before.variant != "fixed"

    def _slices(self, message: StoredMessage, properties: Mapping[str, PropertyValue]) -> tuple[SliceKey, ...]:
        if message.retired is not None or not self._slicings[message.queue]:
            return ()
        current = dict(message.slices)
        system = system_properties(message)
        found: list[SliceKey] = []
        for slicing in self._slicings[message.queue]:
            value = properties.get(slicing.property) or system.get(slicing.property)
            if value is None:
                continue
            if slicing.name in current or not self._was_released(message, slicing):
                found.append((slicing.name, value.key))
        return tuple(found)

    def _was_released(self, message: StoredMessage, slicing: Slicing) -> bool:
        """Return whether a message that is in no slice of a slicing was in one before a reset."""
        if slicing.property not in message.properties and slicing.property not in system_properties(message):
            return False
        if self._old is None:
            return slicing.name in self._known_slicings
        before = self._old.slicings.get(slicing.name)
        if before is None or before.property != slicing.property:
            return False
        return message.queue in self._old.properties[before.property].values


def inheriting_queues(program: Program) -> frozenset[str]:
    """Return the queues whose messages may inherit properties."""
    return frozenset(
        [
            queue
            for queue in program.queues
            if any([p.variant == "inherited" and p.decl is not None for p in program.properties_of(queue)])
        ]
    )


def stored_messages(store: Store, queue: str, after: int = 0) -> Iterator[StoredMessage]:
    """Yield all stored messages of a queue, in order."""
    while page := store.stored(queue, after, PAGE_MESSAGES):
        yield from page
        after = page[-1].seq


def _may_keep(prop: Property | None) -> bool:
    return prop is not None and prop.variant != "fixed"


def _is_of_the_system(name: str) -> bool:
    """Return whether a property needs no declaration."""
    return name.startswith(_SYSTEM) or name in ECHO_PROPERTIES or name in GATEWAY_PROPERTIES
