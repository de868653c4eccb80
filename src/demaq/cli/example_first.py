"""Help that shows an example before anything else.

    @click.command(cls=ExampleFirst, example="$ demaq check orders.dmq")
    def check() -> None: ...

A reader who sees the command used once seldom needs the rest.
"""

from inspect import cleandoc
from typing import Any

import click


class ExampleFirst(click.Command):
    """A command whose help starts with an example: a line to type, perhaps what it answers."""

    def __init__(self, *args: Any, example: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.example = cleandoc(example)

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write("Example:\n")
        for line in self.example.splitlines():
            formatter.write(f"  {line}".rstrip() + "\n")
        formatter.write_paragraph()
        super().format_help(ctx, formatter)


class ExampleFirstGroup(ExampleFirst, click.Group):
    """The same for a command that has commands."""
