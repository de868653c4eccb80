"""`demaq backfill`: a changed application on an old store, ahead of the next run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import click

from demaq.cli.command_classes import ExampleFirst
from demaq.cli.progress_bar import progress
from demaq.cli.shared_options import SparkOption, conf_option, master_option, pipeline_option, start_command_spark
from demaq.cli.stores import format_count, json_option, show_json, store_option, tell
from demaq.engine.migration.migrate_store import MigrationResult
from demaq.language.loader import load_program
from demaq.language.program.program import Program
from demaq.server.offline_migration import migrate_offline
from demaq.spark.pipeline import PipelineName
from demaq.store.location import StoreLocation

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SPARK_MESSAGES_MIN = 50_000
"""Fewer messages are filled in more quickly than Spark starts and warms up, on two cores."""


@click.command(cls=ExampleFirst, example="$ demaq backfill orders.dmq --store orders")
@click.argument("application", nargs=-1, required=True, metavar="APP...")
@store_option
@click.option(
    "--discard",
    multiple=True,
    metavar="QUEUE",
    help="Give up the messages of a queue that the changed application has no use for. May be repeated.",
)
@pipeline_option("auto")
@master_option
@conf_option
@json_option
def backfill(
    application: tuple[str, ...],
    place: StoreLocation,
    discard: tuple[str, ...],
    pipeline: PipelineName,
    master: str,
    conf: tuple[SparkOption, ...],
    as_json: bool,
) -> None:
    """Compute what a changed application needs to know of stored messages.

    New properties, slicings and indexes are filled in, and the application is that of the store from then on. No rule
    fires. `demaq run` does the same when it starts; this does it ahead, and on Spark. Run again after an interruption,
    it goes on.
    """
    done = migrate_with_progress(load_program(application), place, discard, pipeline, master, conf)
    if as_json:
        counts = done or MigrationResult()
        show_json({"messages": counts.looked_at, "changed": counts.changed, "failed": counts.failed})
    elif done is None:
        click.echo("nothing has changed since the application ran last")
    else:
        failed = f", {format_count(done.failed, 'value')} could not be computed" if done.failed else ""
        click.echo(
            f"{format_count(done.looked_at, 'message')} looked at, {done.changed:,} with other properties{failed}"
        )


def migrate_with_progress(
    program: Program,
    place: StoreLocation,
    discard: tuple[str, ...],
    pipeline: PipelineName,
    master: str,
    conf: tuple[SparkOption, ...],
) -> MigrationResult | None:
    """Migrate a store to a program with a progress bar. Return what was done, or None if nothing has changed."""
    with _spark(pipeline, master, conf, place.folder) as spark:
        return migrate_offline(program, place.where, discard, tell, spark.session, spark.progress)


@dataclass(slots=True)
class _BackfillSpark:
    """Starts Spark when it is worth it. From then on it is known how many messages there are: a bar can be shown."""

    pipeline: PipelineName
    start: Callable[[], SparkSession]
    show_bar: Callable[[int], Callable[[int], None]]
    _advance: Callable[[int], None] = field(default=lambda done: None)
    _done: int = 0

    def session(self, messages: int) -> SparkSession | None:
        is_for_spark = self.pipeline == "spark" or (self.pipeline == "auto" and messages >= SPARK_MESSAGES_MIN)
        found = self.start() if is_for_spark else None
        self._advance = self.show_bar(messages)
        return found

    def progress(self, done: int) -> None:
        self._advance(done - self._done)
        self._done = done


@contextmanager
def _spark(
    pipeline: PipelineName, master: str, conf: tuple[SparkOption, ...], folder: Path
) -> Iterator[_BackfillSpark]:
    with ExitStack() as opened:
        yield _BackfillSpark(
            pipeline,
            lambda: opened.enter_context(start_command_spark(master, conf, folder)).session,
            lambda messages: opened.enter_context(progress("filling in", messages)),
        )
