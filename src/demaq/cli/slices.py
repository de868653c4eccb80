"""`demaq slices`: the slices of a slicing, or the messages of one slice."""

from __future__ import annotations

from pathlib import Path

import click

from demaq.cli.example_first import ExampleFirst
from demaq.cli.messages import line
from demaq.cli.stores import counted, json_option, more, paged, reading, show_json, store_option
from demaq.server.control import as_json as message_json


@click.command(cls=ExampleFirst, example="$ demaq slices orderMsgs --store orders")
@click.argument("slicing")
@click.argument("key", required=False)
@store_option
@paged
@json_option
def slices(slicing: str, key: str | None, folder: Path, limit: int, after: str | None, as_json: bool) -> None:
    """List the keys of a slicing with how many messages each slice holds; with KEY, the messages of that slice."""
    with reading(folder) as store:
        if key is not None:
            found = store.slice(slicing, key, store.snapshot())
            if as_json:
                show_json([message_json(message) for message in found])
            else:
                click.echo("\n".join([line(message) for message in found]), nl=bool(found))
            return
        keys = store.slice_keys(slicing, after, limit)
    if as_json:
        show_json([{"key": name, "messages": count} for name, count in keys])
        return
    for name, count in keys:
        click.echo(f"{name}: {counted(count, 'message')}")
    more(len(keys), limit, keys[-1][0] if keys else "")
