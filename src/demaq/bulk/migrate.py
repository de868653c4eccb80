"""Compute on Spark what stored messages are under a changed program.

The executors read the messages from the store and return properties, slices and index entries, which the caller notes
in the store. Messages that cause each other are in one task, in order, because one may inherit from the other.
"""

from __future__ import annotations

import logging
import pickle
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from demaq.bulk.executors import ProgramOnStore, open_program
from demaq.engine.migration.backfill import LocalMigrator, MigrationOutcome, Migrator
from demaq.errors import ProgramError
from demaq.evaluation.workers.process import FURTHER_MESSAGE_SECONDS, RULE_TIMEOUT_SECONDS
from demaq.evaluation.workers.time_limit import at_most
from demaq.language.loader import load_program_texts
from demaq.language.program.program import Program
from demaq.spark.jobs import JobFailed, TasksFailed, cores, run_tasks
from demaq.spark.partition import partition
from demaq.store.protocol import MigratedMessage, StoredMessage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TASK_MESSAGES = 2_000
"""How many messages one task migrates; there is one task for each core at a time."""

_log = logging.getLogger("demaq.node")


class SparkMigrator:
    """A Migrator on Spark. Messages of a task that fails are migrated by the fallback, a Migrator in this process."""

    def __init__(
        self,
        session: SparkSession,
        place: ProgramOnStore,
        old_files: Mapping[str, str] | None,
        known_slicings: Sequence[str],
        fallback: Migrator,
    ) -> None:
        self._session = session
        self._place = place
        self._old_files = old_files
        self._known_slicings = tuple(known_slicings)
        self._fallback = fallback
        self._tasks = max(cores(session), 1)

    @property
    def batch_messages(self) -> int:
        return self._tasks * TASK_MESSAGES

    def migrate(self, messages: Sequence[StoredMessage]) -> Sequence[MigrationOutcome]:
        causes = [[("", str(m.seq)), ("", str(m.seq if m.trigger is None else m.trigger))] for m in messages]
        shares = partition(causes, self._tasks)
        answers = self._run_tasks([[messages[position].seq for position in share] for share in shares])
        found: dict[int, MigrationOutcome] = {}
        for number, share in enumerate(shares):
            if number in answers:
                outcomes: Sequence[MigrationOutcome] = [_unpack(*packed) for packed in pickle.loads(answers[number])]
            else:
                outcomes = self._fallback.migrate([messages[position] for position in share])
            found.update(zip(share, outcomes, strict=True))
        return [found[position] for position in range(len(messages))]

    def _run_tasks(self, shares: Sequence[Sequence[int]]) -> dict[int, bytes]:
        assignments = [pickle.dumps((self._place, self._old_files, self._known_slicings, share)) for share in shares]
        try:
            return dict(enumerate(run_tasks(self._session, assignments, migrate_batch)))
        except TasksFailed as failed:
            for number, reason in failed.failures.items():
                _log.warning("task %d of a backfill failed: %s", number, reason.strip().split("\n")[-1])
            return failed.answers
        except JobFailed as failed:
            _log.warning("%s; going on without Spark", failed)
            return {}


# --- on an executor --------------------------------------------------------------------------------------------------

_migrators: dict[str, LocalMigrator] = {}


def migrate_batch(assignment: bytes) -> bytes:
    place, old_files, known_slicings, seqs = pickle.loads(assignment)
    here = open_program(place)
    if place.name not in _migrators:
        _migrators.clear()
        old = _load_old_program(old_files)
        _migrators[place.name] = LocalMigrator(here.plan, here.evaluator, here.store, old, known_slicings)
    messages = here.store.messages(seqs)
    with at_most(RULE_TIMEOUT_SECONDS + len(messages) * FURTHER_MESSAGE_SECONDS):
        answers = _migrators[place.name].migrate(messages)
    return pickle.dumps([_pack(answer) for answer in answers], pickle.HIGHEST_PROTOCOL)


def _load_old_program(files: Mapping[str, str] | None) -> Program | None:
    try:
        return load_program_texts(files) if files is not None else None
    except ProgramError:
        return None


_Packed = tuple[tuple[object, ...] | None, tuple[str, ...]]


def _pack(answer: MigrationOutcome) -> _Packed:
    """Return plain tuples, which are the fastest to pickle."""
    migrated = answer.migrated
    if migrated is None:
        return None, answer.failures
    return (migrated.seq, migrated.properties, migrated.slices, migrated.entries), answer.failures


def _unpack(migrated: tuple[object, ...] | None, failures: tuple[str, ...]) -> MigrationOutcome:
    if migrated is None:
        return MigrationOutcome(None, failures)
    seq, properties, slices, entries = migrated
    return MigrationOutcome(
        MigratedMessage(seq=seq, properties=properties, slices=slices, entries=entries),  # type: ignore[arg-type]
        failures,
    )
