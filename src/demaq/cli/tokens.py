"""`demaq tokens`: who may send with a bearer token."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import click

from demaq.cli.command_classes import ExampleFirst, ExampleFirstGroup
from demaq.cli.credential_files import add_list_and_remove, audit_option, entry, file_option, limits, note_change
from demaq.gateways.security.credential_file import TOKENS, Role, add_entry
from demaq.gateways.security.tokens import new_token, token_hash
from demaq.store.location import StoreLocation


@click.group(cls=ExampleFirstGroup, example="$ demaq tokens add shop --queue orders --expires 90d > shop.token")
def tokens() -> None:
    """Add, list and remove tokens with which others may send."""


@tokens.command(cls=ExampleFirst, example="$ demaq tokens add shop --queue orders --expires 90d > shop.token")
@click.argument("name")
@file_option(TOKENS.command)
@audit_option
@limits
def add(
    name: str,
    file: Path,
    place: StoreLocation | None,
    queues: tuple[str, ...],
    expires: timedelta | None,
    role: Role | None,
    replace: bool,
) -> None:
    """Make a token and print it, this once. The file keeps only its hash."""
    token = new_token()
    made = entry(name, token_hash(token), queues, expires, role)
    add_entry(file, TOKENS, made, replace=replace)
    note_change(place, "add", TOKENS, name, file)
    click.echo(token)
    click.echo(f"token {name} is in {file}; it is not shown again", err=True)


add_list_and_remove(tokens, TOKENS)
