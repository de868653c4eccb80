"""`demaq run`: process messages until stopped."""

from __future__ import annotations

import logging
import os
import select
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from types import FrameType

import click

from demaq.cli.command_classes import ExampleFirst
from demaq.cli.gateway_report import Address, ListenAddress, settings_of, start_gateways
from demaq.cli.parameters import Duration, Seconds, Size
from demaq.cli.shared_options import (
    SparkOption,
    check_every_option,
    conf_option,
    evaluator_option,
    master_option,
    pipeline_option,
)
from demaq.cli.stores import format_count, store_option, tell
from demaq.control.client import running_node
from demaq.engine.engine import HOPS_MAX
from demaq.errors import OperatorError, StoreError, StoreHeld
from demaq.evaluation.native.native_settings import EvaluatorName
from demaq.evaluation.workers.process import (
    RULE_MEMORY_BYTES_MIN,
    RULE_TIMEOUT_SECONDS,
    RULE_TIMEOUT_SECONDS_MAX,
    RULE_TIMEOUT_SECONDS_MIN,
)
from demaq.gc_tuning import tune_gc
from demaq.language.loader import load_program
from demaq.server.control_server import ControlServer
from demaq.server.node import Node
from demaq.server.startup import end_announcement, retry_while_starting
from demaq.spark.pipeline import PipelineName
from demaq.store.location import StoreLocation

DRAIN_QUIET_SECONDS = 3.0
"""A backlog that takes longer to work off is talked about."""
LOOK_EVERY_SECONDS = 0.2


@click.command(cls=ExampleFirst, example="$ demaq run orders.dmq --store orders --keep 7d")
@click.argument("application", nargs=-1, required=True, metavar="APP...")
@store_option
@click.option(
    "--keep", type=Duration(), default="0s", metavar="DURATION", help="Keep what is done for so long: 90s, 12h, 7d."
)
@click.option(
    "--rule-timeout",
    type=Seconds(RULE_TIMEOUT_SECONDS_MIN, RULE_TIMEOUT_SECONDS_MAX),
    default=RULE_TIMEOUT_SECONDS,
    show_default=True,
    metavar="SECONDS",
    help="How long the rules of one message may take.",
)
@click.option(
    "--rule-memory",
    type=Size(RULE_MEMORY_BYTES_MIN),
    default="2GB",
    show_default=True,
    metavar="SIZE",
    help="How much memory the rules of one message may take.",
)
@click.option(
    "--max-hops",
    type=click.IntRange(1),
    default=HOPS_MAX,
    show_default=True,
    metavar="COUNT",
    help="How many messages may cause each other in a row.",
)
@click.option(
    "--discard",
    multiple=True,
    metavar="QUEUE",
    help="Give up the messages of a queue that a changed application has no use for. May be repeated.",
)
@pipeline_option("auto")
@master_option
@conf_option
@evaluator_option
@check_every_option
@click.option(
    "--http",
    type=ListenAddress(),
    metavar="ADDRESS",
    help="Where gateways, /healthz, /readyz and /metrics are.  [default: 127.0.0.1:8080 if there are gateways]",
)
@click.option("--smtp", type=ListenAddress(), metavar="ADDRESS", help="Where gateways with mail addresses get mail.")
@click.option("--settings", type=click.Path(path_type=Path), metavar="FILE", help="Settings of gateways, in TOML.")
@click.option("--tls-cert", type=click.Path(path_type=Path), metavar="FILE", help="Serve with TLS: the certificate.")
@click.option("--tls-key", type=click.Path(path_type=Path), metavar="FILE", help="Its key, if it is in another file.")
@click.option("--ca", type=click.Path(path_type=Path), metavar="FILE", help="Trust these authorities too when sending.")
@click.option("--no-gateways", is_flag=True, help="Neither receive nor send; what is to be sent waits.")
@click.option("--standby", is_flag=True, help="Wait until the node that runs on the store ends, then go on for it.")
def run(
    application: tuple[str, ...],
    place: StoreLocation,
    keep: timedelta,
    rule_timeout: float,
    rule_memory: int,
    max_hops: int,
    discard: tuple[str, ...],
    pipeline: PipelineName,
    master: str,
    conf: tuple[SparkOption, ...],
    evaluator: EvaluatorName,
    check_every: int,
    http: Address | None,
    smtp: Address | None,
    settings: Path | None,
    tls_cert: Path | None,
    tls_key: Path | None,
    ca: Path | None,
    no_gateways: bool,
    standby: bool,
) -> int:
    """Run an application on a store until it is stopped.

    What is different from the application that ran last is shown before it happens. SIGTERM and Ctrl-C stop it when
    what waits is processed, a second one after the current round; the next run goes on where it was.
    """

    def open_node() -> Node:
        return Node(
            program,
            place.where,
            keep,
            rule_timeout,
            rule_memory,
            hops_max=max_hops,
            discard=discard,
            tell=tell,
            pipeline=pipeline,
            master=master,
            spark_options=dict(conf),
            standby=standby,
            evaluator=evaluator,
            check_every=check_every,
        )

    if standby:
        end_announcement()  # commands should not wait for a node that may start in a month
    program = load_program(application)
    node = _retry_while_held(place, open_node)
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(message)s")
    logging.getLogger("psycopg").setLevel(logging.ERROR)  # what it warns of is raised besides, and said by us
    signals = Signals()
    try:
        control = ControlServer(node)
    except BaseException:
        node.stop()
        raise
    end_announcement()
    gateways = None
    if not no_gateways:
        try:
            known = settings_of(node.program, settings, tls_cert, tls_key, ca)
            gateways = start_gateways(node, known, http, smtp, tell)
        except OperatorError:
            control.close()
            node.stop()
            raise
    tune_gc()
    node.start()
    sizes = f"{format_count(len(node.program.queues) - 1, 'queue')}, {format_count(len(node.program.rules), 'rule')}"
    tell(f"running on {place}: {sizes}; stop with Ctrl-C")
    while not signals.count and not node.wait(0):
        signals.wait(LOOK_EVERY_SECONDS)
    if gateways is not None:
        gateways.stop_receiving()
    control.close()
    _end(node, signals)
    signals.ignore()
    if node.failure is not None:
        raise click.ClickException(f"the node has stopped: {node.failure}")
    tell("stopped")
    return 0


def _retry_while_held(place: StoreLocation, open_node: Callable[[], Node]) -> Node:
    """Return the node. A command that is writing to its store is waited for; another node is not."""

    def open_unless_running() -> Node:
        try:
            return open_node()
        except StoreHeld as error:
            if running_node(place) is not None:
                raise StoreError(str(error)) from None
            raise

    return retry_while_starting(place.where, open_unless_running, tell)


class Signals:
    """Counts SIGTERM, SIGINT (Ctrl-C) and SIGHUP, which a closed terminal sends.

    Handlers run in the main thread, between any two instructions of what it is doing. So they take no lock, which that
    may hold: not even that of a threading.Event, for which the main thread waits.
    """

    def __init__(self) -> None:
        self.count = 0
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._writer, False)
        signal.signal(signal.SIGTERM, self._on_signal)
        signal.signal(signal.SIGINT, self._on_signal)
        if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # as nohup has it
            signal.signal(signal.SIGHUP, self._on_signal)

    def wait(self, seconds: float) -> None:
        """Wait for the first signal, at most so long."""
        select.select([self._reader], [], [], seconds)

    def ignore(self) -> None:
        """Ignore signals from now on: Python would let them kill the process while it ends."""
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self.count += 1
        with suppress(BlockingIOError):  # the pipe is full: a wait ends in any case
            os.write(self._writer, b"\0")


def _end(node: Node, signals: Signals) -> None:
    """Work off what waits; a second signal ends that after the current round."""
    ending = threading.Thread(target=node.stop, kwargs={"drain": True}, name="demaq-ending")
    ending.start()
    began = time.monotonic()
    is_reported = hurried = False
    while ending.is_alive():
        ending.join(LOOK_EVERY_SECONDS)
        if signals.count > 1 and not hurried:
            hurried = True
            node.hurry()
            tell("stopping after the current round")
        elif not is_reported and not hurried and time.monotonic() - began > DRAIN_QUIET_SECONDS:
            is_reported = True
            tell("processing what waits; stop again to leave it for the next run")
