"""`demaq queues`: how much is in every queue."""

from __future__ import annotations

from pathlib import Path

import click

from demaq.cli.example_first import ExampleFirst
from demaq.cli.stores import counted, json_option, reading, show_json, store_option


@click.command(cls=ExampleFirst, example="$ demaq queues --store orders")
@store_option
@json_option
def queues(folder: Path, as_json: bool) -> None:
    """List the queues that hold messages, with how many, and how many of them wait to be processed."""
    with reading(folder) as store:
        counts = store.counts()
    if as_json:
        show_json([{"queue": name, "messages": all_, "waiting": waiting} for name, (all_, waiting) in counts.items()])
        return
    for name, (all_, waiting) in sorted(counts.items()):
        click.echo(f"{name}: {counted(all_, 'message')}, {waiting} waiting")
