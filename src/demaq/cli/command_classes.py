"""Commands with an example before anything else in their help, and imported only when they run."""

import importlib
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


class LazyCommand(click.Command):
    """Stands for the command at `module:function` until it is run."""

    def __init__(self, *, name: str, location: str, short_help: str) -> None:
        super().__init__(name, short_help=short_help)
        self.location = location

    def load(self) -> click.Command:
        module_name, _, function_name = self.location.partition(":")
        command = getattr(importlib.import_module(module_name), function_name)
        assert isinstance(command, click.Command), f"{self.location} is a command"
        return command

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        # From here on click asks the context for its command, which is the real one.
        return self.load().make_context(info_name, args, parent, **extra)
