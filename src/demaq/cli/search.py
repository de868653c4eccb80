"""`demaq search`: find messages in a store."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import click

from demaq.cli.command_classes import ExampleFirst
from demaq.cli.errors import format_error
from demaq.cli.message_selection import expect_selection, make_selection, matching, selection_options
from demaq.cli.messages import format_prefix
from demaq.cli.parameters import COUNT
from demaq.cli.stores import (
    PAGE,
    fit_line,
    format_count,
    json_option,
    open_for_reading,
    parse_number,
    print_empty,
    show_json,
    store_option,
    tell,
)
from demaq.control.message_json import encode_for_listing
from demaq.operations.search import (
    ROWS_PER_PAGE,
    STATEMENT_SECONDS_MAX,
    MatchedMessage,
    Matches,
    MessageSelection,
    SearchPage,
)
from demaq.operations.search import search as search_store
from demaq.operations.watched_messages import WatchedMessages
from demaq.store.location import StoreLocation
from demaq.store.sql_store import SqlStore
from demaq.system_properties import ERROR_LEVEL

SCAN_MAX = 1_000_000
FOLLOW_SECONDS = 0.5
"""How often it is looked for new messages."""


@click.command(cls=ExampleFirst, example="$ demaq search --queue orders --property customer=17 --store orders")
@selection_options
@click.option("--newest", is_flag=True, help="The newest first.")
@click.option("--limit", default=PAGE, show_default=True, type=COUNT, help="Show at most so many.")
@click.option("--after", default=None, metavar="LAST", help="Continue after the last one shown.")
@click.option("--scan", "scan_max", default=SCAN_MAX, show_default=True, type=COUNT, help="Look at most at so many.")
@click.option("--follow", is_flag=True, help="Go on with messages as they come, until Ctrl-C.")
@store_option
@json_option
def search(
    newest: bool,
    limit: int,
    after: str | None,
    scan_max: int,
    follow: bool,
    place: StoreLocation,
    as_json: bool,
    **conditions: Any,
) -> None:
    """Find messages that meet all conditions, oldest first.

    While a node runs, it is not held up: messages are read in small pieces over a connection of its own.
    """
    if follow and newest:
        raise click.UsageError("--follow shows the oldest first, without --newest")
    selection = make_selection(**conditions)
    start = parse_number(after, "--after") if after is not None else None
    with open_for_reading(place) as store, matching(selection, place) as matches:
        store.limit_statements(STATEMENT_SECONDS_MAX)
        selection = expect_selection(store, selection)
        if follow:
            _follow(store, selection, matches, start, as_json)
            return
        found: list[MatchedMessage] = []
        scanned, following = 0, start
        for page in _read_pages(store, selection, matches, start, newest, limit, scan_max):
            found += page.found
            scanned += page.scanned
            following = page.next_start
            if not as_json:
                for each in page.found:
                    click.echo(format_found(each))
    if as_json:
        show_json([encode_found(each) for each in found])
    elif not found:
        print_empty("no message meets the conditions")
    if following is not None:
        tell(f"looked at {format_count(scanned, 'message')}; there may be more: --after {following}")


def _read_pages(
    store: SqlStore,
    selection: MessageSelection,
    matches: Matches | None,
    start: int | None,
    newest: bool,
    limit: int,
    scan_max: int,
) -> Iterator[SearchPage]:
    """Yield pages until enough was found or looked at."""
    found = scanned = 0
    while found < limit and scanned < scan_max:
        page = search_store(
            store,
            selection,
            start=start,
            limit=limit - found,
            backwards=newest,
            matches=matches,
            rows_max=min(ROWS_PER_PAGE, scan_max - scanned),
        )
        yield page
        found += len(page.found)
        scanned += page.scanned
        start = page.next_start
        if start is None:
            return


def _follow(
    store: SqlStore, selection: MessageSelection, matches: Matches | None, start: int | None, as_json: bool
) -> None:
    start = store.snapshot() if start is None else start
    watched = WatchedMessages(selection)
    while True:
        newest = store.snapshot()
        page = search_store(store, watched.selection, start=start, matches=matches)
        for each in [*watched.look_again(store), *watched.take(page.found)]:
            line = json.dumps(encode_found(each), ensure_ascii=False) if as_json else format_found(each)
            click.echo(line)
        if page.next_start is not None:
            start = page.next_start
            continue
        # What has come while it was read has a larger number, unless it was found.
        start = max([newest, *[each.head.seq for each in page.found]])
        time.sleep(FOLLOW_SECONDS)


def encode_found(found: MatchedMessage) -> dict[str, Any]:
    """Return a message with all its fields, and its state."""
    return {**encode_for_listing(found.message), "state": found.state, "unmatched": found.head.unmatched}


def format_found(found: MatchedMessage) -> str:
    """Return a message on one line, and an error with what it says below."""
    message = found.message
    if ERROR_LEVEL in message.properties:
        return format_error(message, found.state)
    head = f"{format_prefix(message, found.state)}{message.queue}  "
    return head + fit_line(message.body, len(head))
