"""`demaq init`: make a store for an application, and run nothing."""

from __future__ import annotations

import click

from demaq.cli.command_classes import ExampleFirst
from demaq.cli.stores import format_count, store_option
from demaq.language.loader import load_program
from demaq.server.offline_node import make_store
from demaq.store.location import StoreLocation


@click.command(cls=ExampleFirst, example="$ demaq init orders.dmq --store orders")
@click.argument("application", nargs=-1, required=True, metavar="APP...")
@store_option
def init(application: tuple[str, ...], place: StoreLocation) -> None:
    """Make a store for an application, and run nothing.

    Messages and collections can be put into it before `demaq run` processes them. `demaq run` makes a store by itself.
    """
    program = load_program(application)
    make_store(program, place)
    sizes = f"{format_count(len(program.queues) - 1, 'queue')}, {format_count(len(program.rules), 'rule')}"
    click.echo(f"made a new store in {place}: {sizes}")
