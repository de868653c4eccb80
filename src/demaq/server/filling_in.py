"""Bring a store that no node runs on under an application, ahead of the next run: what a node does when it starts.

Where many messages are concerned, Spark's executors work out what they will be. It may be interrupted at any time, and
goes on where it was when it is asked for again, by whomever.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from demaq.bulk.backfilling import SparkRestater
from demaq.bulk.executors import Place
from demaq.compiler.planner import make_plan
from demaq.errors import StoreError
from demaq.language.program import Program
from demaq.rounds.process import ProcessEvaluator
from demaq.scheduler.backfill import Restater, Restating
from demaq.scheduler.evolution import Evolution, Evolved, evolve
from demaq.server.control import running_node
from demaq.store.address import is_address
from demaq.store.opening import open_store
from demaq.store.protocol import Store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def fill_in(
    program: Program,
    where: str | Path,
    discard: Collection[str] = (),
    tell: Callable[[str], None] = lambda line: None,
    session: Callable[[int], SparkSession | None] = lambda messages: None,
    progress: Callable[[int], None] = lambda done: None,
) -> Evolved | None:
    """Make this the program of a store. The answer is what was done, or None where it was its program already.

    `session` is told how many messages are concerned, and answers with the Spark that they are worth, if any. Raises
    QueueNotEmpty where messages would be lost.
    """
    if not is_address(where):
        _expect_rest(Path(where))
    files = {str(Path(file).resolve()): text for file, text in program.files().items()}
    store = open_store(where)
    evaluator = ProcessEvaluator(files, where)
    try:

        def restating(restater: Restater, evolution: Evolution) -> Restating:
            concerned = _concerned(store, evolution)
            spark = session(concerned) if concerned else None
            if spark is None:
                return restater
            active = store.program()
            old = active[2] if active is not None else None
            return SparkRestater(spark, Place.of(files, where), old, store.slicings(), restater)

        evaluator.start()
        return evolve(make_plan(program), evaluator, store, _now, discard, tell, restating, progress)
    finally:
        evaluator.close()
        store.close()


def _expect_rest(folder: Path) -> None:
    if not (folder / "store.db").exists():
        raise StoreError(f"there is no store in {folder}")
    if running_node(folder) is not None:
        raise StoreError("a node runs on the store; stop it first: what changes is filled in between two runs")


def _concerned(store: Store, evolution: Evolution) -> int:
    counts = store.counts()
    return sum([counts[queue][0] for queue in evolution.queues if queue in counts])


def _now() -> datetime:
    return datetime.now(UTC)
