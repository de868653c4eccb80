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
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Literal

import click

from demaq.cli.command_classes import ExampleFirst
from demaq.cli.listen_address import ConsolePlace, ListenAddress
from demaq.cli.parameters import Duration, Sample, Seconds, Share, Size
from demaq.cli.shared_options import (
    SparkOption,
    check_every_option,
    conf_option,
    evaluator_option,
    master_option,
    pipeline_option,
)
from demaq.cli.stores import format_count, other_stores_option, store_option, tell
from demaq.cli.telemetry_report import start_telemetry
from demaq.control.client import running_node
from demaq.engine.engine import HOPS_MAX
from demaq.errors import StoreError, StoreHeld
from demaq.evaluation.native.native_settings import EvaluatorName
from demaq.evaluation.workers.process import (
    RULE_MEMORY_BYTES_MIN,
    RULE_TIMEOUT_SECONDS,
    RULE_TIMEOUT_SECONDS_MAX,
    RULE_TIMEOUT_SECONDS_MIN,
)
from demaq.gc_tuning import tune_gc
from demaq.language.loader import load_program
from demaq.language.program.program import Program
from demaq.log_format import LEVELS, LogFormat, configure_logging, log_line
from demaq.quantities import SampleRate
from demaq.server.control_server import ControlServer
from demaq.server.http_address import Address
from demaq.server.node import Node
from demaq.server.startup import end_announcement, retry_while_starting
from demaq.spark.pipeline import PipelineName
from demaq.store.location import StoreLocation

DRAIN_QUIET_SECONDS = 3.0
"""A backlog that takes longer to work off is talked about."""
LOOK_EVERY_SECONDS = 0.2
GATEWAYS = "demaq.cli.gateway_report"
"""The module that brings servers and clients of all protocols: nothing for a node without gateways to import."""


@click.command(cls=ExampleFirst, example="$ demaq run orders.dmq --store orders --keep 7d")
@click.argument("application", nargs=-1, required=True, metavar="APP...")
@store_option
@click.option(
    "--keep", type=Duration(), default="0s", metavar="DURATION", help="Keep what is done for so long: 90s, 12h, 7d."
)
@click.option(
    "--keep-sample",
    type=Sample(),
    metavar="SHARE",
    help="Keep only a share of conversations, such as 1/100, and these whole.",
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
@click.option(
    "--console",
    type=ConsolePlace(),
    metavar="PLACE",
    help="Where the console is: on (/console of --http), an address of its own, or off.  [default: on where only this "
    "machine reaches it, or auth asks everyone]",
)
@other_stores_option("--console-store")
@click.option("--settings", type=click.Path(path_type=Path), metavar="FILE", help="Settings of gateways, in TOML.")
@click.option("--tls-cert", type=click.Path(path_type=Path), metavar="FILE", help="Serve with TLS: the certificate.")
@click.option("--tls-key", type=click.Path(path_type=Path), metavar="FILE", help="Its key, if it is in another file.")
@click.option("--ca", type=click.Path(path_type=Path), metavar="FILE", help="Trust these authorities too when sending.")
@click.option("--no-gateways", is_flag=True, help="Neither receive nor send; what is to be sent waits.")
@click.option(
    "--telemetry",
    metavar="ADDRESS",
    help="Send traces to this collector of OpenTelemetry, or where the `environment` says.",
)
@click.option(
    "--telemetry-sample",
    type=Share(),
    metavar="SHARE",
    help="Record this share of traces that begin here: 0.01, 1/100.  [default: all]",
)
@click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="How the log is written.",
)
@click.option(
    "--log-level", type=click.Choice(LEVELS), default="warning", show_default=True, help="From which level on."
)
@click.option("--standby", is_flag=True, help="Wait until the node that runs on the store ends, then go on for it.")
def run(
    application: tuple[str, ...],
    place: StoreLocation,
    keep: timedelta,
    keep_sample: SampleRate | None,
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
    console: Address | Literal["on", "off"] | None,
    others: tuple[StoreLocation, ...],
    settings: Path | None,
    tls_cert: Path | None,
    tls_key: Path | None,
    ca: Path | None,
    no_gateways: bool,
    telemetry: str | None,
    telemetry_sample: float | None,
    log_format: LogFormat,
    log_level: str,
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
            tell=say,
            pipeline=pipeline,
            master=master,
            spark_options=dict(conf),
            standby=standby,
            evaluator=evaluator,
            check_every=check_every,
            keep_sample=keep_sample,
        )

    if keep_sample is not None and not keep:
        raise click.UsageError("--keep-sample needs --keep, which says for how long")
    configure_logging(log_format, log_level)
    say = tell if log_format == "text" else log_line
    if standby:
        end_announcement()  # commands should not wait for a node that may start in a month
    program = load_program(application)
    given = (http, smtp, None if console == "off" else console, settings, tls_cert, tls_key, ca)
    is_connected = not no_gateways and (_has_gateways(program) or any([option is not None for option in given]))
    if is_connected:
        threading.Thread(target=import_module, args=[GATEWAYS], daemon=True).start()  # while worker processes start
    node = _retry_while_held(place, open_node, say)
    logging.getLogger("psycopg").setLevel(logging.ERROR)  # what it warns of is raised besides, and said by us
    signals = Signals()
    gateways = None
    try:
        known = None
        if is_connected:
            from demaq.cli.gateway_report import settings_of, start_gateways

            known = settings_of(node.program, settings, tls_cert, tls_key, ca)
        start_telemetry(node, telemetry, telemetry_sample, known, say)
        if known is not None:
            gateways = start_gateways(node, known, http, smtp, say, console, others)
        control = ControlServer(node)  # last: who finds the node by it finds its gateways listening
    except BaseException:
        node.stop()
        raise
    end_announcement()
    tune_gc()
    node.start()
    sizes = f"{format_count(len(node.program.queues) - 1, 'queue')}, {format_count(len(node.program.rules), 'rule')}"
    say(f"running on {place}: {sizes}; stop with Ctrl-C")
    while not signals.count and not node.wait(0):
        signals.wait(LOOK_EVERY_SECONDS)
    if gateways is not None:
        gateways.stop_receiving()
    control.close()
    _end(node, signals, say)
    signals.ignore()
    if node.failure is not None:
        raise click.ClickException(f"the node has stopped: {node.failure}")
    say("stopped")
    return 0


def _has_gateways(program: Program) -> bool:
    return any([queue.gateway is not None for queue in program.queues.values()])


def _retry_while_held(place: StoreLocation, open_node: Callable[[], Node], say: Callable[[str], None]) -> Node:
    """Return the node. A command that is writing to its store is waited for; another node is not."""

    def open_unless_running() -> Node:
        try:
            return open_node()
        except StoreHeld as error:
            if running_node(place) is not None:
                raise StoreError(str(error)) from None
            raise

    return retry_while_starting(place.where, open_unless_running, say)


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


def _end(node: Node, signals: Signals, say: Callable[[str], None]) -> None:
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
            say("stopping after the current round")
        elif not is_reported and not hurried and time.monotonic() - began > DRAIN_QUIET_SECONDS:
            is_reported = True
            say("processing what waits; stop again to leave it for the next run")
