"""`demaq tokens`: who may send with a bearer token."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import click

from demaq.cli.command_classes import ExampleFirst, ExampleFirstGroup
from demaq.cli.credential_files import entry, file_option, limits, show_entries
from demaq.cli.stores import json_option, report_errors
from demaq.gateways.security.credential_file import TOKENS, add_entry, remove_entry
from demaq.gateways.security.tokens import new_token, token_hash

DEFAULT_FILE = "tokens"


@click.group(cls=ExampleFirstGroup, example="$ demaq tokens add shop --queue orders --expires 90d > shop.token")
def tokens() -> None:
    """Add, list and remove tokens with which others may send."""


@tokens.command(cls=ExampleFirst, example="$ demaq tokens add shop --queue orders --expires 90d > shop.token")
@click.argument("name")
@file_option(DEFAULT_FILE)
@limits
def add(name: str, file: Path, queues: tuple[str, ...], expires: timedelta | None, replace: bool) -> None:
    """Make a token and print it, this once. The file keeps only its hash."""
    token = new_token()
    made = entry(name, token_hash(token), queues, expires)
    with report_errors():
        add_entry(file, TOKENS, made, replace=replace)
    click.echo(token)
    click.echo(f"token {name} is in {file}; it is not shown again", err=True)


@tokens.command(name="list", cls=ExampleFirst, example="$ demaq tokens list")
@file_option(DEFAULT_FILE)
@json_option
def list_tokens(file: Path, as_json: bool) -> None:
    """List tokens by name, with the gateways they are for and when they expire."""
    show_entries(file, TOKENS, as_json)


@tokens.command(cls=ExampleFirst, example="$ demaq tokens remove shop")
@click.argument("name")
@file_option(DEFAULT_FILE)
def remove(name: str, file: Path) -> None:
    """Remove a token. A running node knows within a second."""
    with report_errors():
        remove_entry(file, TOKENS, name)
    click.echo(f"token {name} is removed from {file}")
