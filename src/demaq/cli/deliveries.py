"""`demaq deliveries`: what became of messages of outgoing gateways."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import click

from demaq.cli.command_classes import ExampleFirst
from demaq.cli.messages import expect_queue
from demaq.cli.parameters import COUNT
from demaq.cli.stores import (
    PAGE,
    fit_line,
    json_option,
    open_for_reading,
    parse_number,
    print_empty,
    program_of,
    show_json,
    store_option,
)
from demaq.masking import mask_address, mask_addresses
from demaq.store.location import StoreLocation
from demaq.store.protocol import Attempt, Unsent
from demaq.store.sql_store import SqlStore

INDENT = 10
RESULTS = {"sent": "sent", "again": "failed", "failed": "failed, given up"}
"""What became of an attempt, in words. Of one that is tried again, another line says when."""


@click.command(cls=ExampleFirst, example="$ demaq deliveries supplier --store orders")
@click.argument("queue", required=False)
@click.option("--message", default=None, metavar="ID", help="Only of this message.")
@store_option
@click.option("--limit", default=PAGE, show_default=True, type=COUNT, help="Show at most so many of each kind.")
@json_option
def deliveries(queue: str | None, message: str | None, place: StoreLocation, limit: int, as_json: bool) -> None:
    """Show what became of messages of outgoing gateways.

    First the last attempts to send one, then what waits to be sent, with when it is due.
    """
    asked = parse_number(message, "--message") if message is not None else None
    with open_for_reading(place) as store:
        tried = store.attempts(queue, asked, limit + 1)
        waiting = store.unsent(queue, asked, limit + 1)
        if not tried and not waiting and queue is not None:
            expect_outgoing(store, queue)
    attempts, unsent = tried[:limit][::-1], waiting[:limit]
    if as_json:
        show_json({"attempts": [_attempt_json(a) for a in attempts], "waiting": [_unsent_json(u) for u in unsent]})
    else:
        for attempt in attempts:
            click.echo("\n".join(_attempt_lines(attempt)))
        for each in unsent:
            click.echo(_line(each.message, each.due, f"{each.queue}: waits for attempt {each.attempts + 1}"))
        if not attempts and not unsent:
            print_empty("nothing waits to be sent, and no attempt is remembered")
    for found, what in ((tried, "attempts"), (waiting, "messages that wait")):
        if len(found) > limit:
            click.echo(f"there are more {what}: --limit {2 * limit}", err=True)


def expect_outgoing(store: SqlStore, queue: str) -> None:
    """Nothing is known of a queue: end with an error where it is no outgoing gateway."""
    expect_queue(store, queue)
    program = program_of(store)
    if program is not None and program.queues[queue].kind != "outgoingGateway":
        raise click.ClickException(f"queue {queue} is no outgoing gateway: nothing is sent from it")


def _line(message: int, time: datetime, text: str) -> str:
    head = f"{message:>8}  {time:%Y-%m-%d %H:%M:%S}  "
    return head + fit_line(text, len(head))


def _attempt_lines(attempt: Attempt) -> list[str]:
    """Return what was tried, and below it what went wrong."""
    status = f" {attempt.status}" if attempt.status is not None else ""
    to = f", {mask_address(attempt.destination)}" if attempt.destination else ""
    said = f"{attempt.queue}: attempt {attempt.number} {RESULTS[attempt.result]}{status}{to}"
    lines = [_line(attempt.message, attempt.at, said)]
    if attempt.reason is not None:
        lines.append(" " * INDENT + fit_line(f"{attempt.kind}: {mask_addresses(attempt.reason)}", INDENT))
    return lines


def _attempt_json(attempt: Attempt) -> dict[str, Any]:
    return {
        "id": str(attempt.message),
        "queue": attempt.queue,
        "attempt": attempt.number,
        "at": attempt.at.isoformat(),
        "seconds": attempt.seconds,
        "destination": mask_address(attempt.destination),  # earlier versions have stored it as it was
        "result": attempt.result,
        "status": attempt.status,
        "kind": attempt.kind,
        "reason": None if attempt.reason is None else mask_addresses(attempt.reason),
    }


def _unsent_json(unsent: Unsent) -> dict[str, Any]:
    return {
        "id": str(unsent.message),
        "queue": unsent.queue,
        "created": unsent.created.isoformat(),
        "due": unsent.due.isoformat(),
        "attempts": unsent.attempts,
    }
