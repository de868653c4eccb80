"""Help that shows an example before anything else.

    @click.command(cls=ExampleFirst, example="$ demaq check orders.dmq")
    def check() -> None: ...

A reader who sees the command used once seldom needs the rest.
"""

from collections.abc import Mapping, Sequence
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
    """The same for a command that has commands, in sections if there are many."""

    def __init__(self, *args: Any, sections: Mapping[str, Sequence[str]] | None = None, **kwargs: Any) -> None:
        """`sections` has the names of commands by the title they stand under."""
        super().__init__(*args, **kwargs)
        self.sections = sections or {}

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if not self.sections:
            super().format_commands(ctx, formatter)
            return
        width = max([len(name) for names in self.sections.values() for name in names])
        room = formatter.width - 6 - width
        for title, names in self.sections.items():
            with formatter.section(title):
                rows = [(name.ljust(width), self.commands[name].get_short_help_str(room)) for name in names]
                formatter.write_dl(rows)
