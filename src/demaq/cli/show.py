"""`demaq show`: everything that is known about one message."""

from __future__ import annotations

from typing import Any

import click

from demaq.cli.command_classes import ExampleFirst
from demaq.cli.message_state import State, states
from demaq.cli.stores import (
    format_count,
    json_option,
    open_for_reading,
    paged,
    parse_number,
    print_next_page,
    show_json,
    store_option,
)
from demaq.control.message_json import encode_for_listing as message_json
from demaq.engine.replay import copies_of, first_number, is_copy
from demaq.evaluation.state.snapshot_reader import system_properties
from demaq.masking import mask_address
from demaq.store.location import StoreLocation
from demaq.store.protocol import StoredMessage
from demaq.store.sql_store import SqlStore
from demaq.system_properties import INITIAL

ADDRESSES = ("Recipient", f"{INITIAL}Recipient")
"""Properties that are addresses, and may have secrets in them. With `--json` a message is shown as it is."""
CHAIN_SHOWN_MAX = 20
"""How many causes are shown to people; of a longer chain the nearest, and the first of all."""

IN_WORDS: dict[State, str] = {"waits": "waits", "new": "not taken yet", "timer": "timer", "done": "processed"}


@click.command(cls=ExampleFirst, example="$ demaq show 17 --store orders")
@click.argument("message_id", metavar="ID")
@store_option
@paged
@json_option
def show(message_id: str, place: StoreLocation, limit: int, after: str | None, as_json: bool) -> None:
    """Show a message: body, properties, what caused it, what it caused.

    --limit and --after are about what it caused.
    """
    last = parse_number(after, "--after")
    with open_for_reading(place) as store:
        message = store.message(parse_number(message_id, "ID"))
        if message is None:
            raise click.ClickException(f"there is no message {message_id}: it never was, or it was removed")
        causes = _read_causes(store, message)
        found = [seq for seq in store.caused_by(message.seq) if seq > last]
        effects = [store.message(seq) for seq in found[:limit]]
        state = states(store, [message])[message.seq]
        copies = [seq for seq in copies_of(store, first_number(message)) if seq != message.seq]
    caused = [effect for effect in effects if effect is not None]
    if as_json:
        show_json(
            {
                **message_json(message),
                "causes": [_summarise(cause) for cause in causes],
                "caused": [_summarise(effect) for effect in caused],
                "copies": [str(seq) for seq in copies],
            }
        )
    else:
        lines = [*_state(message, state), *_lineage(message, copies)]
        lines += [*_chain(message, causes), *_effects(caused, len(found))]
        click.echo("\n".join(lines))
        click.echo(message.body)
    print_next_page(found, limit, lambda seq: seq)


def _read_causes(store: SqlStore, message: StoredMessage) -> list[StoredMessage]:
    """Return the message that caused it, the one that caused that, and so on, as far as they are still there."""
    found: list[StoredMessage] = []
    cause = message.trigger
    while cause is not None and (known := store.message(cause)) is not None:
        found.append(known)
        cause = known.trigger
    return found


def _summarise(message: StoredMessage) -> dict[str, Any]:
    return {"id": str(message.seq), "queue": message.queue, "rule": message.rule}


def _state(message: StoredMessage, state: State) -> list[str]:
    words = IN_WORDS[state] if message.retired is None else f"{IN_WORDS[state]}, retired"
    lines = [f"message {message.seq} in queue {message.queue}: {words}"]
    lines += [
        f"  {name} = {mask_address(value.text) if name in ADDRESSES else value.text}"
        for name, value in {**system_properties(message), **message.properties}.items()
    ]
    lines += [f'  in slice {slicing} "{key}"' for slicing, key in message.slices]
    if message.timer is not None:
        comes = "comes" if message.processed is None else "came"
        lines.append(f"  {comes} back in {message.timer.target} at {message.timer.due.isoformat()}")
    return lines


def _chain(message: StoredMessage, causes: list[StoredMessage]) -> list[str]:
    """Return the chain of causes back to the first message, a line for each with its rule."""
    if message.trigger is None:
        return ["came from outside"]
    lines: list[str] = []
    maker = message.rule
    for cause in causes:
        lines.append(f"  message {cause.seq} in queue {cause.queue}{_describe_rule(maker)}")
        maker = cause.rule
    first = causes[-1] if causes else message
    if first.trigger is not None:
        removed = f"  message {first.trigger}{_describe_rule(maker)}, which was removed"
        lines.append(removed if first.trigger == message.origin else f"{removed}; it began with {message.origin}")
    if len(lines) > CHAIN_SHOWN_MAX:
        between = len(lines) - CHAIN_SHOWN_MAX
        lines[CHAIN_SHOWN_MAX - 1 : -1] = [f"  … and {format_count(between, 'message')} between …"]
    return ["caused by", *lines]


def _lineage(message: StoredMessage, copies: list[int]) -> list[str]:
    lines = [f"runs message {first_number(message)} again"] if is_copy(message) else []
    if copies:
        shown = ", ".join([str(seq) for seq in copies[:CHAIN_SHOWN_MAX]])
        further = " too" if is_copy(message) else ""
        lines.append(f"run again{further} as message {shown}{', …' * (len(copies) > CHAIN_SHOWN_MAX)}")
    return lines


def _effects(caused: list[StoredMessage], count: int) -> list[str]:
    if not caused:
        return ["caused nothing that is still there"]
    lines = [f"  message {effect.seq} in queue {effect.queue}{_describe_rule(effect.rule)}" for effect in caused]
    return [f"caused {format_count(count, 'message')}", *lines]


def _describe_rule(rule: str | None) -> str:
    return f", rule {rule}" if rule else ""
