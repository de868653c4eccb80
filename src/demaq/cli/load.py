"""`demaq load`: many documents into a queue, checked on Spark."""

from __future__ import annotations

import click

from demaq.bulk.load import DocumentRefused, Load
from demaq.bulk.message_sink import BulkReport
from demaq.bulk.sources import BODY_COLUMN, Layout, count_documents, find_files, read_documents
from demaq.cli.command_classes import ExampleFirst
from demaq.cli.progress_bar import progress
from demaq.cli.shared_options import SparkOption, conf_option, master_option, start_command_spark
from demaq.cli.stores import (
    format_count,
    json_option,
    open_for_reading,
    open_for_writing,
    show_json,
    store_option,
)
from demaq.engine.intake import expect_queue, type_properties
from demaq.language.loader import load_program_texts
from demaq.spark.master import is_local
from demaq.spark.packaging import read_companion_files
from demaq.store.location import StoreLocation
from demaq.store.opening import program_on


@click.command(cls=ExampleFirst, example="$ demaq load orders invoices/ more.parquet --store orders")
@click.argument("queue")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@store_option
@click.option("--rows", "row_tag", metavar="TAG", help="Each element of this name in an XML file is a message.")
@click.option(
    "--body", default=BODY_COLUMN, show_default=True, metavar="COLUMN", help="The column that holds the messages."
)
@click.option("--properties", default="", metavar="A,B", help="Columns that are properties of the messages.")
@click.option("--strict", is_flag=True, help="Stop at the first document that the queue does not take.")
@master_option
@conf_option
@json_option
def load(
    queue: str,
    paths: tuple[str, ...],
    place: StoreLocation,
    row_tag: str | None,
    body: str,
    properties: str,
    strict: bool,
    master: str,
    conf: tuple[SparkOption, ...],
    as_json: bool,
) -> int:
    """Put many documents into a queue, checked on Spark.

    They come from XML files, folders of them, Parquet and lines of JSON. What the queue does not take becomes a message
    in an error queue. Run again after an interruption, it goes on: what is stored is not stored twice.
    """
    columns = tuple([name.strip() for name in properties.split(",") if name.strip()])
    layout = Layout(row_tag=row_tag, body=body, properties=columns)
    report = BulkReport()
    refusal: DocumentRefused | None = None
    digest, files = _program(place, queue, columns)
    sources = find_files(paths)
    total = count_documents(sources, layout)
    try:
        with (
            open_for_writing(place) as target,
            start_command_spark(master, conf, place.folder) as spark,
            progress(f"loading {queue}", total) as advance,
        ):
            work = Load(
                session=spark.session,
                target=target,
                files=files,
                companions={} if is_local(master) else read_companion_files(files),
                digest=digest,
                queue=queue,
                strict=strict,
                advance=advance,
            )
            work.run(read_documents(sources, layout), report)
    except DocumentRefused as refused:
        refusal = refused
    _show(queue, report, as_json)
    if refusal is not None:
        raise click.ClickException(str(refusal))
    return 0


def _program(place: StoreLocation, queue: str, properties: tuple[str, ...]) -> tuple[str, dict[str, str]]:
    """Return digest and files of the application of a store. Raises if it has no such queue or properties."""
    with open_for_reading(place) as store:
        _, digest, files = program_on(store, place)
    program = load_program_texts(files)
    expect_queue(program, queue)
    type_properties(program, queue, dict.fromkeys(properties, ""))
    return digest, files


def _show(queue: str, report: BulkReport, as_json: bool) -> None:
    refused = dict(sorted(report.refused.items()))
    if as_json:
        show_json({"queue": queue, "stored": report.stored, "known": report.known, "refused": refused})
        return
    known = f", {report.known:,} known from an earlier load" if report.known else ""
    click.echo(f"queue {queue}: {format_count(report.stored, 'message')} stored{known}")
    if refused:
        kinds = ", ".join([f"{count:,} {kind}" for kind, count in refused.items()])
        click.echo(f"{format_count(report.refused.total(), 'document')} refused: {kinds}")
        for example in report.examples:
            click.echo(f"  {example}", err=True)
