"""`demaq queues`: how much is in every queue."""

from __future__ import annotations

import click

from demaq.cli.command_classes import ExampleFirst
from demaq.cli.message_state import processed_queues
from demaq.cli.pause import format_pause, read_pauses
from demaq.cli.stores import (
    format_count,
    json_option,
    open_for_reading,
    paged,
    print_empty,
    print_next_page,
    program_of,
    show_json,
    store_option,
)
from demaq.errors import DemaqError
from demaq.operations.pause import PausedReport
from demaq.store.location import StoreLocation


@click.command(cls=ExampleFirst, example="$ demaq queues --store orders")
@store_option
@click.option("--all", "everything", is_flag=True, help="Show also queues of the application that are empty.")
@paged
@json_option
def queues(place: StoreLocation, everything: bool, limit: int, after: str | None, as_json: bool) -> None:
    """List the queues that hold messages, with how many, and how many of them wait to be processed.

    Also what is paused, and how many messages no rule has reacted to since the node that runs was started.
    """
    with open_for_reading(place) as store:
        counts = store.counts()
        program = program_of(store) if everything else None
        processed = processed_queues(store, counts)
        paused = read_pauses(store)
    unmatched = _read_unmatched(place)
    if program is not None:
        counts = {**dict.fromkeys(program.queues, (0, 0)), **counts}
    found = [
        (name, count, open_ if name in processed else 0)
        for name, (count, open_) in sorted(counts.items())
        if after is None or name > after
    ]
    shown = found[:limit]
    if as_json:
        show_json(
            [
                {
                    "queue": name,
                    "messages": count,
                    "waiting": waiting,
                    "paused": [f"{report.kind} {report.name}" for report in paused if _holds(report, name)],
                    "unmatched": unmatched.get(name, 0) if unmatched is not None else None,
                }
                for name, count, waiting in shown
            ]
        )
    else:
        for name, count, waiting in shown:
            waits = f", {waiting:,} waiting" if name in processed else ""
            ignored = f", {unmatched[name]:,} unmatched" if unmatched is not None and name in unmatched else ""
            click.echo(f"{name}: {format_count(count, 'message')}{waits}{ignored}")
            for report in paused:
                if _holds(report, name):
                    click.echo(f"  paused: {format_pause(report)}")
        if not shown:
            print_empty("no queue holds messages" if after is None else f"no more queues after {after}")
    print_next_page(found, limit, lambda item: item[0])


def _holds(report: PausedReport, queue: str) -> bool:
    """Return whether messages of a queue wait because of a pause, or none come to it."""
    return queue in report.queues or (report.kind == "gateway" and report.name == queue)


def _read_unmatched(place: StoreLocation) -> dict[str, int] | None:
    """Return how many messages of each queue no rule has reacted to; None if no node runs, or it does not say."""
    from demaq.control.client import running_node

    node = running_node(place)
    try:
        return dict(node.status()["unmatched"]) if node is not None else None
    except DemaqError:
        return None
