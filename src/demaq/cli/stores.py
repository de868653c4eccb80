"""What commands on a store share: its option, opening it, and listings in pages."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar

import click

from demaq.cli.parameters import COUNT
from demaq.errors import NodeMissing, ProgramError
from demaq.language.loader import load_program_texts
from demaq.language.program.program import Program
from demaq.server.startup import DEFAULT_STORE, retry_while_starting
from demaq.store.location import StoreLocation, place_of
from demaq.store.opening import open_store_readonly
from demaq.store.sql_store import SqlStore

if TYPE_CHECKING:
    from demaq.control.client import RemoteNode
    from demaq.server.offline_node import OfflineNode

PAGE = 50
WIDTH = 80
"""How wide lines are where there is no terminal to ask."""
ROOM_MIN = 20
"""So much of a text is shown on the narrowest terminal."""
ID_DIGITS_MAX = 18
"""No message has a longer id."""

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")


class StoreOption(click.ParamType[StoreLocation]):
    """A folder, or `postgresql://user@host/database`."""

    name = "store"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> StoreLocation:
        if isinstance(value, StoreLocation):
            return value
        return place_of(str(value))


def store_option(function: F) -> F:
    return click.option(
        "--store",
        "place",
        type=StoreOption(),
        default=DEFAULT_STORE,
        show_default=True,
        metavar="STORE",
        help="The folder of the store, or its address: postgresql://…",
    )(function)


def other_stores_option(name: str) -> Callable[[F], F]:
    return click.option(
        name,
        "others",
        type=StoreOption(),
        multiple=True,
        metavar="STORE",
        help="The store of another node, into which the console follows conversations. May be repeated.",
    )


def json_option(function: F) -> F:
    return click.option("--json", "as_json", is_flag=True, help="For programs.")(function)


def paged(function: F) -> F:
    """Add `--limit` and `--after`, by which a listing continues after the last item shown."""
    function = click.option("--limit", default=PAGE, show_default=True, type=COUNT, help="Show at most so many.")(
        function
    )
    return click.option("--after", default=None, metavar="LAST", help="Continue after the last one shown.")(function)


@contextmanager
def open_for_reading(place: StoreLocation) -> Iterator[SqlStore]:
    """Open the store for reading, while a node runs or offline. A node that is starting is waited for."""
    with closing(_retry(place, lambda: open_store_readonly(place.where))) as store:
        yield store


@contextmanager
def open_for_writing(place: StoreLocation) -> Iterator[RemoteNode | OfflineNode]:
    """Connect to the node that runs on a store, or open the store offline. A node that is starting is waited for."""
    from demaq.server.offline_node import open_writable  # imports Saxon, which commands that read do not need

    with closing(_retry(place, lambda: open_writable(place))) as node:
        yield node


def node_on(place: StoreLocation) -> RemoteNode:
    """Return the node that runs on a store. A node that is starting is waited for."""
    from demaq.control.client import running_node

    def find() -> RemoteNode:
        node = running_node(place)
        if node is None:
            raise NodeMissing(f"no node runs on {place}{' on this machine' if place.is_on_server else ''}")
        return node

    return _retry(place, find)


def _retry(place: StoreLocation, act: Callable[[], T]) -> T:
    def has_node() -> bool:
        from demaq.control.client import running_node

        return running_node(place) is not None

    return retry_while_starting(place.where, act, tell, has_node)


def tell(line: str) -> None:
    """Print a line to stderr, unless the terminal has been closed."""
    with suppress(OSError):
        click.echo(line, err=True)


def program_of(store: SqlStore) -> Program | None:
    """Return the application that ran on a store last; None if none did, or where its files have gone."""
    known = store.program()
    if known is None:
        return None
    try:
        return load_program_texts(known[2])
    except ProgramError:
        return None


def parse_number(text: str | None, what: str) -> int:
    """Return the id of a message."""
    if text is None:
        return 0
    if not (text.isascii() and text.isdigit()):
        raise click.UsageError(f"{what} is a number, not {text}")
    return int(text) if len(text) <= ID_DIGITS_MAX else 10**ID_DIGITS_MAX


def show_json(value: object) -> None:
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def format_count(count: int, word: str) -> str:
    return f"{count:,} {word}{'' if count == 1 else 's'}"


def print_next_page(found: Sequence[T], limit: int, last: Callable[[T], object]) -> None:
    """Print how to continue after the page that was shown, if there is more."""
    if len(found) > limit:
        sys.stdout.flush()
        click.echo(f"there is more: --after {last(found[limit - 1])}", err=True)


def print_empty(text: str) -> None:
    """Print that a listing is empty, unless it is JSON."""
    click.echo(text, err=True)


def fit_line(text: str, indent: int = 0) -> str:
    """Return the beginning of a text, as much as fits on a line after an indent."""
    room = max(terminal_width() - indent, ROOM_MIN)
    flat = " ".join(text.split())
    return flat if len(flat) <= room else flat[: room - 1] + "…"


def terminal_width() -> int:
    """Return how wide a line may be."""
    return max(shutil.get_terminal_size().columns if sys.stdout.isatty() else WIDTH, 2 * ROOM_MIN)
