"""What `demaq tokens` and `demaq users` share: options, and how a file of them is listed."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import click

from demaq.cli.command_classes import ExampleFirst
from demaq.cli.parameters import Duration
from demaq.cli.stores import StoreOption, json_option, open_for_writing, print_empty, show_json
from demaq.errors import OperatorError
from demaq.gateways.security.credential_file import ROLES, Entry, Kind, Role, read_entries, remove_entry
from demaq.operations.audit import describe_action, name_of_operator
from demaq.server.startup import DEFAULT_STORE
from demaq.store.location import StoreLocation, place_of
from demaq.store.sqlite_database import FILE_NAME

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


def audit_option(function: F) -> F:
    """Add `--store`, the store that records who has changed the file."""
    return click.option(
        "--store",
        "place",
        type=StoreOption(),
        default=None,
        metavar="STORE",
        help=f"The store that records it; by default {DEFAULT_STORE}, if it is there.",
    )(function)


def note_change(place: StoreLocation | None, action: str, kind: Kind, name: str, file: Path) -> None:
    """Write the audit record of a change of a file. Where there is no store that was not asked for, do nothing."""
    if place is None:
        place = place_of(DEFAULT_STORE)
        if not (place.folder / FILE_NAME).exists():
            return
    record = describe_action(
        f"{action} {kind.noun}",
        f"{kind.noun} {name}",
        who=name_of_operator(),
        details={"name": name, "file": str(file)},
        result="done",
    )
    with open_for_writing(place) as node:
        node.note_audit(record)


def limits(function: F) -> F:
    """Add `--queue`, `--expires`, `--role` and `--replace`."""
    function = click.option("--replace", is_flag=True, help="Replace the one of that name.")(function)
    function = click.option(
        "--role",
        type=click.Choice(ROLES),
        help="May use the console and the HTTP API, and send only where --queue says.",
    )(function)
    function = click.option(
        "--expires", type=Duration(), metavar="DURATION", help="Valid for so long: 12h, 90d. By default for ever."
    )(function)
    return click.option(
        "--queue", "queues", multiple=True, metavar="QUEUE", help="Only for this gateway. May be repeated."
    )(function)


def entry(
    name: str, hashed: str, queues: tuple[str, ...], expires: timedelta | None, role: Role | None = None
) -> Entry:
    """Return a line of the file. Ends the command where it cannot be one."""
    for queue in queues:
        if "," in queue or not queue.strip() or len(queue.split()) != 1:
            raise OperatorError(f"{queue!r} is not the name of a queue")
    try:
        end = datetime.now(UTC) + expires if expires is not None else None
    except OverflowError:
        raise OperatorError("that date is too late; leave out --expires") from None
    known = frozenset(queues) if queues or role is not None else None
    return Entry(name=name, hash=hashed, expires=end, queues=known, role=role)


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
    @audit_option
    def remove(name: str, file: Path, place: StoreLocation | None) -> None:
        remove_entry(file, kind, name)
        note_change(place, "remove", kind, name, file)
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
                    "role": item.role,
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
    if item.role is not None:
        parts = [f"may {item.role}", *[part for part in parts if part]]
    if item.expires is not None:
        parts.append(f"{'expired' if item.has_expired(now) else 'expires'} {item.expires:%Y-%m-%d %H:%M:%S}")
    return "; ".join(parts)
