"""`demaq bench`: figures to compare, from one run."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib import import_module

import click

from demaq.cli.example_first import ExampleFirst

SUITES = {"language": "demaq.benchmarks.language"}


@click.command(cls=ExampleFirst, example="$ demaq bench language --messages 300000")
@click.argument("suite", type=click.Choice(list(SUITES)))
@click.option("--rules", default="100,1000", show_default=True, metavar="N,N…", help="Sizes of applications to read.")
@click.option("--messages", default=20_000, show_default=True, type=click.IntRange(1000), help="Messages to evaluate.")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def bench(suite: str, rules: str, messages: int, as_json: bool) -> None:
    """Measure what things cost.

    Compare figures of one run with each other, not with those of another machine."""
    try:
        sizes = tuple([int(word) for word in rules.split(",") if word])
    except ValueError:
        raise click.UsageError(f"--rules takes numbers such as 100,1000, not {rules}") from None

    def say(text: str) -> None:
        click.echo(f"measuring {text} …", err=True)

    measure: Callable[..., object] = import_module(SUITES[suite]).measure
    figures = list(measure(sizes, messages, say))  # type: ignore[call-overload]
    if as_json:
        click.echo(json.dumps([{"name": f.name, "value": f.value, "unit": f.unit} for f in figures], indent=2))
        return
    width = max([len(figure.name) for figure in figures])
    for figure in figures:
        target = f"   ({figure.target})" if figure.target else ""
        click.echo(f"{figure.name:<{width}}  {figure.value:>10,.2f} {figure.unit}{target}".rstrip())
