"""What demaq.cli uses of click beyond its documentation."""

from __future__ import annotations

import inspect
from typing import Any

import click
import pytest


class Late(click.Command):
    """Makes the context of another command, as `LazyCommand` does."""

    def __init__(self, other: click.Command) -> None:
        super().__init__("late", short_help="Say so.")
        self._other = other

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        return self._other.make_context(info_name, args, parent, **extra)


def run(command: click.Command, *args: str) -> Any:
    with command.make_context("demaq", list(args)) as context:
        return command.invoke(context)


def test_a_group_invokes_the_command_of_the_context_that_a_command_makes():
    @click.command
    @click.argument("count", type=int)
    def other(count: int) -> int:
        return count + 1

    assert run(click.Group("group", commands={"late": Late(other)}), "late", "41") == 42


def test_the_help_of_a_group_loads_no_command():
    class Broken(Late):
        def make_context(self, *args: Any, **extra: Any) -> click.Context:
            raise AssertionError("it is made only when the command runs")

    group = click.Group("group", commands={"late": Broken(click.Command("other"))})
    assert "Say so." in group.get_help(click.Context(group))


def test_make_context_has_the_parameters_that_ours_passes_on():
    assert list(inspect.signature(click.Command.make_context).parameters) == [
        "self",
        "info_name",
        "args",
        "parent",
        "extra",
    ]


def test_the_end_of_a_command_before_its_work_is_an_exception_with_an_exit_code():
    with pytest.raises(click.exceptions.Exit) as end:
        run(click.Group("group"), "--help")
    assert end.value.exit_code == 0
    with pytest.raises(click.UsageError) as wrong:
        run(click.Group("group"), "nonsense")
    assert wrong.value.exit_code == 2
    assert "nonsense" in wrong.value.format_message()


def test_help_is_written_by_format_help_and_commands_by_format_commands():
    class Own(click.Group):
        def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
            formatter.write("Example:\n")
            formatter.write_paragraph()
            super().format_help(ctx, formatter)

        def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
            with formatter.section("Title"):
                short = self.commands["late"].get_short_help_str(formatter.width - 20)
                formatter.write_dl([("late", short)])

    group = Own("group", commands={"late": Late(click.Command("other"))})
    lines = group.get_help(click.Context(group, info_name="group")).splitlines()
    assert lines[:3] == ["Example:", "", "Usage: group [OPTIONS] COMMAND [ARGS]..."]
    assert lines[-2:] == ["Title:", "  late  Say so."]


def test_a_number_that_is_none_is_in_every_range():
    """Ours refuses it: see `Seconds`."""
    limits: click.ParamType[Any] = click.FloatRange(min=0, max=1)
    assert str(limits.convert("nan", None, None)) == "nan"
