"""`demaq users`: who may send with a password."""

from __future__ import annotations

import sys
from datetime import timedelta
from pathlib import Path

import click

from demaq.cli.command_classes import ExampleFirst, ExampleFirstGroup
from demaq.cli.credential_files import add_list_and_remove, audit_option, entry, file_option, limits, note_change
from demaq.cli.parameters import STDIN, read_stdin
from demaq.errors import OperatorError
from demaq.gateways.security.credential_file import USERS, Role, add_entry, expect_name
from demaq.gateways.security.passwords import PASSWORD_LENGTH_MAX, PASSWORD_LENGTH_MIN, password_hash
from demaq.store.location import StoreLocation


@click.group(cls=ExampleFirstGroup, example="$ demaq users add shop --queue orders")
def users() -> None:
    """Add, list and remove users who may send with a password."""


@users.command(cls=ExampleFirst, example="$ demaq users add shop --queue orders")
@click.argument("name")
@file_option(USERS.command)
@audit_option
@click.option(
    "--password-file",
    type=click.Path(path_type=Path, allow_dash=True),
    metavar="FILE",
    help="Where the password is; - is standard input. By default it is asked for.",
)
@limits
def add(
    name: str,
    file: Path,
    place: StoreLocation | None,
    password_file: Path | None,
    queues: tuple[str, ...],
    expires: timedelta | None,
    role: Role | None,
    replace: bool,
) -> None:
    """Add a user. The password is asked for, or comes from a file; the file of users keeps only its hash."""
    expect_name(name)
    password = _password(password_file)
    add_entry(file, USERS, entry(name, password_hash(password), queues, expires, role), replace=replace)
    note_change(place, "add", USERS, name, file)
    click.echo(f"user {name} is in {file}")


add_list_and_remove(users, USERS)


def _password(file: Path | None) -> str:
    """Return what is typed, or the first line of a file."""
    if file is None and sys.stdin is not None and sys.stdin.isatty():
        password = str(click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True))
    else:
        data = read_stdin() if file is None or str(file) == STDIN else file.read_bytes()
        try:
            password = data.decode("utf-8").rstrip("\r\n")
        except UnicodeDecodeError:
            raise OperatorError("the password is not UTF-8") from None
    if not PASSWORD_LENGTH_MIN <= len(password) <= PASSWORD_LENGTH_MAX:
        raise OperatorError(f"a password has {PASSWORD_LENGTH_MIN} to {PASSWORD_LENGTH_MAX} characters")
    if not password.isprintable():
        raise OperatorError("a password is one line of characters that can be typed")
    return password
