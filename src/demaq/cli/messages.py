"""`demaq messages`: what is in a queue."""

from __future__ import annotations

from pathlib import Path

import click

from demaq.cli.example_first import ExampleFirst
from demaq.cli.stores import json_option, more, number, paged, reading, show_json, store_option
from demaq.server.control import as_json as message_json
from demaq.store.protocol import StoredMessage
from demaq.store.sqlite import SqliteStore

BODY_WIDTH = 100
PAGE_READ = 1000


@click.command(cls=ExampleFirst, example="$ demaq messages orders --store orders")
@click.argument("queue")
@store_option
@click.option("--all", "everything", is_flag=True, help="Show also what is done with and not removed yet.")
@paged
@json_option
def messages(queue: str, folder: Path, everything: bool, limit: int, after: str | None, as_json: bool) -> None:
    """List the messages of a queue, oldest first."""
    last = number(after, "--after")
    with reading(folder) as store:
        found = store.stored(queue, last, limit) if everything else visible(store, queue, last, limit)
    if as_json:
        show_json([message_json(message) for message in found])
        return
    for message in found:
        click.echo(line(message))
    more(len(found), limit, found[-1].seq if found else 0)


def visible(store: SqliteStore, queue: str, after: int, limit: int) -> list[StoredMessage]:
    """What rules see of a queue, from behind a number."""
    found: list[StoredMessage] = []
    while len(found) < limit:
        page = store.stored(queue, after, PAGE_READ)
        found += [message for message in page if message.retired is None]
        if len(page) < PAGE_READ:
            break
        after = page[-1].seq
    return found[:limit]


def line(message: StoredMessage) -> str:
    """A message on one line."""
    state = "waits" if message.processed is None else "done "
    body = " ".join(message.body.split())
    shown = body if len(body) <= BODY_WIDTH else body[: BODY_WIDTH - 1] + "…"
    return f"{message.seq:>8}  {state}  {message.created:%Y-%m-%d %H:%M:%S}  {shown}"
