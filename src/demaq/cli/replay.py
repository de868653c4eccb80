"""`demaq replay`: stored or failed messages once more."""

from __future__ import annotations

import time
import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import click

from demaq.bulk.executors import ProgramOnStore
from demaq.bulk.message_search import Filters, Finder, FoundMessage, SearchResult, is_outgoing
from demaq.bulk.message_sink import BulkReport
from demaq.bulk.replay import LocalBackend, Replay, ReplayBackend, SparkBackend
from demaq.cli.backfill import migrate_with_progress
from demaq.cli.command_classes import ExampleFirst
from demaq.cli.parameters import TimeOrAge
from demaq.cli.progress_bar import progress
from demaq.cli.shared_options import SparkOption, conf_option, master_option, pipeline_option, start_command_spark
from demaq.cli.stores import (
    format_count,
    json_option,
    open_for_reading,
    open_for_writing,
    show_json,
    store_option,
)
from demaq.compiler.plan import Plan
from demaq.compiler.planner import make_plan
from demaq.control.client import RemoteNode, running_node
from demaq.errors import StoreError
from demaq.evaluation.workers.process import ProcessEvaluator
from demaq.language.loader import load_program, load_program_texts
from demaq.operations.audit import describe_action, name_of_operator
from demaq.server.message_watch import Watch
from demaq.server.node import Node
from demaq.spark.pipeline import PipelineName
from demaq.store.location import StoreLocation
from demaq.store.opening import program_on
from demaq.store.protocol import Store
from demaq.suggestions import describe_unknown

SPARK_NUMBERS_MIN = 200_000
SPARK_COPIES_MIN = 20_000
"""Fewer numbers are looked through, and fewer copies made, more quickly than Spark starts, on two cores."""
LOOK_EVERY_SECONDS = 0.1
KEEP = timedelta(days=36_500)
"""A replay on an offline store removes nothing: how long messages are kept is said when the application runs."""
SHOWN_MAX = 10
"""So many numbers of messages are shown."""
NAME_LENGTH_MAX = 100


@click.command(cls=ExampleFirst, example="$ demaq replay --error 'err:*' --rule bill --since 2d --store orders")
@click.argument("application", nargs=-1, metavar="[APP...]")
@store_option
@click.option("--queue", "queues", multiple=True, metavar="QUEUE", help="Messages of this queue; may be repeated.")
@click.option("--rule", metavar="RULE", help="Messages that this rule is about; only this rule acts on them.")
@click.option(
    "--error", "codes", multiple=True, metavar="CODE", help="Messages that failed with this code or kind: err:XPTY*, *."
)
@click.option(
    "--since", type=TimeOrAge(), metavar="TIME", help="Stored, or failed, at this time or later; or an age: 2h."
)
@click.option("--until", type=TimeOrAge(), metavar="TIME", help="Stored, or failed, before this time.")
@click.option("--name", default="", metavar="NAME", help="Run them again under this name, whatever was run before.")
@click.option("--dry-run", is_flag=True, help="Show what would be run again, and change nothing.")
@pipeline_option("auto")
@master_option
@conf_option
@json_option
def replay(
    application: tuple[str, ...],
    place: StoreLocation,
    queues: tuple[str, ...],
    rule: str | None,
    codes: tuple[str, ...],
    since: datetime | None,
    until: datetime | None,
    name: str,
    dry_run: bool,
    pipeline: PipelineName,
    master: str,
    conf: tuple[SparkOption, ...],
    as_json: bool,
) -> int:
    """Run stored or failed messages again.

    Copies of them are put into their queues, and processed by the node that runs on the store, or else right here.
    Each is run again once: an interrupted replay is run again and continues. With APP and offline, the store is
    migrated to that application first.
    """
    if not (queues or rule or codes):
        raise click.UsageError("say what to run again: --queue, --rule or --error (--error '*' for all that failed)")
    if len(name) > NAME_LENGTH_MAX or not name.isprintable():
        raise click.UsageError(f"--name is one line of at most {NAME_LENGTH_MAX} characters")
    filters = Filters(queues=queues, rule=rule, codes=codes, since=since, until=until)
    spark = _ReplaySpark(pipeline, master, conf, place)
    node = running_node(place)
    if application and node is not None:
        raise StoreError("a node runs on the store, under its own application: leave APP out, or stop it first")
    if application and not dry_run:
        _migrate(application, spark)
    known = _program(place, application if dry_run else ())
    with open_for_reading(place) as store:
        work = _Work(store, known, filters, name, spark)
        Finder(known.plan, filters).check()
        if dry_run:
            with ExitStack() as opened:
                found = work.find(opened)
            _show_plan(found, work.before(found.select_newest()), filters, as_json)
            return 0
        found, report, numbers = work.run()
    _note_replay(place, filters, name, report)
    state = _wait_for_copies(node, work.watch, numbers, known, spark)
    _show(found, report, state, filters, as_json)
    targets = {each.queue for each in found.select_newest()}
    if node is None and report.stored and any([is_outgoing(known.plan.program, target) for target in targets]):
        _tell("what outgoing gateways are to send is sent when a node runs")
    return 1 if report.refused or state["failed"] else 0


def _note_replay(place: StoreLocation, filters: Filters, name: str, report: BulkReport) -> None:
    """Write the audit record."""
    subject = " ".join(
        [
            *[f"error {code}" for code in filters.codes],
            *[f"queue {queue}" for queue in filters.queues],
            *([f"rule {filters.rule}"] if filters.rule is not None else []),
        ]
    )
    details = {"name": name, "stored": report.stored, "known": report.known, "refused": dict(report.refused)}
    result = f"{format_count(report.stored, 'message')} run again"
    with open_for_writing(place) as target:
        target.note_audit(describe_action("replay", subject, who=name_of_operator(), details=details, result=result))


@dataclass(frozen=True, slots=True)
class _ReplaySpark:
    """The options for Spark."""

    pipeline: PipelineName
    master: str
    conf: tuple[SparkOption, ...]
    place: StoreLocation

    def is_for(self, count: int, minimum: int) -> bool:
        return self.pipeline == "spark" or (self.pipeline == "auto" and count >= minimum)


@dataclass(frozen=True, slots=True)
class _Known:
    """The application that messages are run again under."""

    plan: Plan
    files: Mapping[str, str]
    digest: str


def _program(place: StoreLocation, application: Sequence[str]) -> _Known:
    with open_for_reading(place) as store:
        _, digest, files = program_on(store, place)
    if not application:
        return _Known(make_plan(load_program_texts(files)), files, digest)
    program = load_program(application)
    return _Known(make_plan(program), {str(Path(f).resolve()): text for f, text in program.files().items()}, digest)


class _Work:
    """Finding messages and storing their copies."""

    def __init__(self, store: Store, known: _Known, filters: Filters, name: str, spark: _ReplaySpark) -> None:
        self._store = store
        self._known = known
        self._filters = filters
        self._name = name
        self._spark = spark
        self._last = store.snapshot()
        self._on_spark: SparkBackend | None = None
        self.watch = uuid.uuid4().hex

    def run(self) -> tuple[SearchResult, BulkReport, list[int]]:
        """Return what was found, what was done, and the numbers of the copies that wait to be processed."""
        report = BulkReport()
        with ExitStack() as opened:
            found = self.find(opened)
            newest = found.select_newest()
            backend = self._choose_backend(opened, len(newest), SPARK_COPIES_MIN)
            target = opened.enter_context(open_for_writing(self._spark.place))
            with progress("storing copies", len(newest)) as advance:
                numbers = self._replay(target, advance).run(backend, newest, report)
        return found, report, numbers

    def find(self, opened: ExitStack) -> SearchResult:
        backend = self._choose_backend(opened, self._last, SPARK_NUMBERS_MIN)
        with progress("looking for messages", self._last) as advance:
            return backend.find(self._filters, self._last, advance)

    def before(self, found: Sequence[FoundMessage]) -> int:
        return len(self._replay(None, lambda done: None).find_known(found))

    def _replay(self, target: Any, advance: Callable[[int], None]) -> Replay:
        return Replay(
            store=self._store,
            target=target,
            digest=self._known.digest,
            name=self._name,
            watch=self.watch,
            advance=advance,
        )

    def _choose_backend(self, opened: ExitStack, count: int, minimum: int) -> ReplayBackend:
        """Return Spark if there is enough to do or it runs already, else a worker process."""
        files, place = self._known.files, self._spark.place
        if self._on_spark is None and self._spark.is_for(count, minimum):
            running = opened.enter_context(start_command_spark(self._spark.master, self._spark.conf, place.folder))
            self._on_spark = SparkBackend(running.session, ProgramOnStore.of(files, place.where))
        if self._on_spark is not None:
            return self._on_spark
        evaluator = ProcessEvaluator(files, place.where)
        opened.callback(evaluator.close)
        return LocalBackend(self._known.plan, self._store, evaluator)


def _migrate(application: Sequence[str], spark: _ReplaySpark) -> None:
    """Make this the application of an offline store, as a run would."""
    program = load_program(application)
    migrate_with_progress(program, spark.place, (), spark.pipeline, spark.master, spark.conf)


def _wait_for_copies(
    node: RemoteNode | None, watch: str, numbers: Sequence[int], known: _Known, spark: _ReplaySpark
) -> dict[str, Any]:
    """Wait until the copies are processed. Return their outcomes."""
    if node is not None:
        node.watch(watch, numbers)
        return wait_for_watched(node, watch)
    if not numbers:
        return Watch().state()
    program = load_program_texts(known.files)
    here = Node(
        program,
        spark.place.where,
        keep=KEEP,
        tell=_tell,
        pipeline=spark.pipeline,
        master=spark.master,
        spark_options=dict(spark.conf),
    )
    try:
        here.watch(watch, numbers)
        here.start()
        return _wait(lambda: _expect_running(here).read_watch(watch))
    finally:
        here.stop()


def wait_for_watched(node: RemoteNode, watch: str) -> dict[str, Any]:
    """Wait until a node has processed what it watches, unless that waits because something is paused."""
    return _wait(lambda: node.read_watch(watch))


def _expect_running(node: Node) -> Node:
    if node.failure is not None:
        raise StoreError(f"processing has stopped: {node.failure}")
    return node


def _wait(ask: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    state = ask()
    total = state["waiting"] + state["processed"]
    done, fault = 0, None
    with progress("processing", total) as advance:
        while True:
            advance(state["processed"] - done)
            done = state["processed"]
            if not state["waiting"]:
                return state
            if state.get("paused"):
                _tell(f"{state['waiting']:,} of them wait, because something is paused: {', '.join(state['paused'])}")
                return state
            if state["fault"] not in (None, fault):
                fault = state["fault"]
                _tell(f"the node has trouble and tries again: {fault}")
            time.sleep(LOOK_EVERY_SECONDS)
            state = ask()


# --- what is said ----------------------------------------------------------------------------------------------------


def _show_plan(found: SearchResult, before: int, filters: Filters, as_json: bool) -> None:
    newest = found.select_newest()
    groups = Counter([(item.queue, item.rule, item.code) for item in newest])
    if as_json:
        counts = [{"queue": q, "rule": r, "code": c, "messages": count} for (q, r, c), count in groups.items()]
        show_json(
            {
                "found": len(newest),
                "known": before,
                "groups": counts,
                "messages": [str(item.first) for item in newest],
                "impossible": dict(found.impossible),
            }
        )
        return
    click.echo(f"{format_count(len(newest) - before, 'message')} would be run again{_describe_count(before)}")
    for (queue, rule, code), count in sorted(groups.items(), key=lambda group: -group[1]):
        by = f", rule {rule}" if rule else ""
        click.echo(f"  {count:,} of queue {queue}{by}{f', {code}' if code else ''}")
    if newest:
        shown = ", ".join([str(item.first) for item in newest[:SHOWN_MAX]])
        click.echo(f"  {'message' if len(newest) == 1 else 'messages'} {shown}{', …' * (len(newest) > SHOWN_MAX)}")
    _show_impossible(found, filters)


def _show(found: SearchResult, report: BulkReport, state: Mapping[str, Any], filters: Filters, as_json: bool) -> None:
    if as_json:
        errors = [{"code": code, "rule": rule, "messages": count} for code, rule, count in state["errors"]]
        show_json(
            {
                "found": len(found.select_newest()),
                "stored": report.stored,
                "known": report.known,
                "refused": dict(report.refused),
                "impossible": dict(found.impossible),
                "processed": state["processed"],
                "failed": state["failed"],
                "errors": errors,
            }
        )
        return
    fine = state["processed"] - state["failed"]
    outcome = f": {fine:,} processed without errors" if state["processed"] else ""
    outcome += f", {state['failed']:,} failed again" if state["failed"] else ""
    click.echo(f"{format_count(report.stored, 'message')} run again{_describe_count(report.known)}{outcome}")
    for code, rule, count in state["errors"]:
        click.echo(f"  {format_count(count, 'error')} {code}{f' in rule {rule}' if rule else ''}")
    for seq, code, rule in state["examples"]:
        click.echo(f"  message {seq}: {code}{f' in rule {rule}' if rule else ''}", err=True)
    if report.refused:
        kinds = ", ".join([f"{count:,} {kind}" for kind, count in sorted(report.refused.items())])
        click.echo(f"{format_count(report.refused.total(), 'message')} not taken by the application: {kinds}")
        for example in report.examples:
            click.echo(f"  {example}", err=True)
    _show_impossible(found, filters)


def _describe_count(count: int) -> str:
    return f", {count:,} run again before (--name NAME runs them once more)" if count else ""


def _show_impossible(found: SearchResult, filters: Filters) -> None:
    for reason, count in sorted(found.impossible.items()):
        click.echo(f"{format_count(count, 'message')} cannot be run again: {reason}")
    if filters.codes and not found.found and not found.impossible and found.seen:
        patterns = [code for code in filters.codes if code not in found.seen]
        if patterns:
            _tell(describe_unknown("error", patterns[0], sorted(found.seen)))


def _tell(line: str) -> None:
    click.echo(line, err=True)
