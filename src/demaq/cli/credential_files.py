"""What `demaq tokens` and `demaq users` share: options, and how a file of them is listed."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import click

from demaq.cli.command_classes import ExampleFirst
from demaq.cli.parameters import Duration
from demaq.cli.stores import json_option, print_empty, show_json
from demaq.errors import OperatorError
from demaq.gateways.security.credential_file import Entry, Kind, read_entries, remove_entry

F = TypeVar("F", bound=Callable[..., Any])


def file_option(default: str) -> Callable[[F], F]:
    return click.option(
        "--file",
        type=click.Path(path_type=Path),
        default=default,
        show_default=True,
        metavar="FILE",
        help="The file they are in, as the settings name it.",
    )


def limits(function: F) -> F:
    """Add `--queue`, `--expires` and `--replace`."""
    function = click.option("--replace", is_flag=True, help="Replace the one of that name.")(function)
    function = click.option(
        "--expires", type=Duration(), metavar="DURATION", help="Valid for so long: 12h, 90d. By default for ever."
    )(function)
    return click.option(
        "--queue", "queues", multiple=True, metavar="QUEUE", help="Only for this gateway. May be repeated."
    )(function)


def entry(name: str, hashed: str, queues: tuple[str, ...], expires: timedelta | None) -> Entry:
    """Return a line of the file. Ends the command where it cannot be one."""
    for queue in queues:
        if "," in queue or not queue.strip() or len(queue.split()) != 1:
            raise OperatorError(f"{queue!r} is not the name of a queue")
    try:
        end = datetime.now(UTC) + expires if expires is not None else None
    except OverflowError:
        raise OperatorError("that date is too late; leave out --expires") from None
    return Entry(name=name, hash=hashed, expires=end, queues=frozenset(queues) if queues else None)


def add_list_and_remove(group: click.Group, kind: Kind) -> None:
    """Add the commands that are the same for tokens and users."""

    @group.command(
        name="list",
        cls=ExampleFirst,
        example=f"$ demaq {kind.command} list",
        help=f"List {kind.command} by name, with the gateways they are for and when they expire.",
    )
    @file_option(kind.command)
    @json_option
    def list_entries(file: Path, as_json: bool) -> None:
        show_entries(file, kind, as_json)

    @group.command(
        name="remove",
        cls=ExampleFirst,
        example=f"$ demaq {kind.command} remove shop",
        help=f"Remove a {kind.noun}. A running node knows within a second.",
    )
    @click.argument("name")
    @file_option(kind.command)
    def remove(name: str, file: Path) -> None:
        remove_entry(file, kind, name)
        click.echo(f"{kind.noun} {name} is removed from {file}")


def show_entries(file: Path, kind: Kind, as_json: bool) -> None:
    entries = read_entries(file, kind)
    now = datetime.now(UTC)
    if as_json:
        show_json(
            [
                {
                    "name": item.name,
                    "expires": item.expires.isoformat() if item.expires is not None else None,
                    "expired": item.has_expired(now),
                    "queues": sorted(item.queues) if item.queues is not None else None,
                }
                for item in entries
            ]
        )
        return
    for item in entries:
        click.echo(f"{item.name}: {_describe(item, now)}")
    if not entries:
        print_empty(f"no {kind.noun}s in {file}")


def _describe(item: Entry, now: datetime) -> str:
    parts = ["all gateways" if item.queues is None else ", ".join(sorted(item.queues))]
    if item.expires is not None:
        parts.append(f"{'expired' if item.has_expired(now) else 'expires'} {item.expires:%Y-%m-%d %H:%M:%S}")
    return "; ".join(parts)
