"""`demaq verify`: is what is stored what was stored?"""

from __future__ import annotations

from dataclasses import asdict

import click

from demaq.cli.command_classes import ExampleFirst
from demaq.cli.restore import note_offline
from demaq.cli.stores import format_count, json_option, show_json, store_option
from demaq.errors import OperatorError
from demaq.operations.audit import WORDS_MAX
from demaq.store.location import StoreLocation, store_argument
from demaq.store.repair import accept_loss
from demaq.store.row_verification import VerificationReport
from demaq.store.store_verification import FINDINGS_SHOWN_MAX, verify_store


@click.command(cls=ExampleFirst, example="$ demaq verify --store orders")
@store_option
@click.option(
    "--accept-loss",
    is_flag=True,
    help="Let a store that has lost something go on without it. Needs a store that no node runs on.",
)
@json_option
def verify(place: StoreLocation, accept_loss: bool, as_json: bool) -> int:
    """Verify a store: every row by its checksum, and that nothing acknowledged is missing.

    It may run beside a node and changes nothing, but with --accept-loss.
    """
    if accept_loss:
        _accept(place)
    report = verify_store(place.where)
    if as_json:
        show_json({"store": str(place), **asdict(report)})
    else:
        _show(place, report)
    return 1 if report.findings else 0


def _accept(place: StoreLocation) -> None:
    if place.is_on_server:
        raise OperatorError("a loss is accepted for a store in a folder; PostgreSQL has tools of its own")
    done: list[str] = []
    for line in accept_loss(place.folder):
        click.echo(line, err=True)
        done.append(line)
    if done:
        note_offline(place, "accept loss", "what the store has lost", "; ".join(done)[:WORDS_MAX])


def _show(place: StoreLocation, report: VerificationReport) -> None:
    for finding in report.findings[:FINDINGS_SHOWN_MAX]:
        click.echo(str(finding))
    if report.without_checksum:
        rows = format_count(report.without_checksum, "row")
        click.echo(f"{rows} from before there were checksums: nothing is known of them", err=True)
    counts = f"{format_count(report.messages, 'message')}, {format_count(report.rows, 'row')}"
    sizes = f"{counts}, newest number {report.newest:,}"
    result = format_count(len(report.findings), "problem") if report.findings else "no damage"
    click.echo(f"{place}: {sizes}: {result}")
    if report.findings:
        click.echo(_advice(place), err=True)


def _advice(place: StoreLocation) -> str:
    if place.is_on_server:
        return "restore a backup into a database or schema without a store: demaq restore BACKUP --store STORE"
    return (
        f"move the folder away and restore a backup: demaq restore BACKUP {store_argument(place)}; "
        f"or go on without what is lost: demaq verify --accept-loss {store_argument(place)}"
    )
