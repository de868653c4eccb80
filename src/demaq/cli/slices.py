"""`demaq slices`: the slices of a slicing, or the messages of one slice."""

from __future__ import annotations

import click

from demaq.cli.command_classes import ExampleFirst
from demaq.cli.message_state import states
from demaq.cli.messages import list_messages
from demaq.cli.stores import (
    format_count,
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
from demaq.evaluation.state.slice_keys import SliceKeys
from demaq.language.program.program import Program
from demaq.store.location import StoreLocation
from demaq.store.sql_store import SqlStore
from demaq.suggestions import describe_unknown


@click.command(cls=ExampleFirst, example="$ demaq slices orderMsgs --store orders")
@click.argument("slicing")
@click.argument("key", required=False)
@store_option
@paged
@json_option
def slices(slicing: str, key: str | None, place: StoreLocation, limit: int, after: str | None, as_json: bool) -> None:
    """List the keys of a slicing with how many messages each slice holds; with KEY, the messages of that slice."""
    if key is not None:
        _list_slice(slicing, key, place, limit, parse_number(after, "--after"), as_json)
        return
    with open_for_reading(place) as store:
        found = store.slice_keys(slicing, after, limit + 1)
        if not found:
            _expect_slicing(program_of(store), slicing)
    shown = found[:limit]
    if as_json:
        show_json([{"key": name, "messages": count} for name, count in shown])
    else:
        for name, count in shown:
            click.echo(f"{name}: {format_count(count, 'message')}")
        if not shown:
            print_empty(f"no {'further ' if after is not None else ''}slices of {slicing}")
    print_next_page(found, limit, lambda item: item[0])


def _list_slice(slicing: str, key: str, place: StoreLocation, limit: int, after: int, as_json: bool) -> None:
    with open_for_reading(place) as store:
        # Written as the store writes it in most cases; only else is the program asked what was meant.
        found = store.members(slicing, key, after, limit + 1)
        if not found:
            found = store.members(slicing, _normalise_key(store, slicing, key), after, limit + 1)
        known = {} if as_json else states(store, found[:limit])
    list_messages(found, known, limit, as_json, f"no {'further ' if after else ''}messages in slice {slicing} {key}")


def _normalise_key(store: SqlStore, slicing: str, key: str) -> str:
    program = program_of(store)
    _expect_slicing(program, slicing)
    return key if program is None else SliceKeys(program).key(slicing, key)


def _expect_slicing(program: Program | None, slicing: str) -> None:
    if program is not None and slicing not in program.slicings:
        raise click.ClickException(describe_unknown("slicing", slicing, program.slicings))
