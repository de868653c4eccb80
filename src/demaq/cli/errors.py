"""`demaq errors`: what went wrong and was not handled by a rule."""

from __future__ import annotations

from pathlib import Path

import click

from demaq.cli.example_first import ExampleFirst
from demaq.cli.messages import line, visible
from demaq.cli.stores import json_option, more, number, paged, reading, show_json, store_option
from demaq.language.program import SYSTEM_ERRORS
from demaq.server.control import as_json as message_json


@click.command(cls=ExampleFirst, example="$ demaq errors --store orders")
@store_option
@click.option("--queue", default=SYSTEM_ERRORS, show_default=True, help="The error queue.")
@paged
@json_option
def errors(folder: Path, queue: str, limit: int, after: str | None, as_json: bool) -> None:
    """List the messages of an error queue, by default the system's own."""
    with reading(folder) as store:
        found = visible(store, queue, number(after, "--after"), limit)
    if as_json:
        show_json([message_json(message) for message in found])
        return
    for message in found:
        click.echo(line(message))
    more(len(found), limit, found[-1].seq if found else 0)
