"""`demaq requeue`: put the messages that errors are about into their queues again."""

from __future__ import annotations

from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from demaq.bulk.message_search import FoundMessage
from demaq.cli.command_classes import ExampleFirst
from demaq.cli.message_selection import expect_selection, make_selection, matching, selection_options
from demaq.cli.parameters import STDIN, read_stdin
from demaq.cli.pause import why_option
from demaq.cli.progress_bar import progress
from demaq.cli.replay import wait_for_watched
from demaq.cli.stores import (
    format_count,
    json_option,
    open_for_reading,
    open_for_writing,
    show_json,
    store_option,
    tell,
)
from demaq.compiler.planner import make_plan
from demaq.control.client import RemoteNode
from demaq.evaluation.workers.process import ProcessEvaluator
from demaq.language.loader import load_program_texts
from demaq.operations.audit import name_of_operator
from demaq.operations.requeue import RequeuedMessage, Requeuer, RequeueReport
from demaq.operations.search import STATEMENT_SECONDS_MAX
from demaq.store.location import StoreLocation
from demaq.store.opening import program_on

SHOWN_MAX = 10


@click.command(cls=ExampleFirst, example="$ demaq requeue 41 --body repaired.xml --store orders")
@click.argument("ids", nargs=-1, metavar="[ID...]")
@selection_options
@click.option(
    "--body",
    type=click.Path(path_type=Path, allow_dash=True),
    metavar="FILE",
    help="Another text for the message, from a file; - is standard input. For one error.",
)
@click.option("--all-rules", is_flag=True, help="Let all rules act on it, not only the one that has failed.")
@click.option("--again", is_flag=True, help="Also those that were requeued before.")
@click.option("--dry-run", is_flag=True, help="Show what would be requeued, and change nothing.")
@why_option
@store_option
@json_option
def requeue(
    ids: tuple[str, ...],
    body: Path | None,
    all_rules: bool,
    again: bool,
    dry_run: bool,
    why: str,
    place: StoreLocation,
    as_json: bool,
    **conditions: Any,
) -> int:
    """Put the messages that errors are about into their queues again, after what was wrong is repaired.

    The ids are those of error messages; conditions select among all that are stored. Each is a new message with the
    property demaq:replayOf, which names the first one. A running node processes them, and what fails again is reported.
    """
    selection = make_selection(ids, **conditions)
    if selection.is_empty:
        raise click.UsageError("say which errors: their ids, or a condition such as --error '*'")
    text = None if body is None else read_stdin() if str(body) == STDIN else body.read_bytes()
    with ExitStack() as opened:
        store = opened.enter_context(open_for_reading(place))
        matches = opened.enter_context(matching(selection, place))
        store.limit_statements(STATEMENT_SECONDS_MAX)
        selection = expect_selection(store, selection)
        _, digest, files = program_on(store, place)
        evaluator = ProcessEvaluator(files, place.where)
        opened.callback(evaluator.close)
        requeuer = Requeuer(store, make_plan(load_program_texts(files)), digest, evaluator)
        with progress("looking for errors", store.snapshot()) as advance:
            found, impossible = requeuer.find(selection, matches, advance)
        if dry_run:
            _show_plan(found, impossible, as_json)
            return 0
        node = opened.enter_context(open_for_writing(place))
        with progress("requeuing", len(found)) as advance:
            report = requeuer.requeue(
                node,
                selection,
                found,
                impossible,
                who=name_of_operator(),
                why=why,
                body=text,
                all_rules=all_rules,
                again=again,
                now=datetime.now(UTC),
                advance=advance,
            )
        is_running = isinstance(node, RemoteNode)
        state = wait_for_watched(node, report.watch) if isinstance(node, RemoteNode) and report.count else None
    _show(report, state, as_json)
    if report.count and not is_running:
        tell("they are processed when a node runs")
    refused = any([each.message is None for each in report.requeued])
    return 1 if refused or (state is not None and state["failed"]) else 0


def _show_plan(found: list[FoundMessage], impossible: dict[str, int], as_json: bool) -> None:
    if as_json:
        errors = [{"error": str(f.seq), "original": str(f.first), "queue": f.queue, "rule": f.rule} for f in found]
        show_json({"errors": errors, "impossible": impossible})
        return
    click.echo(f"{format_count(len(found), 'message')} would be requeued")
    for each in found[:SHOWN_MAX]:
        click.echo(f"  message {each.first} of queue {each.queue}, for error {each.seq}")
    for reason, count in sorted(impossible.items()):
        click.echo(f"{format_count(count, 'message')} cannot be requeued: {reason}")


def _encode(each: RequeuedMessage) -> dict[str, Any]:
    return {
        "error": str(each.error),
        "original": str(each.original),
        "queue": each.queue,
        "message": str(each.message) if each.message is not None else None,
        "reason": each.reason,
        "new": each.is_new,
    }


def _show(report: RequeueReport, state: dict[str, Any] | None, as_json: bool) -> None:
    if as_json:
        results = {"processed": state["processed"], "failed": state["failed"]} if state is not None else {}
        show_json(
            {
                "requeued": report.count,
                "messages": [_encode(each) for each in report.requeued],
                "impossible": report.impossible,
                "reasons": list(report.reasons),
                "audit": report.audit,
                **results,
            }
        )
        return
    outcome = ""
    if state is not None:
        outcome = f": {state['processed'] - state['failed']:,} processed without errors"
        outcome += f", {state['failed']:,} failed again" if state["failed"] else ""
    click.echo(f"{format_count(report.count, 'message')} requeued{outcome}")
    for each in report.requeued[:SHOWN_MAX]:
        new = f"message {each.message}" if each.message is not None else "not requeued"
        reason = f" ({each.reason})" if each.reason is not None else ""
        click.echo(f"  error {each.error}, message {each.original} of {each.queue}: {new}{reason}")
    if report.impossible:
        click.echo(f"{format_count(report.impossible, 'message')} cannot be requeued: {'; '.join(report.reasons)}")
