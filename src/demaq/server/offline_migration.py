"""Bring a store that no node runs on under an application, ahead of the next run: what a node does when it starts.

Where many messages are concerned, Spark's executors work out what they will be. It may be interrupted at any time, and
continues when it is repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from demaq.bulk.executors import ProgramOnStore
from demaq.bulk.migrate import SparkMigrator
from demaq.compiler.planner import make_plan
from demaq.control.client import running_node
from demaq.engine.migration.backfill import LocalMigrator, Migrator
from demaq.engine.migration.migrate_store import Migration, MigrationResult, migrate_store
from demaq.errors import StoreError
from demaq.evaluation.workers.process import ProcessEvaluator
from demaq.language.program.program import Program
from demaq.operations.audit import name_of_operator
from demaq.store.address import is_address
from demaq.store.opening import open_store
from demaq.store.protocol import Store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def migrate_offline(
    program: Program,
    where: str | Path,
    discard: Collection[str] = (),
    tell: Callable[[str], None] = lambda line: None,
    session: Callable[[int], SparkSession | None] = lambda messages: None,
    progress: Callable[[int], None] = lambda done: None,
) -> MigrationResult | None:
    """Make this the program of a store. Return what was done, or None if it was its program already.

    `session` gets how many messages are concerned, and answers with the Spark that they are worth, if any. Raises
    QueueNotEmpty where messages would be lost.
    """
    if not is_address(where):
        _expect_rest(Path(where))
    files = {str(Path(file).resolve()): text for file, text in program.files().items()}
    store = open_store(where)
    evaluator = ProcessEvaluator(files, where)
    try:

        def choose_migrator(local: LocalMigrator, migration: Migration) -> Migrator:
            concerned = _count_concerned(store, migration)
            spark = session(concerned) if concerned else None
            if spark is None:
                return local
            active = store.program()
            old = active[2] if active is not None else None
            return SparkMigrator(spark, ProgramOnStore.of(files, where), old, store.former_slicings(), local)

        evaluator.start()
        return migrate_store(
            make_plan(program),
            evaluator,
            store,
            lambda: datetime.now(UTC),
            discard,
            tell,
            choose_migrator,
            progress,
            name_of_operator(),
        )
    finally:
        evaluator.close()
        store.close()


def _expect_rest(folder: Path) -> None:
    if not (folder / "store.db").exists():
        raise StoreError(f"there is no store in {folder}")
    if running_node(folder) is not None:
        raise StoreError("a node runs on the store; stop it first: what changes is filled in between two runs")


def _count_concerned(store: Store, migration: Migration) -> int:
    counts = store.counts()
    return sum([counts[queue][0] for queue in migration.queues if queue in counts])
