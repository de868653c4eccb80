"""A command that is imported only when it runs.

`demaq --help` lists every command; importing Saxon for that would take longer than everything else it does.
"""

import importlib
from typing import Any

import click


class LazyCommand(click.Command):
    """Stands for the command at `module:function` until somebody runs it."""

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
