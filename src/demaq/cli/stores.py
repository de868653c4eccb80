"""What the commands about a store share: where it is, how messages are shown, how listings are paged."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click

from demaq.errors import MessageError, ProgramError, StoreError
from demaq.store.sqlite import SqliteStore

DEFAULT_STORE = "demaq-store"
PAGE = 50

F = TypeVar("F", bound=Callable[..., Any])


def store_option(function: F) -> F:
    return click.option(
        "--store",
        "folder",
        type=click.Path(path_type=Path),
        default=DEFAULT_STORE,
        show_default=True,
        metavar="DIR",
        help="The folder of the store.",
    )(function)


def json_option(function: F) -> F:
    return click.option("--json", "as_json", is_flag=True, help="For programs.")(function)


def paged(function: F) -> F:
    """`--limit` and `--after`: a listing goes on behind the last thing it showed."""
    function = click.option(
        "--limit", default=PAGE, show_default=True, type=click.IntRange(1), help="Show at most so many."
    )(function)
    return click.option("--after", default=None, metavar="LAST", help="Go on behind the last one shown.")(function)


@contextmanager
def reading(folder: Path) -> Iterator[SqliteStore]:
    """The store for reading, beside a running node or at rest."""
    with told():
        store = SqliteStore.open_readonly(folder)
        try:
            yield store
        finally:
            store.close()


@contextmanager
def told() -> Iterator[None]:
    """What the store or an intake refuses is one line and exit code 1."""
    try:
        yield
    except MessageError as error:
        raise click.ClickException(f"refused ({error.kind}): {error.message}") from None
    except (StoreError, ProgramError) as error:
        raise click.ClickException(str(error)) from None


def number(text: str | None, what: str) -> int:
    """The id of a message."""
    if text is None:
        return 0
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise click.UsageError(f"{what} is a number, not {text}")
    return int(text)


def show_json(value: object) -> None:
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def counted(count: int, word: str) -> str:
    return f"{count} {word}{'' if count == 1 else 's'}"


def more(shown: int, limit: int, last: object) -> None:
    """Say how to go on, where there may be more."""
    if shown == limit:
        click.echo(f"there may be more: --after {last}", err=True)
