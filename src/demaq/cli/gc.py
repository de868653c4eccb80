"""`demaq gc`: remove what is no longer needed."""

from __future__ import annotations

from datetime import timedelta

import click

from demaq.cli.command_classes import ExampleFirst
from demaq.cli.parameters import Duration
from demaq.cli.stores import format_count, open_for_writing, store_option
from demaq.operations.audit import describe_action, name_of_operator
from demaq.server.offline_node import OfflineNode
from demaq.store.location import StoreLocation


@click.command(cls=ExampleFirst, example="$ demaq gc --store orders --keep 7d")
@store_option
@click.option(
    "--keep", type=Duration(), metavar="DURATION", help="Offline: keep processed messages for so long: 12h, 7d."
)
def gc(place: StoreLocation, keep: timedelta | None) -> None:
    """Remove messages that are done with, now.

    A running node does so by itself, and has a --keep of its own.
    """
    with open_for_writing(place) as node:
        if isinstance(node, OfflineNode):
            removed = node.collect_garbage(keep or timedelta(0))
        elif keep is not None:
            raise click.ClickException(f"a node runs on {place} with a --keep of its own: leave it out here")
        else:
            removed = node.collect_garbage()
        if removed:
            result = f"{format_count(removed, 'message')} removed"
            node.note_audit(describe_action("gc", "messages that are done with", who=name_of_operator(), result=result))
    click.echo(f"{format_count(removed, 'message')} removed")
