"""`demaq tokens`: who may send with a bearer token."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import click

from demaq.cli.command_classes import ExampleFirst, ExampleFirstGroup
from demaq.cli.credential_files import add_list_and_remove, entry, file_option, limits
from demaq.gateways.security.credential_file import TOKENS, add_entry
from demaq.gateways.security.tokens import new_token, token_hash


@click.group(cls=ExampleFirstGroup, example="$ demaq tokens add shop --queue orders --expires 90d > shop.token")
def tokens() -> None:
    """Add, list and remove tokens with which others may send."""


@tokens.command(cls=ExampleFirst, example="$ demaq tokens add shop --queue orders --expires 90d > shop.token")
@click.argument("name")
@file_option(TOKENS.command)
@limits
def add(name: str, file: Path, queues: tuple[str, ...], expires: timedelta | None, replace: bool) -> None:
    """Make a token and print it, this once. The file keeps only its hash."""
    token = new_token()
    made = entry(name, token_hash(token), queues, expires)
    add_entry(file, TOKENS, made, replace=replace)
    click.echo(token)
    click.echo(f"token {name} is in {file}; it is not shown again", err=True)


add_list_and_remove(tokens, TOKENS)
