"""`demaq send`: put a message into a queue."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from demaq.cli.command_classes import ExampleFirst
from demaq.cli.parameters import STDIN, parse_properties, read_stdin
from demaq.cli.stores import json_option, open_for_writing, show_json, store_option
from demaq.errors import DemaqError, MessageError
from demaq.store.location import StoreLocation


@click.command(cls=ExampleFirst, example="$ demaq send orders order.xml --store orders")
@click.argument("queue")
@click.argument("files", nargs=-1, required=True, metavar="FILE|-...")
@store_option
@click.option("--with", "properties", multiple=True, metavar="NAME=VALUE", help="Set a property of the message.")
@click.option("--request", metavar="KEY", help="A second message with the same key is the first one again.")
@json_option
def send(
    queue: str,
    files: tuple[str, ...],
    place: StoreLocation,
    properties: tuple[str, ...],
    request: str | None,
    as_json: bool,
) -> int:
    """Put messages into a queue.

    The id of each is printed when it is stored for good. Works while a node runs, and offline.
    """
    given = parse_properties(properties)
    if request is not None and len(files) > 1:
        raise click.UsageError("--request names one message, so give one file")
    if request == "":
        raise click.UsageError("--request takes a key that is not empty")
    if files.count(STDIN) > 1:
        raise click.UsageError("standard input can be sent once")
    bodies = [read_stdin() if file == STDIN else Path(file).read_bytes() for file in files]
    sent: dict[str, Any] = {"queue": queue, "ids": []}
    problem: str | None = None
    with open_for_writing(place) as node:
        for file, body in zip(files, bodies, strict=True):
            try:
                sent["ids"].append(str(node.enqueue(queue, body, given, request)))
            except DemaqError as error:
                # Messages before it are stored: their sender needs their ids.
                problem = _problem(file, error)
                break
            if not as_json:
                click.echo(sent["ids"][-1])
    if as_json and (sent["ids"] or problem is None):
        show_json(sent)
    if problem is not None:
        raise click.ClickException(problem)
    return 0


def _problem(file: str, error: DemaqError) -> str:
    if not isinstance(error, MessageError):
        return str(error)
    if error.kind == "enqueueError":  # about the queue, whatever the file
        return error.message
    return f"{file}: refused ({error.kind}): {error.message}"
