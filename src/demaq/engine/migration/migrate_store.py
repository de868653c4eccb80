"""Migrate a store to a changed program: report differences, refuse to lose messages, back-fill the rest.

Results are noted in tables of their own, and all of them take effect in the transaction that activates the program.
Until then the old program can be used again; a migration that was interrupted continues where it stopped. A program
that has not changed costs nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from demaq._version import __version__
from demaq.compiler.plan import Plan
from demaq.engine.message_factory import MessageFactory
from demaq.engine.migration.backfill import Backfill, LocalMigrator, Migrator, inheriting_queues, stored_messages
from demaq.errors import ProgramError, QueueNotEmpty
from demaq.evaluation.cascade.versions import index_name
from demaq.evaluation.round_request import PropertyEvaluator
from demaq.language.loader import load_program_texts
from demaq.language.program.differences import ProgramDifference, find_differences
from demaq.language.program.program import Program
from demaq.store.operator_records import AuditRecord
from demaq.store.protocol import NextProgram, Store, StoredMessage

PAGE = 1000
"""Timers in one read."""
NAMED_MAX = 3
"""How many timers a report names."""


@dataclass(slots=True)
class AimingTimers:
    """The timers that aim at one queue."""

    count: int = 0
    first: list[StoredMessage] = field(default_factory=list)
    """The ones that are due first."""

    def __str__(self) -> str:
        named = [f"message {each.seq} of {each.queue}, due {_due(each):%Y-%m-%d %H:%M:%S}" for each in self.first]
        more = [f"{self.count - len(named):,} more"] if self.count > len(named) else []
        many = "1 timer aims" if self.count == 1 else f"{self.count:,} timers aim"
        return f"{many} at it ({'; '.join([*named, *more])}), to become {'an error' if self.count == 1 else 'errors'}"


def timers_by_target(store: Store, discarded: Collection[str]) -> dict[str, AimingTimers]:
    """Return pending timers by the queue they aim at, without those of discarded queues."""
    found: dict[str, AimingTimers] = {}
    after: tuple[datetime, int] | None = None
    while page := store.timers(after, PAGE):
        for message in page:
            assert message.timer is not None, "timers have a time and a target"
            after = (message.timer.due, message.seq)
            if message.queue in discarded:
                continue
            aiming = found.setdefault(message.timer.target, AimingTimers())
            aiming.count += 1
            if len(aiming.first) < NAMED_MAX:
                aiming.first.append(message)
    return found


def _due(message: StoredMessage) -> datetime:
    assert message.timer is not None, "timers have a time and a target"
    return message.timer.due


PROGRESS_MESSAGES = 100_000
"""Progress is reported after so many messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """The differences from the program that was active last, and the queues whose messages change."""

    old: Program | None
    """None if it is not known or no longer compiles: then everything may have changed."""
    differences: tuple[ProgramDifference, ...]
    queues: frozenset[str] = field(default=frozenset())
    """Queues whose messages may get other properties, slices or index entries."""
    discarded: frozenset[str] = field(default=frozenset())
    """Queues whose messages are removed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationResult:
    """What a migration has done."""

    looked_at: int = 0
    """Messages that were examined in this run."""
    changed: int = 0
    """Those of them with other properties than before."""
    failed: int = 0
    """Properties that could not be computed."""


def migrate_store(
    plan: Plan,
    evaluator: PropertyEvaluator,
    store: Store,
    clock: Callable[[], datetime],
    discard: Collection[str] = (),
    tell: Callable[[str], None] = lambda line: None,
    choose_migrator: Callable[[LocalMigrator, Migration], Migrator] = lambda local, migration: local,
    progress: Callable[[int], None] = lambda done: None,
    operator: str | None = None,
) -> MigrationResult | None:
    """Make this the program of a store, before anything is processed. Return what was done; None if it was already.

    `discard` names queues whose messages may be lost; without it QueueNotEmpty is raised. `tell` is called with what
    changes before it does, `progress` with how many messages were looked at. `choose_migrator` returns what computes
    the new properties, slices and index entries of messages: the one it is given, or one on Spark. With `operator`,
    a change of the program is an audit record.
    """
    files = _files(plan.program)
    digest = _digest(plan.program, files)
    active = store.program()
    if active is not None and active[1] == digest and store.indexes().issuperset(_index_names(plan)):
        return None
    migrated = MigrationResult()
    entry: AuditRecord | None = None
    if active is not None or store.snapshot() > 0:
        migration = find_migration(plan, store, active[2] if active is not None else None, discard)
        for difference in migration.differences:
            tell(str(difference))
        for queue, timers in sorted(timers_by_target(store, migration.discarded).items()):
            if queue not in plan.program.queues:
                tell(f"queue {queue}: {timers}")
        local = LocalMigrator(plan, evaluator, store, migration.old, store.former_slicings())
        backfill = Backfill(
            choose_migrator(local, migration),
            store,
            digest,
            not migration.queues.isdisjoint(inheriting_queues(plan.program)),
        )
        migrated = _run_backfill(migration, backfill, store, tell, progress)
        if operator is not None:
            entry = _describe_migration(migration, operator, clock())
    factory = MessageFactory(plan, evaluator)
    priorities = {queue: factory.priority(queue) for queue in plan.program.queues}
    indexes = tuple(_index_names(plan))
    store.activate(NextProgram(digest=digest, files=files, indexes=indexes, priorities=priorities), clock(), entry)
    return migrated


def _describe_migration(migration: Migration, operator: str, now: datetime) -> AuditRecord:
    """Return the audit record of a migration."""
    differences, discarded = [str(each) for each in migration.differences], sorted(migration.discarded)
    given_up = f", gave up queue {', '.join(discarded)}" if discarded else ""
    return AuditRecord(
        at=now,
        who=operator,
        action="migrate",
        subject="to a changed application",
        result=f"{len(differences)} {'difference' if len(differences) == 1 else 'differences'}{given_up}",
        details={"differences": differences, "discarded": discarded},
    )


def find_migration(
    plan: Plan, store: Store, old_files: dict[str, str] | None, discard: Collection[str] = ()
) -> Migration:
    """Compare a program with the one that was active last. Raises QueueNotEmpty."""
    new = plan.program
    old = _load(old_files)
    discarded = _discarded(old, new, store, discard)
    missing = [name for name in _index_names(plan) if name not in store.indexes()]
    found = [] if old is None else find_differences(old, new)
    found += [ProgramDifference("index", name, "new") for name in missing]
    if old is None:
        queues = set(new.queues)
    else:
        queues = {index.queue for index in plan.indexes if index_name(index) in missing}
        queues |= _queues_of_properties(old, new, found)
        queues |= _queues_of_slicings(old, new, store, found)
    return Migration(
        old=old,
        differences=tuple(found),
        queues=frozenset(queues & set(new.queues)) - discarded,
        discarded=discarded,
    )


def _run_backfill(
    migration: Migration,
    backfill: Backfill,
    store: Store,
    tell: Callable[[str], None],
    progress: Callable[[int], None],
) -> MigrationResult:
    counts = store.counts()
    for queue in sorted(migration.discarded):
        tell(f"queue {queue}: {_messages(counts[queue][0])} discarded")
    concerned = sum([counts[queue][0] for queue in migration.queues if queue in counts])
    if concerned:
        tell(f"filling in {_messages(concerned)}")
    reported = 0

    def report(done: int) -> None:
        nonlocal reported
        progress(done)
        if done - reported >= PROGRESS_MESSAGES:
            reported = done
            tell(f"{_messages(done)} looked at")

    backfill.run(migration.queues, migration.discarded, report)
    if backfill.failed:
        values = "1 value" if backfill.failed == 1 else f"{backfill.failed:,} values"
        tell(f"{values} could not be computed and will be absent:")
        for example in backfill.examples:
            tell(f"  {example}")
        if backfill.failed > len(backfill.examples):
            tell(f"  and {backfill.failed - len(backfill.examples):,} more")
    return MigrationResult(looked_at=backfill.looked_at, changed=backfill.changed, failed=backfill.failed)


# --- what may be lost ------------------------------------------------------------------------------------------------


def _discarded(old: Program | None, new: Program, store: Store, discard: Collection[str]) -> frozenset[str]:
    """Return the queues to be discarded. Raises QueueNotEmpty if one has messages and is not named in `discard`."""
    found: set[str] = set()
    refused: list[str] = []
    for queue, (visible, unprocessed) in store.counts().items():
        if queue not in new.queues:
            problem = (
                f"queue {queue} is not in the program any more, but holds {_messages(visible)} "
                f"({unprocessed:,} unprocessed)"
            )
        elif old is None or queue not in old.queues or old.queues[queue].kind != new.queues[queue].kind:
            waiting = len([m for m in stored_messages(store, queue) if _is_stuck(m, new.queues[queue].kind)])
            if not waiting:
                continue
            before = f" was {old.queues[queue].kind}" if old is not None and queue in old.queues else ""
            problem = f"queue {queue}{before} is {new.queues[queue].kind} now, and {_messages(waiting)} would be stuck"
        else:
            continue
        if queue in discard:
            found.add(queue)
        else:
            refused.append(problem)
    if refused:
        timers = timers_by_target(store, discard)
        refused += [f"queue {queue}: {timers[queue]}" for queue in sorted(timers) if queue not in new.queues]
        way_out = "run the old program until nothing is left, or give them up with --discard QUEUE"
        raise QueueNotEmpty(f"{'; '.join(refused)}: {way_out}")
    return frozenset(found)


def _is_stuck(message: StoredMessage, kind: str) -> bool:
    """Return whether a message waits for something that does not happen in a queue of this kind."""
    if message.retired is not None:
        return False
    waits = message.processed is None
    if kind == "echo":
        return waits and message.timer is None
    if kind == "outgoingGateway":
        return waits and not message.undelivered
    return message.undelivered or (waits and message.timer is not None)


# --- which messages are concerned ------------------------------------------------------------------------------------


def _queues_of_properties(old: Program, new: Program, found: Iterable[ProgramDifference]) -> set[str]:
    """Return the queues whose messages may get other properties."""
    changed = {item.name for item in found if item.part == "property"}
    # The former text of imported libraries is not stored.
    changed |= {p.name for p in new.properties.values() if p.module is not None and new.modules[p.module].libraries}
    while True:
        queues = {q for name in changed for program in (old, new) for q in _property_queues(program, name)}
        # A value may be computed from other properties of the message, and be inherited somewhere else.
        further = {
            prop.name
            for prop in new.properties.values()
            if any([value is not None and queue in queues for queue, value in prop.values.items()])
        }
        if further <= changed:
            return queues
        changed |= further


def _queues_of_slicings(old: Program, new: Program, store: Store, found: Iterable[ProgramDifference]) -> set[str]:
    """Return the queues whose messages may enter or leave slices."""
    changed = {item.name for item in found if item.part == "slicing"}
    if not set(store.slicings()) <= {*old.slicings, *new.slicings}:
        return set(new.queues)  # left by a program before the last one
    return {
        queue
        for name in changed
        for program in (old, new)
        if name in program.slicings
        for queue in _property_queues(program, program.slicings[name].property)
    }


def _property_queues(program: Program, name: str) -> Iterable[str]:
    return program.properties[name].values if name in program.properties else ()


# --- names -----------------------------------------------------------------------------------------------------------


def _index_names(plan: Plan) -> Sequence[str]:
    return [index_name(index) for index in plan.indexes]


def _files(program: Program) -> dict[str, str]:
    return {str(Path(file).resolve()): text for file, text in program.files().items()}


def _digest(program: Program, files: dict[str, str]) -> str:
    """Return a digest of program and libraries, and of the version of Demaq, which decides on indexes."""
    trees = [tree for module in program.modules for tree in module.libraries]
    libraries = {str(Path(tree.at.file).resolve()): tree.at.source.text for tree in trees}
    whole = hashlib.sha256(__version__.encode())
    for name, text in sorted({**libraries, **files}.items()):
        whole.update(f"\0{name}\0{text}".encode())
    return whole.hexdigest()


def _load(files: dict[str, str] | None) -> Program | None:
    try:
        return load_program_texts(files) if files is not None else None
    except ProgramError:
        return None  # the language, or a file that it refers to, has changed


def _messages(count: int) -> str:
    return "1 message" if count == 1 else f"{count:,} messages"
