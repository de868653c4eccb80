"""`demaq sequences`: the sequences of WS-ReliableMessaging that end or begin at this node."""

from __future__ import annotations

from collections.abc import Sequence
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
    print_empty,
    show_json,
    store_option,
)
from demaq.gateways.reliability.sequence_description import describe_sequence
from demaq.store.location import StoreLocation
from demaq.store.protocol import SequenceMessage, StoredSequence

INDENT = 10


@click.command(cls=ExampleFirst, example="$ demaq sequences supplier --store orders")
@click.argument("queue", required=False)
@click.option("--direction", type=click.Choice(["in", "out"]), default=None, help="Only those that end or begin here.")
@click.option("--all", "ended_too", is_flag=True, help="Also those that have ended, for a day.")
@store_option
@click.option("--limit", default=PAGE, show_default=True, type=COUNT, help="Show at most so many.")
@json_option
def sequences(
    queue: str | None, direction: Any, ended_too: bool, place: StoreLocation, limit: int, as_json: bool
) -> None:
    """Show the sequences of WS-ReliableMessaging: their state, and what is received or acknowledged."""
    with open_for_reading(place) as store:
        found = [each for each in store.sequences(direction, queue) if ended_too or not each.has_ended]
        shown = [(each, store.sequence_messages(each.direction, each.name)) for each in found[:limit]]
        if not found and queue is not None:
            expect_queue(store, queue)
    if as_json:
        show_json([describe_sequence(each, messages) for each, messages in shown])
    else:
        for each, messages in shown:
            click.echo("\n".join(_write_lines(each, messages)))
        if not shown:
            hint = "" if ended_too else "; --all shows those that have ended"
            print_empty(f"there is no sequence{hint}")
    if len(found) > limit:
        click.echo(f"there are more sequences: --limit {2 * limit}", err=True)


def _write_lines(stored: StoredSequence, messages: Sequence[SequenceMessage]) -> list[str]:
    """Return a line about a sequence, and below it its identifier, whole, and the numbers of its messages."""
    described = describe_sequence(stored, messages)
    peer = f", {'from' if stored.direction == 'in' else 'to'} {described['peer']}" if described["peer"] else ""
    head = f"{stored.direction:>3}  {stored.changed:%Y-%m-%d %H:%M:%S}  "
    lines = [head + fit_line(f"{stored.queue}: {described['state']}{peer}", len(head))]
    lines += [" " * INDENT + described["identifier"]] if described["identifier"] else []
    if stored.direction == "in":
        numbers = f"received {_write_ranges(described['received'])}"
        if described["heldBack"]:
            numbers += f", held back {_join(described['heldBack'])}"
    else:
        numbers = f"acknowledged {_write_ranges(described['acknowledged'])}"
        if described["unacknowledged"]:
            waiting = [f"{one['number']} (message {one['message']})" for one in described["unacknowledged"]]
            numbers += f", not yet {_join(waiting)}"
    return [*lines, " " * INDENT + fit_line(numbers, INDENT)]


def _write_ranges(ranges: list[list[int]]) -> str:
    return ", ".join([str(low) if low == high else f"{low}-{high}" for low, high in ranges]) or "nothing"


def _join(items: Sequence[object]) -> str:
    return ", ".join([str(item) for item in items])
