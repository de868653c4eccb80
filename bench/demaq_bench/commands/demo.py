"""`demaq demo`: much traffic through the paper's scenario, on Spark, with a result that is checked."""

from __future__ import annotations

import contextlib
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator

import click

from demaq.cli.command_classes import ExampleFirst
from demaq.cli.shared_options import SparkOption, conf_option, master_option, pipeline_option
from demaq.cli.stores import StoreOption, format_count
from demaq.errors import OperatorError, StoreError
from demaq.server.control_server import ControlServer
from demaq.spark.pipeline import PipelineName
from demaq.store.location import StoreLocation, place_of, store_argument
from demaq.store.opening import open_store_readonly
from demaq_bench.demo.procurement import Demonstration, DemoResult


@click.command(cls=ExampleFirst, example="$ demaq demo --requests 50000")
@click.option(
    "--requests", type=click.IntRange(1), default=20_000, show_default=True, metavar="COUNT", help="How many arrive."
)
@click.option(
    "--store", "place", type=StoreOption(), metavar="STORE", help="Keep the store in this folder, or at this address."
)
@click.option("--keep-running", is_flag=True, help="Leave the node up, to look around.")
@pipeline_option("spark")
@master_option
@conf_option
def demo(
    requests: int,
    place: StoreLocation | None,
    keep_running: bool,
    pipeline: PipelineName,
    master: str,
    conf: tuple[SparkOption, ...],
) -> int:
    """Process requests for offers on Spark and check every answer.

    Each request is checked in three ways at once and gets one answer: an offer, or a refusal where the customer has an
    unpaid invoice or an item must not be exported.
    """
    if place is not None and _is_in_use(place):
        raise click.ClickException(f"{place} is not empty: the demonstration needs a store of its own")
    with contextlib.ExitStack() as stack:
        place = place or place_of(stack.enter_context(tempfile.TemporaryDirectory(prefix="demaq-demo-")))
        try:
            demonstration = Demonstration(place.where, pipeline, master, dict(conf), _tell)
            stack.callback(demonstration.stop)
            with _progress(requests) as (sent, answered):
                result = demonstration.run(requests, sent, answered)
        except OperatorError as error:
            raise click.ClickException(str(error)) from None
        _print(result, demonstration.node.pipeline.why)
        if keep_running:
            _wait(demonstration, place)
    return 1 if result.problems else 0


def _is_in_use(place: StoreLocation) -> bool:
    if not place.is_on_server:
        return place.folder.exists() and any(place.folder.iterdir())
    try:
        open_store_readonly(place.where).close()
    except StoreError:
        return False
    return True


def _print(result: DemoResult, why: str) -> None:
    rounds = result.rounds
    rate = result.steps / result.processed_seconds
    click.echo(
        f"sent       {format_count(result.requests, 'request')} in {result.sent_seconds:.1f} s, each of them durable"
    )
    click.echo(
        f"processed  {format_count(result.steps, 'message')} in {result.processed_seconds:.1f} s: "
        f"{rate:,.0f} a second, {result.requests / result.processed_seconds:,.0f} requests a second"
    )
    click.echo(
        f"rounds     {rounds.spark_rounds:,} on Spark with {format_count(rounds.spark_messages, 'message')}, "
        f"{rounds.inline_rounds:,} in worker processes with {rounds.inline_messages:,}"
    )
    written = result.bytes_written
    click.echo(f"written    {written / 1e6:,.1f} MB: {written / max(1, result.steps):,.0f} bytes a message")
    for kind, count in sorted(result.answers.items()):
        click.echo(f"{kind:<10} {count:,}")
    if result.problems:
        for problem in result.problems[:10]:
            click.echo(f"wrong: {problem}", err=True)
        return
    click.echo("Every request got exactly one answer, and the right one.")


@contextlib.contextmanager
def _progress(requests: int) -> Iterator[tuple[Callable[[int], None], Callable[[int], None]]]:
    """Two bars on a terminal, nothing elsewhere."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description:<10}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        sent = progress.add_task("sent", total=requests)
        answered = progress.add_task("answered", total=requests)
        yield (lambda n: progress.advance(sent, n)), (lambda n: progress.advance(answered, n))


def _wait(demonstration: Demonstration, place: StoreLocation) -> None:
    """Leave the node up until Ctrl-C."""
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    control = ControlServer(demonstration.node)
    click.echo(f"The node is up. Try, in another terminal: demaq queues {store_argument(place)}; stop with Ctrl-C.")
    while not stop.wait(0.2):
        pass
    control.close()


def _tell(line: str) -> None:
    click.echo(line, err=True)
