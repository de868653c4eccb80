"""`demaq errors`: what went wrong."""

from __future__ import annotations

from textwrap import wrap

import click

from demaq.cli.command_classes import ExampleFirst
from demaq.cli.message_state import State, states
from demaq.cli.messages import expect_queue, format_message, format_prefix, list_messages
from demaq.cli.stores import (
    fit_line,
    json_option,
    open_for_reading,
    paged,
    parse_number,
    program_of,
    store_option,
    terminal_width,
)
from demaq.engine.error_routing import error_head, error_queues
from demaq.store.location import StoreLocation
from demaq.store.protocol import StoredMessage

INDENT = 10
SAID_LINES_MAX = 3
"""What is said about an error is cut after so many lines; `demaq show` has all of it."""


@click.command(cls=ExampleFirst, example="$ demaq errors --store orders")
@store_option
@click.option("--queue", default=None, help="One error queue; by default all that the application names.")
@click.option("--all", "everything", is_flag=True, help="Show also what is done with and not removed yet.")
@paged
@json_option
def errors(
    place: StoreLocation, queue: str | None, everything: bool, limit: int, after: str | None, as_json: bool
) -> None:
    """List the messages of error queues, oldest first."""
    last = parse_number(after, "--after")
    with open_for_reading(place) as store:
        queues = [queue] if queue is not None else error_queues(program_of(store))
        read = store.stored if everything else store.visible
        found = [message for name in queues for message in read(name, last, limit + 1)]
        if not found and queue is not None:
            expect_queue(store, queue)
        found.sort(key=lambda message: message.seq)
        known = {} if as_json else states(store, found[:limit])
    empty = f"no {'further ' if last else ''}messages in {', '.join(queues)}"
    list_messages(found, known, limit, as_json, empty, format_error)


def format_error(message: StoredMessage, state: State) -> str:
    """Return the kind of an error and its queue, and its description below it. Other messages take one line."""
    root = error_head(message.body)
    if root is None:
        return format_message(message, state)
    rule, about_id = root.findtext("rule"), root.findtext("messageId")
    # What was refused when it came from outside has no number.
    about = f"message {about_id}" if about_id is not None else f"a document for {root.findtext('queue')}"
    about = f"rule {rule}, {about}" if rule else about
    said = f"{about}: {root.findtext('code')}: {root.findtext('description')}"
    head = format_prefix(message, state)
    blank = " " * INDENT
    lines = wrap(
        said, terminal_width(), initial_indent=blank, subsequent_indent=blank, max_lines=SAID_LINES_MAX, placeholder="…"
    )
    kind = str(root[0].tag)
    return "\n".join([head + fit_line(f"{kind} in {message.queue}", len(head)), *lines])
