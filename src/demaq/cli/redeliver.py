"""`demaq redeliver`: send messages of outgoing gateways again."""

from __future__ import annotations

import click

from demaq.cli.command_classes import ExampleFirst
from demaq.cli.deliveries import expect_outgoing
from demaq.cli.pause import why_option
from demaq.cli.stores import (
    format_count,
    open_for_reading,
    open_for_writing,
    parse_number,
    print_empty,
    store_option,
)
from demaq.operations.audit import name_of_operator
from demaq.server.offline_node import OfflineNode
from demaq.server.redelivery import describe_redelivery, find_given_up
from demaq.store.deliveries import ATTEMPTS_MAX
from demaq.store.location import StoreLocation


@click.command(cls=ExampleFirst, example="$ demaq redeliver 17 18 --store orders")
@click.argument("ids", nargs=-1, metavar="ID...")
@click.option("--failed", "queue", default=None, metavar="QUEUE", help="All that this gateway has given up.")
@why_option
@store_option
def redeliver(ids: tuple[str, ...], queue: str | None, why: str, place: StoreLocation) -> None:
    """Send messages of outgoing gateways again, whatever became of them.

    They are due at once, and their attempts count from 1 again. A receiver who knows what he has got already, such as
    another node, takes them once.
    """
    if bool(ids) == (queue is not None):
        raise click.UsageError("say which messages: either their ids, or --failed QUEUE")
    messages = list(dict.fromkeys([parse_number(text, "ID") for text in ids]))
    if queue is not None:
        with open_for_reading(place) as store:
            messages = find_given_up(store, queue, ATTEMPTS_MAX)
            if not messages:
                expect_outgoing(store, queue)
        if not messages:
            print_empty(f"nothing that {queue} has given up is still stored")
            return
    with open_for_writing(place) as node:
        node.redeliver(messages, describe_redelivery(messages, who=name_of_operator(), why=why))
    when = "when a node runs" if isinstance(node, OfflineNode) else "now"
    click.echo(f"{format_count(len(messages), 'message')} will be sent again {when}")
