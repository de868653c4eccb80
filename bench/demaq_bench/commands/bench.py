"""`demaq bench`: figures to compare, from one run, and a campaign of crashes."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from demaq.cli.command_classes import ExampleFirst, ExampleFirstGroup
from demaq.cli.stores import json_option
from demaq.errors import OperatorError

if TYPE_CHECKING:
    from demaq.spark.pipeline import PipelineName
    from demaq_bench.figures import Figure

F = TypeVar("F", bound=Callable[..., Any])

RUNS = 3
JSON_FORMAT = 1
"""Changes when a program that reads the JSON must change."""


class Numbers(click.ParamType[tuple[int, ...]]):
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


def runs_option(function: F) -> F:
    return click.option(
        "--runs",
        type=click.IntRange(1),
        default=RUNS,
        show_default=True,
        metavar="N",
        help="Show the median of so many.",
    )(function)


def chart_option(function: F) -> F:
    return click.option(
        "--chart",
        type=click.Path(dir_okay=False, path_type=Path),
        metavar="FILE",
        help="Draw the figures into this file: .svg, or .png where demaq[bench] is installed.",
    )(function)


@click.group(
    cls=ExampleFirstGroup,
    example="$ demaq bench --workload W1 --chart w1.svg",
    invoke_without_command=True,
)
@click.option(
    "--workload",
    "workloads",
    type=click.Choice(["W1", "W2", "W1n", "W2n", "W3"]),
    multiple=True,
    help="Measure this workload, and nothing that is not named too. May be repeated.",
)
@click.option(
    "--curve",
    "curves",
    type=click.Choice(["backlog", "retained", "rules", "size", "cores"]),
    multiple=True,
    help="Measure how cost grows with this, and nothing that is not named too. May be repeated.",
)
@click.option("--latency", is_flag=True, help="Measure one message at a time, and nothing that is not named too.")
@click.option(
    "--pipeline",
    "pipelines",
    type=click.Choice(["inline", "auto", "spark"]),
    multiple=True,
    default=("inline",),
    show_default=True,
    help="Where the node of a workload evaluates. May be repeated.",
)
@click.option("--saxon", is_flag=True, help="Measure a node without native rules, too.")
@runs_option
@click.option("--large", is_flag=True, help="Up to a million messages: takes an hour or more.")
@chart_option
@folder_option
@json_option
@click.pass_context
def bench(
    context: click.Context,
    workloads: tuple[str, ...],
    curves: tuple[str, ...],
    latency: bool,
    pipelines: tuple[PipelineName, ...],
    saxon: bool,
    runs: int,
    large: bool,
    chart: Path | None,
    folder: Path | None,
    as_json: bool,
) -> None:
    """Measure a node and hand-written code.

    What it does a second, how its cost grows, and how long a message takes.

    Compare figures of one run with each other, not with those of another machine. Without options everything is
    measured with small sizes, in about five minutes."""
    if context.invoked_subcommand is not None:
        _expect_no_options(context)
        return
    from demaq_bench import suite
    from demaq_bench.contestant import NODE_SAXON, NODES

    if chart is not None:
        _expect_writable(chart)
    parts = (*workloads, *curves, *([suite.LATENCY] if latency else []))
    parts = parts or (*suite.WORKLOADS, *suite.CURVES, suite.LATENCY)
    sizes = suite.LARGE if large else suite.PipelineSizes()
    started = time.monotonic()
    nodes = (*[NODES[name] for name in dict.fromkeys(pipelines)], *([NODE_SAXON] if saxon else []))
    figures = _collect(suite.measure(parts, nodes, sizes, runs, folder, _say))
    settings = {"parts": list(parts), "nodes": list(nodes), "runs": runs, "large": large}
    _show_all(figures, settings, time.monotonic() - started, as_json, chart)


def _expect_writable(chart: Path) -> None:
    from demaq_bench.chart import expect_writable

    try:
        expect_writable(chart)
    except OperatorError as error:
        raise click.ClickException(str(error)) from None


def _expect_no_options(context: click.Context) -> None:
    given = [
        name for name in context.params if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE
    ]
    if given:
        raise click.UsageError(f"options of `demaq bench` itself do not go with `{context.invoked_subcommand}`")


@bench.command(cls=ExampleFirst, example="$ demaq bench language --messages 300000")
@click.option(
    "--rules", type=Numbers(), default="100,1000", show_default=True, metavar="N,N…", help="Sizes of applications."
)
@click.option("--messages", default=20_000, show_default=True, type=click.IntRange(1000), help="Messages to evaluate.")
@json_option
def language(rules: tuple[int, ...], messages: int, as_json: bool) -> None:
    """Measure reading, compiling and evaluating."""
    from demaq_bench.language_costs import measure

    _show(measure(rules, messages, _say), as_json)


@bench.command(cls=ExampleFirst, example="$ demaq bench engine --large --folder /srv")
@click.option("--retained", type=click.IntRange(1), metavar="N", help="Messages in the store when a node starts.")
@click.option("--memory", type=click.IntRange(100), metavar="N", help="Messages over which memory is watched.")
@click.option("--large", is_flag=True, help="A million messages retained, memory over 500,000: takes long.")
@folder_option
@json_option
def engine(large: bool, folder: Path | None, as_json: bool, **given: Any) -> None:
    """Measure the start of a node, and its memory in the long run."""
    from demaq_bench.long_runs import LARGE, EngineSizes, measure

    sizes = replace(
        LARGE if large else EngineSizes(), **{name: value for name, value in given.items() if value is not None}
    )
    _show(_collect(measure(sizes, folder, _say)), as_json)


@bench.command(cls=ExampleFirst, example="$ demaq bench peers --quick")
@click.option("--quick", is_flag=True, help="A tenth of the messages, and fewer invoices: to see that it works.")
@click.option("--no-spark", is_flag=True, help="Leave out what needs Spark.")
@runs_option
@chart_option
@folder_option
@json_option
def peers(quick: bool, no_spark: bool, runs: int, chart: Path | None, folder: Path | None, as_json: bool) -> None:
    """Compare a node with hand-written programs on all workloads, and show which targets it reaches."""
    from demaq_bench import peers as compared

    if chart is not None:
        _expect_writable(chart)
    sizes = compared.QUICK if quick else compared.PeerSizes()
    started = time.monotonic()
    figures = _collect(compared.measure(sizes, not no_spark, runs, folder, _say))
    settings = {"quick": quick, "spark": not no_spark, "runs": runs}
    _show_all(figures, settings, time.monotonic() - started, as_json, chart)


@bench.command(cls=ExampleFirst, example="$ demaq bench start --runs 5")
@runs_option
@folder_option
@json_option
def start(runs: int, folder: Path | None, as_json: bool) -> None:
    """Measure how long `demaq check` takes, and `demaq run` until it is ready, also after a kill."""
    from demaq_bench.start import measure

    started = time.monotonic()
    figures = _collect(measure(runs, folder, _say))
    _show_all(figures, {"runs": runs}, time.monotonic() - started, as_json, None)


@bench.command(cls=ExampleFirst, example="$ demaq bench gateways --runs 5 --chart gateways.svg")
@runs_option
@click.option("--large", is_flag=True, help="Seven times as many requests.")
@chart_option
@folder_option
@json_option
def gateways(runs: int, large: bool, chart: Path | None, folder: Path | None, as_json: bool) -> None:
    """Measure what a node takes in over HTTP, and how long senders wait, compared with a hand-written handler."""
    from demaq_bench import gateway_load, soap_load

    if chart is not None:
        _expect_writable(chart)
    sizes = gateway_load.LARGE if large else gateway_load.GatewaySizes()
    started = time.monotonic()
    figures = _collect(gateway_load.measure(sizes, runs, folder, _say))
    figures += _collect(soap_load.measure(sizes.soap, runs, folder, _say))
    _show_all(figures, {"runs": runs, "large": large}, time.monotonic() - started, as_json, chart)


@bench.command(cls=ExampleFirst, example="$ demaq bench console --messages 1000000")
@click.option("--messages", default=1_000_000, show_default=True, type=click.IntRange(1000), help="In the store.")
@click.option("--runs", type=click.IntRange(1), default=15, show_default=True, metavar="N", help="Load pages so often.")
@folder_option
@json_option
def console(messages: int, runs: int, folder: Path | None, as_json: bool) -> None:
    """Measure how long pages of the console take with many messages in the store."""
    from demaq_bench.console_pages import measure

    started = time.monotonic()
    figures = _collect(measure(messages, runs, folder, _say))
    _show_all(figures, {"messages": messages, "runs": runs}, time.monotonic() - started, as_json, None)


@bench.command(cls=ExampleFirst, example="$ demaq bench native --application ubl-orders")
@click.option(
    "--application",
    "applications",
    multiple=True,
    metavar="NAME",
    help="Evaluate this application of the corpus only. May be repeated.",
)
@json_option
def native(applications: tuple[str, ...], as_json: bool) -> int:
    """Show how many rules of a corpus are native, and compare their answers with Saxon's.

    Exit 1 if an answer differs."""
    from demaq.suggestions import describe_unknown
    from demaq_bench import native_corpus

    known = native_corpus.find_applications()
    for name in applications:
        if name not in known:
            raise click.UsageError(describe_unknown("application", name, known))
    rules = list(native_corpus.measure(applications or known))
    if as_json:
        click.echo(json.dumps(native_corpus.as_json(rules), indent=2, ensure_ascii=False))
    else:
        for line in native_corpus.tables(rules):
            click.echo(line)
    return 1 if any([rule.differences for rule in rules]) else 0


@bench.command(cls=ExampleFirst, example="$ demaq bench outbox --waiting 1000000")
@click.option(
    "--messages",
    default=20_000,
    show_default=True,
    type=click.IntRange(100),
    metavar="N",
    help="How many are sent in each run.",
)
@click.option("--waiting", default=0, type=click.IntRange(0), metavar="N", help="Look at memory while so many wait.")
@runs_option
@folder_option
@json_option
def outbox(messages: int, waiting: int, runs: int, folder: Path | None, as_json: bool) -> None:
    """Measure what a node sends over HTTP, also beside a slow peer, and with many messages waiting."""
    from demaq_bench.outbox_load import OutboxSizes, measure

    _show(_collect(measure(OutboxSizes(messages=messages, waiting=waiting), runs, folder, _say)), as_json)


@bench.command(cls=ExampleFirst, example="$ demaq bench crash --trials 500")
@click.option("--trials", default=50, show_default=True, type=click.IntRange(1), metavar="N", help="How many kills.")
@click.option("--seed", default=1, show_default=True, metavar="S", help="Another seed, other moments.")
@click.option(
    "--pipeline",
    type=click.Choice(["inline", "spark"]),
    default="inline",
    show_default=True,
    help="Where the node evaluates. With spark each start takes longer.",
)
@folder_option
@json_option
def crash(trials: int, seed: int, pipeline: PipelineName, folder: Path | None, as_json: bool) -> int:
    """Kill a node under load again and again, and check that nothing is lost and nothing done twice."""
    from demaq_bench.crash import campaign

    summary = campaign(trials, seed, lambda text: click.echo(text, err=True), folder, pipeline=pipeline)
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


def _collect(measured: Iterable[Figure]) -> list[Figure]:
    from demaq_bench.figures import WrongResult

    try:
        return list(measured)
    except WrongResult as error:
        raise click.ClickException(f"the figures mean nothing: {error}") from None
    except OperatorError as error:
        raise click.ClickException(str(error)) from None


def _show_all(
    figures: list[Figure], settings: dict[str, Any], seconds: float, as_json: bool, chart: Path | None
) -> None:
    from demaq_bench import machine
    from demaq_bench.chart import write_chart

    facts = machine.facts()
    if as_json:
        document = {"format": JSON_FORMAT, "machine": facts, "settings": settings, "seconds": seconds}
        document |= {"figures": [figure.as_json() for figure in figures]}
        click.echo(json.dumps(document, indent=2, ensure_ascii=False))
    else:
        _print_tables(figures, facts)
    if chart is not None:
        write_chart(figures, facts, chart)
        click.echo(f"wrote {chart}", err=True)


def _print_tables(figures: list[Figure], facts: dict[str, str | int]) -> None:
    from demaq_bench.report import tables

    click.echo(", ".join([f"{name} {value}" for name, value in facts.items()]))
    for line in tables(figures):
        click.echo(line)


def _show(measured: Iterable[Figure], as_json: bool) -> None:
    figures = list(measured)
    if as_json:
        click.echo(json.dumps([figure.as_json() for figure in figures], indent=2, ensure_ascii=False))
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
