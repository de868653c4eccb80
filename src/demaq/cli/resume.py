"""`demaq resume`: go on with what was paused."""

from __future__ import annotations

import click

from demaq.cli.command_classes import ExampleFirst
from demaq.cli.pause import why_option
from demaq.cli.stores import json_option, open_for_writing, show_json, store_option
from demaq.errors import OperatorError
from demaq.operations.audit import name_of_operator
from demaq.operations.pause import KINDS
from demaq.store.location import StoreLocation
from demaq.store.operator_records import PauseKind


@click.command(cls=ExampleFirst, example="$ demaq resume queue orders --store orders")
@click.argument("kind", type=click.Choice(KINDS))
@click.argument("name")
@why_option
@store_option
@json_option
def resume(kind: PauseKind, name: str, why: str, place: StoreLocation, as_json: bool) -> None:
    """Go on with a queue, a rule or a gateway that was paused.

    What waits is processed or sent, in its order.
    """
    with open_for_writing(place) as node:
        is_resumed = node.resume(kind, name, name_of_operator(), why)
    if not is_resumed:
        raise OperatorError(f"{kind} {name} is not paused; demaq pause lists what is")
    if as_json:
        show_json({"kind": kind, "name": name, "paused": False, "changed": True})
    else:
        click.echo(f"{kind} {name} goes on")
