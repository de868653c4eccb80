"""`demaq graph`: the flow of an application as a picture."""

from __future__ import annotations

import json
from pathlib import Path

import click

from demaq.cli.applications import load_or_exit
from demaq.cli.command_classes import ExampleFirst
from demaq.compiler.planner import make_plan
from demaq.operations.flow_graph import make_flow_graph
from demaq.operations.flow_svg import draw_flow


@click.command(cls=ExampleFirst, example="$ demaq graph orders.dmq > flow.svg")
@click.argument("application", nargs=-1, required=True, metavar="APP...")
@click.option("--output", "-o", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Write it there.")
@click.option("--reads", is_flag=True, help="Show which queues rules read, too.")
@click.option("--json", "as_json", is_flag=True, help="Nodes and edges, for programs.")
def graph(application: tuple[str, ...], output: Path | None, reads: bool, as_json: bool) -> None:
    """Draw the flow of an application: queues, rules, slicings, gateways and timers, as SVG.

    APP is a .dmq file or a folder of them; `-` reads standard input.
    """
    made = make_flow_graph(make_plan(load_or_exit(application)), with_reads=reads)
    title = "Flow of " + ", ".join([Path(name).name or name for name in application])
    drawn = json.dumps(made.as_json(), indent=2) + "\n" if as_json else draw_flow(made, title=title)
    if output is None:
        click.echo(drawn, nl=False)
    else:
        output.write_text(drawn, encoding="utf-8")
