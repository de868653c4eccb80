"""`demaq gc`: remove what nobody needs any more."""

from __future__ import annotations

from pathlib import Path

import click

from demaq.cli.example_first import ExampleFirst
from demaq.cli.stores import counted, store_option, told
from demaq.server.at_rest import writable


@click.command(cls=ExampleFirst, example="$ demaq gc --store orders")
@store_option
def gc(folder: Path) -> None:
    """Remove messages that are done with, now.

    A running node does so by itself.
    """
    with told():
        node = writable(folder)
        try:
            removed = node.collect_garbage()
        finally:
            node.close()
    click.echo(f"{counted(removed, 'message')} removed")
