"""`demaq run`: process messages until stopped."""

from __future__ import annotations

import logging
import re
import signal
import threading
from datetime import timedelta
from pathlib import Path
from types import FrameType

import click

from demaq.cli.applications import show
from demaq.cli.example_first import ExampleFirst
from demaq.cli.stores import counted, store_option, told
from demaq.errors import ProgramError
from demaq.language.diagnostics import Diagnostic
from demaq.rounds.process import RULE_TIMEOUT_SECONDS
from demaq.scheduler.engine import HOPS_MAX
from demaq.server.control import ControlServer
from demaq.server.node import Node

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


class Duration(click.ParamType):  # type: ignore[type-arg]  # generic only since click 8.2
    """`90s`, `10m`, `12h`, `7d`, `2w`."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        if isinstance(value, timedelta):
            return value
        match = re.fullmatch(r"(\d+(?:\.\d+)?)([smhdw])", str(value))
        if match is None:
            self.fail(f"{value} is not a duration such as 90s, 10m, 12h, 7d", param, ctx)
        try:
            return timedelta(**{_UNITS[match[2]]: float(match[1])})
        except OverflowError:
            self.fail(f"{value} is longer than anybody can wait", param, ctx)


@click.command(cls=ExampleFirst, example="$ demaq run orders.dmq --store orders --keep 7d")
@click.argument("application", nargs=-1, required=True, metavar="APP...")
@store_option
@click.option(
    "--keep", type=Duration(), default="0s", metavar="DURATION", help="Keep what is done for so long: 90s, 12h, 7d."
)
@click.option(
    "--rule-timeout",
    type=click.FloatRange(0.1),
    default=RULE_TIMEOUT_SECONDS,
    show_default=True,
    metavar="SECONDS",
    help="How long the rules of one message may take.",
)
@click.option(
    "--max-hops",
    type=click.IntRange(1),
    default=HOPS_MAX,
    show_default=True,
    metavar="COUNT",
    help="How many messages may cause each other in a row.",
)
def run(application: tuple[str, ...], folder: Path, keep: timedelta, rule_timeout: float, max_hops: int) -> int:
    """Run an application on a store until it is stopped.

    SIGTERM and Ctrl-C stop it when what waits is processed; the next run goes on where it was.
    """
    try:
        with told():
            node = Node(application, folder, keep, rule_timeout, hops_max=max_hops)
    except ProgramError as error:
        show([Diagnostic.of(item) for item in (error, *error.others)])
        return 1
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(message)s")
    stop = threading.Event()

    def on_signal(number: int, frame: FrameType | None) -> None:
        stop.set()

    signal.signal(signal.SIGTERM, on_signal)
    signal.signal(signal.SIGINT, on_signal)
    control = ControlServer(node)
    node.start()
    sizes = f"{counted(len(node.program.queues) - 1, 'queue')}, {counted(len(node.program.rules), 'rule')}"
    click.echo(f"running on {folder}: {sizes}; stop with Ctrl-C", err=True)
    while not stop.wait(0.2):
        if node.wait(0):
            break
    control.close()
    node.stop(drain=True)
    if node.failure is not None:
        raise click.ClickException(f"the node has stopped: {node.failure}")
    click.echo("stopped", err=True)
    return 0
