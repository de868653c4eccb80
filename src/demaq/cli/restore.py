"""`demaq restore`: a store of a backup."""

from __future__ import annotations

import click

from demaq.cli.command_classes import ExampleFirst
from demaq.cli.stores import StoreOption, format_count, store_option
from demaq.errors import OperatorError
from demaq.store.backup import restore as restore_backup
from demaq.store.location import StoreLocation


@click.command(cls=ExampleFirst, example="$ demaq restore backups/monday --store orders")
@click.argument("backup", type=StoreOption())
@store_option
def restore(backup: StoreLocation, place: StoreLocation) -> None:
    """Make a store of a backup, where there is none yet.

    The backup is verified before, the store after. A new epoch begins: other nodes take none of its new messages for
    one that they know.
    """
    if backup.is_on_server:
        raise OperatorError("a backup is a folder, as demaq backup makes it")
    restored = restore_backup(backup.folder, place)
    sizes = f"{format_count(restored.messages, 'message')}, newest number {restored.newest:,}"
    click.echo(f"{place}: {sizes} from {backup}; a new epoch begins")
