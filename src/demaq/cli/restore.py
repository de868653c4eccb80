"""`demaq restore`: a store of a backup."""

from __future__ import annotations

from contextlib import closing

import click

from demaq.cli.command_classes import ExampleFirst
from demaq.cli.stores import StoreOption, format_count, store_option
from demaq.errors import OperatorError
from demaq.operations.audit import describe_action, name_of_operator
from demaq.store.backup import restore as restore_backup
from demaq.store.location import StoreLocation
from demaq.store.opening import open_store


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
    note_offline(place, "restore", f"backup {backup}", f"{format_count(restored.messages, 'message')} restored")
    sizes = f"{format_count(restored.messages, 'message')}, newest number {restored.newest:,}"
    click.echo(f"{place}: {sizes} from {backup}; a new epoch begins")


def note_offline(place: StoreLocation, action: str, subject: str, result: str) -> None:
    """Write the audit record of what was done to a store that no node runs on, and that may have no application."""
    with closing(open_store(place.where)) as store:
        store.note_audit(describe_action(action, subject, who=name_of_operator(), result=result))
