"""`demaq messages`: what is in a queue."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import click

from demaq.cli.command_classes import ExampleFirst
from demaq.cli.message_state import State, states
from demaq.cli.stores import (
    fit_line,
    json_option,
    open_for_reading,
    paged,
    parse_number,
    print_empty,
    print_next_page,
    program_of,
    show_json,
    store_option,
)
from demaq.control.message_json import encode_for_listing as message_json
from demaq.store.location import StoreLocation
from demaq.store.protocol import StoredMessage
from demaq.store.sql_store import SqlStore
from demaq.suggestions import describe_unknown


@click.command(cls=ExampleFirst, example="$ demaq messages orders --store orders")
@click.argument("queue")
@store_option
@click.option("--all", "everything", is_flag=True, help="Show also what is done with and not removed yet.")
@paged
@json_option
def messages(queue: str, place: StoreLocation, everything: bool, limit: int, after: str | None, as_json: bool) -> None:
    """List the messages of a queue, oldest first."""
    last = parse_number(after, "--after")
    with open_for_reading(place) as store:
        read = store.stored if everything else store.visible
        found = read(queue, last, limit + 1)
        if not found:
            expect_queue(store, queue)
        known = {} if as_json else states(store, found[:limit])
    list_messages(found, known, limit, as_json, f"no {'further ' if last else ''}messages in queue {queue}")


def list_messages(
    found: list[StoredMessage],
    known: Mapping[int, State],
    limit: int,
    as_json: bool,
    empty: str,
    to_text: Callable[[StoredMessage, State], str] | None = None,
) -> None:
    """Print a page of messages. `known` has their states, for people; `to_text` formats one, by default on one line."""
    to_text = to_text or format_message
    if as_json:
        show_json([message_json(message) for message in found[:limit]])
    else:
        for message in found[:limit]:
            click.echo(to_text(message, known[message.seq]))
        if not found:
            print_empty(empty)
    print_next_page(found, limit, lambda message: message.seq)


def expect_queue(store: SqlStore, queue: str) -> None:
    """Nothing is in a queue: end with an error where there is no such queue."""
    program = program_of(store)
    if program is not None and queue not in program.queues:
        raise click.ClickException(describe_unknown("queue", queue, program.queues))


def format_message(message: StoredMessage, state: State) -> str:
    """Return a message on one line."""
    head = format_prefix(message, state)
    return head + fit_line(message.body, len(head))


def format_prefix(message: StoredMessage, state: State) -> str:
    """Return the beginning of the line about a message: number, state and time."""
    return f"{message.seq:>8}  {state:<5}  {message.created:%Y-%m-%d %H:%M:%S}  "
