"""`demaq take`: take messages out of a mailbox."""

from __future__ import annotations

import click

from demaq.cli.command_classes import ExampleFirst
from demaq.cli.parameters import COUNT
from demaq.cli.stores import json_option, open_for_writing, print_empty, show_json, store_option
from demaq.store.location import StoreLocation


@click.command(cls=ExampleFirst, example="$ demaq take answers --store orders")
@click.argument("queue")
@store_option
@click.option("--limit", default=1, show_default=True, type=COUNT, help="Take at most so many.")
@json_option
def take(queue: str, place: StoreLocation, limit: int, as_json: bool) -> None:
    """Take the oldest messages of a queue that no rule pertains to.

    They are printed and marked processed in one transaction, so that no other client gets them.
    """
    with open_for_writing(place) as node:
        taken = node.take(queue, limit)
    if as_json:
        show_json(taken)
        return
    for message in taken:
        click.echo(message["body"])
    if not taken:
        print_empty(f"no messages in queue {queue}")
