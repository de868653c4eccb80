"""`demaq bench`: figures to compare, from one run, and a campaign of crashes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from demaq.cli.example_first import ExampleFirst, ExampleFirstGroup
from demaq.cli.stores import json_option

if TYPE_CHECKING:
    from demaq.benchmarks.figures import Figure

F = TypeVar("F", bound=Callable[..., Any])


@click.group(cls=ExampleFirstGroup, example="$ demaq bench engine")
def bench() -> None:
    """Measure what things cost.

    Compare figures of one run with each other, not with those of another machine."""


class Numbers(click.ParamType):  # type: ignore[type-arg]  # generic only since click 8.2
    """`100,1000`."""

    name = "numbers"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        if isinstance(value, tuple):
            return value
        words = [word for word in str(value).split(",") if word]
        if not words or not all([word.isdecimal() for word in words]):
            self.fail(f"takes numbers such as 100,1000, not {value}", param, ctx)
        return tuple([int(word) for word in words])


def folder_option(function: F) -> F:
    return click.option(
        "--folder",
        type=click.Path(exists=True, file_okay=False, path_type=Path),
        metavar="DIR",
        help="Where stores are made: on the disk that is meant. By default where temporary files are.",
    )(function)


@bench.command(cls=ExampleFirst, example="$ demaq bench language --messages 300000")
@click.option(
    "--rules", type=Numbers(), default="100,1000", show_default=True, metavar="N,N…", help="Sizes of applications."
)
@click.option("--messages", default=20_000, show_default=True, type=click.IntRange(1000), help="Messages to evaluate.")
@json_option
def language(rules: tuple[int, ...], messages: int, as_json: bool) -> None:
    """Measure reading, compiling and evaluating."""
    from demaq.benchmarks.language import measure

    _show(measure(rules, messages, _say), as_json)


@bench.command(cls=ExampleFirst, example="$ demaq bench engine --large --folder /srv")
@click.option("--messages", type=click.IntRange(10), metavar="N", help="Messages to process in each run of a workload.")
@click.option("--retained", type=Numbers(), metavar="N,N…", help="How many messages are retained in slices.")
@click.option("--latency", type=click.IntRange(2), metavar="N", help="Messages to send to an idle node.")
@click.option("--memory", type=click.IntRange(100), metavar="N", help="Messages over which memory is watched.")
@click.option("--large", is_flag=True, help="A million messages retained, memory over 500,000: takes long.")
@folder_option
@json_option
def engine(large: bool, folder: Path | None, as_json: bool, **given: Any) -> None:
    """Measure the engine beside code written by hand, its latency, growth, start and memory."""
    from demaq.benchmarks.engine import LARGE, Sizes, measure
    from demaq.benchmarks.figures import WrongResult
    from demaq.benchmarks.retained import SMALLEST

    sizes = replace(LARGE if large else Sizes(), **{name: value for name, value in given.items() if value is not None})
    if list(sizes.retained) != sorted(sizes.retained) or sizes.retained[0] < SMALLEST:
        raise click.UsageError(f"--retained takes numbers in rising order, {SMALLEST} at least")
    try:
        _show(measure(sizes, folder, _say), as_json)
    except WrongResult as error:
        raise click.ClickException(f"the figures mean nothing: {error}") from None


@bench.command(cls=ExampleFirst, example="$ demaq bench crash --trials 500")
@click.option("--trials", default=50, show_default=True, type=click.IntRange(1), metavar="N", help="How many kills.")
@click.option("--seed", default=1, show_default=True, metavar="S", help="Another seed, other moments.")
@folder_option
@json_option
def crash(trials: int, seed: int, folder: Path | None, as_json: bool) -> int:
    """Kill a node under load again and again, and check that nothing is lost and nothing done twice."""
    from demaq.benchmarks.crash import campaign

    summary = campaign(trials, seed, lambda text: click.echo(text, err=True), folder)
    if as_json:
        click.echo(json.dumps(asdict(summary), indent=2))
        return 1 if summary.problems else 0
    click.echo(f"{summary.trials:,} kills, {summary.while_starting:,} of them while starting; seed {seed}")
    click.echo(f"{summary.acknowledged:,} messages acknowledged, {summary.resent:,} resent")
    click.echo(f"{summary.processed:,} processed to their end")
    click.echo(f"{summary.missing:,} missing, {summary.doubled:,} doubled, {summary.otherwise_wrong:,} otherwise wrong")
    for problem in summary.problems:
        click.echo(problem, err=True)
    if summary.problems:
        raise click.ClickException(f"the store is kept in {summary.folder}")
    return 0


def _say(text: str) -> None:
    click.echo(f"measuring {text} …", err=True)


def _show(measured: Iterable[Figure], as_json: bool) -> None:
    figures = list(measured)
    if as_json:
        click.echo(json.dumps([_as_json(figure) for figure in figures], indent=2, ensure_ascii=False))
        return
    width = max([len(figure.name) for figure in figures])
    group = ""
    for figure in figures:
        if figure.group != group:
            click.echo(("\n" if group else "") + figure.group)
            group = figure.group
        indent = "  " if group else ""
        target = f"   ({figure.target})" if figure.target else ""
        click.echo(f"{indent}{figure.name:<{width}}  {figure.value:>10,.2f} {figure.unit}{target}".rstrip())
        if figure.parts:
            parts = ", ".join([f"{name} {value:,.0f}" for name, value in figure.parts])
            click.echo(f"{indent}  = {parts}")


def _as_json(figure: Figure) -> dict[str, object]:
    found: dict[str, object] = {"name": figure.name, "value": figure.value, "unit": figure.unit}
    if figure.group:
        found["group"] = figure.group
    if figure.parts:
        found["parts"] = dict(figure.parts)
    return found
