"""`demaq pause`: let messages wait."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from demaq.cli.command_classes import ExampleFirst
from demaq.cli.stores import (
    format_count,
    json_option,
    open_for_reading,
    open_for_writing,
    print_empty,
    program_of,
    show_json,
    store_option,
)
from demaq.operations.audit import expect_words, name_of_operator
from demaq.operations.json_values import as_json as encode
from demaq.operations.pause import KINDS, PausedReport, list_pauses
from demaq.store.location import StoreLocation
from demaq.store.operator_records import PauseKind
from demaq.store.sql_store import SqlStore

F = TypeVar("F", bound=Callable[..., Any])


def why_option(function: F) -> F:
    """Add the reason."""
    return click.option(
        "--why", default="", metavar="REASON", callback=_read_reason, help="For those who see it later."
    )(function)


def _read_reason(context: click.Context, parameter: click.Parameter, why: str) -> str:
    expect_words(why)
    return why


@click.command(cls=ExampleFirst, example="$ demaq pause queue orders --why 'prices are wrong' --store orders")
@click.argument("kind", type=click.Choice(KINDS), required=False)
@click.argument("name", required=False)
@why_option
@store_option
@json_option
def pause(kind: PauseKind | None, name: str | None, why: str, place: StoreLocation, as_json: bool) -> None:
    """Let the messages of a queue, a rule or a gateway wait.

    Without arguments, list what is paused. It holds at once and for later runs, until demaq resume. Messages are stored
    all the same, but an incoming gateway that is paused takes none.
    """
    if kind is None:
        _list(place, as_json)
        return
    if name is None:
        raise click.UsageError(f"say which {kind} to pause")
    with open_for_writing(place) as node:
        is_new = node.pause(kind, name, name_of_operator(), why)
    if as_json:
        show_json({"kind": kind, "name": name, "paused": True, "changed": is_new})
    else:
        click.echo(f"{kind} {name} {'is' if is_new else 'was'} paused{'' if is_new else ' before'}")


def _list(place: StoreLocation, as_json: bool) -> None:
    with open_for_reading(place) as store:
        found = read_pauses(store)
    if as_json:
        show_json(encode(found))
        return
    for report in found:
        click.echo(format_pause(report))
    if not found:
        print_empty("nothing is paused")


def read_pauses(store: SqlStore) -> list[PausedReport]:
    """Return what is paused on a store."""
    if not store.pauses():
        return []
    from demaq.compiler.planner import make_plan  # not needed by most

    program = program_of(store)
    return list_pauses(store, make_plan(program) if program is not None else None)


def format_pause(report: PausedReport) -> str:
    why = f": {report.why}" if report.why else ""
    waiting = f", {format_count(report.waiting, 'message')} waiting" if report.waiting else ""
    unknown = "" if report.is_known else " (not in the application)"
    return f"{report.kind} {report.name}{unknown}: since {report.since:%Y-%m-%d %H:%M:%S} by {report.who}{why}{waiting}"
