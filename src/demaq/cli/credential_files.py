"""What `demaq tokens` and `demaq users` share: options, and how a file of them is listed."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import click

from demaq.cli.parameters import Duration
from demaq.cli.stores import print_empty, report_errors, show_json
from demaq.errors import OperatorError
from demaq.gateways.security.credential_file import Entry, Kind, read_entries

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
    """`--queue`, `--expires` and `--replace`: what a sender may do, and until when."""
    function = click.option("--replace", is_flag=True, help="Replace the one of that name.")(function)
    function = click.option(
        "--expires", type=Duration(), metavar="DURATION", help="Valid for so long: 12h, 90d. By default for ever."
    )(function)
    return click.option(
        "--queue", "queues", multiple=True, metavar="QUEUE", help="Only for this gateway. May be repeated."
    )(function)


def entry(name: str, hashed: str, queues: tuple[str, ...], expires: timedelta | None) -> Entry:
    """Return a line of the file. Ends the command where it cannot be one."""
    with report_errors():
        for queue in queues:
            if "," in queue or not queue.strip() or len(queue.split()) != 1:
                raise OperatorError(f"{queue!r} is not the name of a queue")
        try:
            end = datetime.now(UTC) + expires if expires is not None else None
        except OverflowError:
            raise OperatorError("that is longer than anybody can wait; leave out --expires") from None
    return Entry(name=name, hash=hashed, expires=end, queues=frozenset(queues) if queues else None)


def show_entries(file: Path, kind: Kind, as_json: bool) -> None:
    with report_errors():
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
