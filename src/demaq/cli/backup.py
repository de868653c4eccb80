"""`demaq backup`: all of a store as it is at one moment."""

from __future__ import annotations

import click

from demaq.cli.command_classes import ExampleFirst
from demaq.cli.stores import StoreOption, format_count, store_option
from demaq.errors import OperatorError
from demaq.store.backup import back_up
from demaq.store.location import StoreLocation


@click.command(cls=ExampleFirst, example="$ demaq backup --store orders backups/monday")
@click.argument("destination", type=StoreOption())
@store_option
def backup(destination: StoreLocation, place: StoreLocation) -> None:
    """Back a store up into a new folder: all of it, as it is at one moment.

    Works while a node runs, and offline. The backup is verified before it gets its name.
    """
    if destination.is_on_server:
        raise OperatorError("a backup is a folder: give the name of a new one")
    made = back_up(place, destination.folder)
    sizes = f"{format_count(made.messages, 'message')}, newest number {made.newest:,}, {made.size:,} bytes"
    click.echo(f"{place}: {sizes} in {destination}")
