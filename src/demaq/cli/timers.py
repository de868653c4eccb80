"""`demaq timers`: what comes back, and when."""

from __future__ import annotations

from datetime import datetime

import click

from demaq.cli.command_classes import ExampleFirst
from demaq.cli.stores import (
    fit_line,
    json_option,
    open_for_reading,
    paged,
    parse_number,
    print_empty,
    print_next_page,
    show_json,
    store_option,
)
from demaq.store.location import StoreLocation
from demaq.store.sql_store import SqlStore


@click.command(cls=ExampleFirst, example="$ demaq timers --store orders")
@store_option
@paged
@json_option
def timers(place: StoreLocation, limit: int, after: str | None, as_json: bool) -> None:
    """List the messages of echo queues that have not come back yet, the next one first."""
    with open_for_reading(place) as store:
        found = store.timers(_place(store, parse_number(after, "--after")), limit + 1)
    shown = [(message, message.timer) for message in found[:limit] if message.timer is not None]
    if as_json:
        show_json(
            [
                {"id": str(m.seq), "queue": m.queue, "due": timer.due.isoformat(), "target": timer.target}
                for m, timer in shown
            ]
        )
    else:
        for message, timer in shown:
            head = f"{message.seq:>8}  {timer.due:%Y-%m-%d %H:%M:%S}  "
            click.echo(head + fit_line(f"{message.queue} into {timer.target}", len(head)))
        if not shown:
            print_empty(f"no {'further ' if after else ''}timers")
    print_next_page(found, limit, lambda message: message.seq)


def _place(store: SqlStore, after: int) -> tuple[datetime, int] | None:
    """Return where in the order of time a message stands."""
    if not after:
        return None
    message = store.message(after)
    if message is None or message.timer is None:
        raise click.ClickException(f"{after} is no timer, or it has come back and was removed: begin without --after")
    return message.timer.due, after
