"""`demaq send`: put a message into a queue."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from demaq.cli.example_first import ExampleFirst
from demaq.cli.stores import json_option, show_json, store_option, told
from demaq.server.at_rest import writable


@click.command(cls=ExampleFirst, example="$ demaq send orders order.xml --store orders")
@click.argument("queue")
@click.argument("files", nargs=-1, required=True, metavar="FILE|-...")
@store_option
@click.option("--with", "properties", multiple=True, metavar="NAME=VALUE", help="Set a property of the message.")
@click.option("--request", metavar="KEY", help="A second message with the same key is the first one again.")
@json_option
def send(
    queue: str, files: tuple[str, ...], folder: Path, properties: tuple[str, ...], request: str | None, as_json: bool
) -> None:
    """Put messages into a queue.

    The id of each is printed when it is stored for good. Works with a running node and on a store at rest.
    """
    given: dict[str, str] = {}
    for item in properties:
        name, equals, value = item.partition("=")
        if not equals:
            raise click.UsageError(f"--with takes NAME=VALUE, not {item}")
        given[name] = value
    if request is not None and len(files) > 1:
        raise click.UsageError("--request names one message, so give one file")
    bodies = [sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes() for file in files]
    with told():
        node = writable(folder)
        try:
            ids = [str(node.enqueue(queue, body, given, request)) for body in bodies]
        finally:
            node.close()
    if as_json:
        show_json({"queue": queue, "ids": ids})
    else:
        click.echo("\n".join(ids))
