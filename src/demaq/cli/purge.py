"""`demaq purge`: remove messages."""

from __future__ import annotations

import sys
from typing import Any

import click

from demaq.cli.command_classes import ExampleFirst
from demaq.cli.message_selection import expect_selection, make_selection, matching, selection_options
from demaq.cli.pause import why_option
from demaq.cli.progress_bar import progress
from demaq.cli.stores import format_count, json_option, open_for_reading, open_for_writing, show_json, store_option
from demaq.operations.audit import name_of_operator
from demaq.operations.json_values import as_json as encode
from demaq.operations.purge import PurgePlan, PurgeReport, plan_purge
from demaq.operations.purge import purge as purge_store
from demaq.operations.search import STATEMENT_SECONDS_MAX
from demaq.store.location import StoreLocation


@click.command(cls=ExampleFirst, example="$ demaq purge --queue orders --state waits --dry-run --store orders")
@click.argument("ids", nargs=-1, metavar="[ID...]")
@selection_options
@click.option("--dry-run", is_flag=True, help="Show what would be removed, and change nothing.")
@click.option("--yes", is_flag=True, help="Do not ask on a terminal.")
@why_option
@store_option
@json_option
def purge(
    ids: tuple[str, ...], dry_run: bool, yes: bool, why: str, place: StoreLocation, as_json: bool, **conditions: Any
) -> None:
    """Remove messages for good, whatever their state.

    Those with these ids, or all that meet the conditions. They leave their queues, slices, timers and outboxes, and no
    rule sees them again. demaq search takes the same conditions. Messages that come while it runs stay.
    """
    selection = make_selection(ids, **conditions)
    if selection.is_empty:
        raise click.UsageError("say which messages to remove: their ids, or a condition such as --queue")
    with open_for_reading(place) as store, matching(selection, place) as matches:
        store.limit_statements(STATEMENT_SECONDS_MAX)
        selection = expect_selection(store, selection)
        newest = store.snapshot()
        last = None
        if dry_run or (sys.stdin is not None and sys.stdin.isatty() and not yes):
            with progress("looking for messages", newest) as advance:
                plan = plan_purge(store, selection, matches, advance)
            if dry_run or not plan.messages:
                _show_plan(plan, as_json)
                return
            last = plan.last
            click.confirm(f"remove {format_count(plan.messages, 'message')}?", abort=True, err=True)
        with open_for_writing(place) as node, progress("removing messages", newest) as advance:
            report = purge_store(
                store, node, selection, who=name_of_operator(), why=why, matches=matches, last=last, advance=advance
            )
    _show(report, as_json)


def _show_plan(plan: PurgePlan, as_json: bool) -> None:
    if as_json:
        show_json({"messages": plan.messages, "queues": encode(plan.by_queue), "examples": encode(plan.examples)})
        return
    click.echo(f"{format_count(plan.messages, 'message')} would be removed")
    for queue, states in sorted(plan.by_queue.items()):
        counts = ", ".join([f"{count:,} {state}" for state, count in sorted(states.items())])
        click.echo(f"  {queue}: {counts}")


def _show(report: PurgeReport, as_json: bool) -> None:
    if as_json:
        audit = report.audit
        show_json({"removed": report.removed, "queues": encode(report.by_queue), "left": report.left, "audit": audit})
        return
    click.echo(f"{format_count(report.removed, 'message')} removed")
    for queue, count in report.by_queue.items():
        click.echo(f"  {queue}: {count:,}")
    if report.left:
        click.echo(f"{format_count(report.left, 'message')} left: removed by others, or in a reliable sequence")
