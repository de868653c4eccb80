"""`demaq export`: the messages of a queue into a folder."""

from __future__ import annotations

from pathlib import Path

import click

from demaq.bulk.columns import property_columns
from demaq.bulk.export import create_export_folder, read_pages, write_parquet, write_xml
from demaq.cli.command_classes import ExampleFirst
from demaq.cli.messages import expect_queue
from demaq.cli.progress_bar import progress
from demaq.cli.shared_options import SparkOption, conf_option, master_option, start_command_spark
from demaq.cli.stores import format_count, open_for_reading, program_of, store_option
from demaq.store.location import StoreLocation


@click.command(cls=ExampleFirst, example="$ demaq export orders --to parquet orders-2026 --store orders")
@click.argument("queue")
@click.argument("target", metavar="DIR", type=click.Path(path_type=Path))
@store_option
@click.option("--to", "layout", type=click.Choice(["parquet", "xml"]), required=True, help="What to write.")
@click.option("--all", "everything", is_flag=True, help="Also what is done with and not removed yet.")
@master_option
@conf_option
def export(
    queue: str,
    target: Path,
    place: StoreLocation,
    layout: str,
    everything: bool,
    master: str,
    conf: tuple[SparkOption, ...],
) -> None:
    """Write the messages of a queue into a folder.

    All of them as they are at one moment. Works while a node runs, and offline.
    """
    with open_for_reading(place) as store, store.at_one_snapshot(), create_export_folder(target) as unfinished:
        program = program_of(store)
        visible = store.counts().get(queue, (0, 0))[0]
        if not visible:
            expect_queue(store, queue)
        pages = read_pages(store, queue, everything)
        total = None if everything else visible
        if layout == "xml":
            with progress(f"exporting {queue}", total) as advance:
                written = write_xml(pages, unfinished, advance)
        else:
            columns = property_columns(program, queue)
            with (
                start_command_spark(master, conf, place.folder) as spark,
                progress(f"exporting {queue}", total) as advance,
            ):
                written = write_parquet(spark.session, pages, columns, unfinished, advance)
    click.echo(f"{format_count(written, 'message')} of queue {queue} in {target}")
