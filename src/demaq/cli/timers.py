"""`demaq timers`: what comes back, and when."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import click

from demaq.cli.example_first import ExampleFirst
from demaq.cli.stores import PAGE, json_option, reading, show_json, store_option

_FOREVER = datetime(9999, 12, 31, tzinfo=UTC)


@click.command(cls=ExampleFirst, example="$ demaq timers --store orders")
@store_option
@click.option("--limit", default=PAGE, show_default=True, type=click.IntRange(1), help="Show at most so many.")
@json_option
def timers(folder: Path, limit: int, as_json: bool) -> None:
    """List the messages of echo queues that have not come back yet, the next one first."""
    with reading(folder) as store:
        found = store.due_timers(_FOREVER, limit)
    waiting = [(message, message.timer) for message in found if message.timer is not None]
    if as_json:
        show_json(
            [
                {"id": str(m.seq), "queue": m.queue, "due": timer.due.isoformat(), "target": timer.target}
                for m, timer in waiting
            ]
        )
        return
    for message, timer in waiting:
        click.echo(f"{message.seq:>8}  {timer.due:%Y-%m-%d %H:%M:%S}  {message.queue} into {timer.target}")
