"""`demaq show`: everything that is known about one message."""

from __future__ import annotations

from pathlib import Path

import click

from demaq.cli.example_first import ExampleFirst
from demaq.cli.stores import json_option, number, reading, show_json, store_option
from demaq.scheduler.reading import system_properties
from demaq.server.control import as_json as message_json


@click.command(cls=ExampleFirst, example="$ demaq show 17 --store orders")
@click.argument("message_id", metavar="ID")
@store_option
@json_option
def show(message_id: str, folder: Path, as_json: bool) -> None:
    """Show a message: body, properties, what caused it, what it caused."""
    with reading(folder) as store:
        message = store.message(number(message_id, "ID"))
        if message is None:
            raise click.ClickException(f"there is no message {message_id}: it never was, or it was removed")
        caused = store.caused_by(message.seq)
    if as_json:
        show_json({**message_json(message), "caused": [str(seq) for seq in caused]})
        return
    state = "waits" if message.processed is None else "processed"
    click.echo(
        f"message {message.seq} in queue {message.queue}: {state}{'' if message.retired is None else ', retired'}"
    )
    for name, value in {**system_properties(message), **message.properties}.items():
        click.echo(f"  {name} = {value.text}")
    for slicing, key in message.slices:
        click.echo(f'  in slice {slicing} "{key}"')
    if message.timer is not None:
        click.echo(f"  comes back in {message.timer.target} at {message.timer.due.isoformat()}")
    origin = f"message {message.trigger}" if message.trigger is not None else "outside"
    click.echo(f"caused by {origin}{f', rule {message.rule}' if message.rule else ''}")
    click.echo(f"caused {', '.join([f'message {seq}' for seq in caused]) or 'nothing that is still there'}")
    click.echo(message.body)
