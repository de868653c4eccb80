"""The conditions by which commands select messages: `demaq search`, `demaq purge` and `demaq requeue` share them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any, TypeVar

import click

from demaq.cli.parameters import TimeOrAge
from demaq.cli.stores import format_count, parse_number, program_of
from demaq.evaluation.state.slice_keys import SliceKeys
from demaq.operations.search import Matches, MessageSelection, check_names, check_selection
from demaq.operations.selected_values import convert_values, has_typed_values
from demaq.store.location import StoreLocation
from demaq.store.message_scan import STATE_BITS
from demaq.store.sql_store import SqlStore

F = TypeVar("F", bound=Callable[..., Any])


def selection_options(function: F) -> F:
    """Add the conditions."""
    options = [
        click.option("--queue", "queues", multiple=True, metavar="QUEUE", help="Of this queue; may be repeated."),
        click.option(
            "--state",
            "states",
            multiple=True,
            type=click.Choice(list(STATE_BITS)),
            help="In this state; may be repeated. unmatched: processed, and no rule has reacted.",
        ),
        click.option("--since", type=TimeOrAge(), metavar="TIME", help="Created at this time or later; or an age: 2h."),
        click.option("--until", type=TimeOrAge(), metavar="TIME", help="Created before this time."),
        click.option("--slice", "slice_", nargs=2, metavar="SLICING KEY", help="In this slice now."),
        click.option(
            "--property", "properties", multiple=True, metavar="NAME=VALUE", help="With this property; may be repeated."
        ),
        click.option("--text", "texts", multiple=True, metavar="TEXT", help="With this in its body; may be repeated."),
        click.option("--xpath", metavar="EXPRESSION", help="For which this XPath or XQuery expression is true."),
        click.option(
            "--namespace",
            "namespaces",
            multiple=True,
            metavar="PREFIX=URI",
            help="For --xpath; may be repeated.",
        ),
        click.option(
            "--error", "errors", multiple=True, metavar="CODE", help="An error of this code or kind: err:XPTY*, *."
        ),
        click.option("--rule", metavar="RULE", help="Created by this rule; with --error, about it."),
    ]
    for option in reversed(options):
        function = option(function)
    return function


def make_selection(
    ids: Sequence[str] = (),
    *,
    queues: tuple[str, ...],
    states: tuple[str, ...],
    since: datetime | None,
    until: datetime | None,
    slice_: tuple[str, str] | None,
    properties: tuple[str, ...],
    texts: tuple[str, ...],
    xpath: str | None,
    namespaces: tuple[str, ...],
    errors: tuple[str, ...],
    rule: str | None,
) -> MessageSelection:
    """Return what the options select."""
    if namespaces and xpath is None:
        raise click.UsageError("--namespace is for --xpath")
    return MessageSelection(
        seqs=tuple(dict.fromkeys([parse_number(text, "ID") for text in ids])),
        queues=tuple(dict.fromkeys(queues)),
        states=frozenset(states),
        since=since,
        until=until,
        slice=slice_ or None,
        properties=tuple(_split("--property", properties)),
        texts=texts,
        xpath=xpath,
        namespaces=dict(_split("--namespace", namespaces)),
        errors=errors,
        rule=rule,
    )


def expect_selection(store: SqlStore, selection: MessageSelection) -> MessageSelection:
    """Return a selection with values as the store has them.

    Raises an OperatorError if no message can be selected, because the store knows none of these names.
    """
    program = program_of(store)
    check_selection(selection, program)
    check_names(store, selection, program)
    if program is None or not has_typed_values(selection, program):
        return selection
    return convert_values(selection, program, SliceKeys(program))


@contextmanager
def matching(selection: MessageSelection, place: StoreLocation) -> Iterator[Matches | None]:
    """Yield the filter for the expression, if there is one."""
    if selection.xpath is None:
        yield None
        return
    from demaq.operations.xpath_filter import open_filter  # imports Saxon, which other searches do not need

    with open_filter(selection.xpath, selection.namespaces, place.where) as matches:
        yield matches
        if matches.failed:
            click.echo(f"the expression had an error on {format_count(matches.failed, 'message')}", err=True)


def _split(option: str, items: Sequence[str]) -> Iterator[tuple[str, str]]:
    for item in items:
        name, equals, value = item.partition("=")
        if not equals or not name:
            what = "PREFIX=URI" if option == "--namespace" else "NAME=VALUE"
            raise click.UsageError(f"{option} takes {what}, not {item}")
        yield name, value
