"""`demaq queues`: how much is in every queue."""

from __future__ import annotations

import click

from demaq.cli.command_classes import ExampleFirst
from demaq.cli.message_state import processed_queues
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
from demaq.store.location import StoreLocation


@click.command(cls=ExampleFirst, example="$ demaq queues --store orders")
@store_option
@click.option("--all", "everything", is_flag=True, help="Show also queues of the application that are empty.")
@paged
@json_option
def queues(place: StoreLocation, everything: bool, limit: int, after: str | None, as_json: bool) -> None:
    """List the queues that hold messages, with how many, and how many of them wait to be processed."""
    with open_for_reading(place) as store:
        counts = store.counts()
        program = program_of(store) if everything else None
        processed = processed_queues(store, counts)
    if program is not None:
        counts = {**dict.fromkeys(program.queues, (0, 0)), **counts}
    found = [
        (name, count, open_ if name in processed else 0)
        for name, (count, open_) in sorted(counts.items())
        if after is None or name > after
    ]
    shown = found[:limit]
    if as_json:
        show_json([{"queue": name, "messages": count, "waiting": waiting} for name, count, waiting in shown])
    else:
        for name, count, waiting in shown:
            click.echo(
                f"{name}: {format_count(count, 'message')}{f', {waiting:,} waiting' if name in processed else ''}"
            )
        if not shown:
            print_empty("no queue holds messages" if after is None else f"no more queues after {after}")
    print_next_page(found, limit, lambda item: item[0])
