"""`demaq schema`: print a schema that Demaq publishes."""

from __future__ import annotations

import click

from demaq.cli.command_classes import ExampleFirst
from demaq.schemas import SCHEMAS, schema_text


@click.command(cls=ExampleFirst, example="$ demaq schema error > error.xsd")
@click.argument("name", type=click.Choice(SCHEMAS))
def schema(name: str) -> None:
    """Print a schema that Demaq publishes.

    `error`: of the messages about what went wrong. `mail`: of mails that an application writes for people.
    """
    click.echo(schema_text(name), nl=False)
