"""`demaq try`: what an application would do with one message. Nothing is stored."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from demaq.cli.applications import loaded, show
from demaq.cli.evaluator_options import evaluator_option
from demaq.cli.example_first import ExampleFirst
from demaq.cli.properties import given_properties
from demaq.cli.standard_input import STDIN, read_stdin
from demaq.documents import Document, parse_document
from demaq.errors import MessageError, ProgramError
from demaq.language.diagnostics import Diagnostic
from demaq.language.naming.suggestions import unknown
from demaq.language.program import Program
from demaq.messages import Message, PropertyValue
from demaq.rounds.compiled import CompiledProgram, compile_program
from demaq.rounds.evaluator import SaxonEvaluator
from demaq.rounds.memory_state import MemoryState
from demaq.rounds.outcomes import Enqueued, Outcome, RuleError
from demaq.rounds.simple.settings import EvaluatorName, native_settings
from demaq.scheduler.intake import explicit_properties

COLLECTIONS = "collections"


@click.command(
    name="try",
    cls=ExampleFirst,
    example="""
    $ demaq try orders.dmq --queue orders order.xml
    message of queue orders: orderID = 17
    rule confirm fires
      enqueue into customer
        <confirmation><orderID>17</orderID></confirmation>
    """,
)
@click.argument("application", nargs=-1, required=True, metavar="APP... MESSAGE.xml")
@click.option("--queue", required=True, metavar="QUEUE", help="The queue the message arrives in.")
@click.option(
    "--state",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="Messages that are there already: DIR/QUEUE/*.xml in the order of their names, DIR/collections/NAME/*.xml.",
)
@click.option("--with", "properties", multiple=True, metavar="NAME=VALUE", help="Set a property of the message.")
@click.option("--now", metavar="DATETIME", help="What the time is; by default what the clock says.")
@evaluator_option
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def try_message(
    application: tuple[str, ...],
    queue: str,
    state: Path | None,
    properties: tuple[str, ...],
    now: str | None,
    evaluator: EvaluatorName,
    as_json: bool,
) -> int:
    """Show which rules fire on a message and what they would do.

    APP is a .dmq file or a folder of them; MESSAGE.xml comes last, `-` reads either from standard input. Exit 1 when
    the message is refused or a rule fails.
    """
    if len(application) < 2:
        raise click.UsageError("give the application and, last, a message")
    *paths, message_file = application
    if STDIN in paths and message_file == STDIN:
        raise click.UsageError("standard input is the application or the message, not both")
    program = loaded(paths)
    if queue not in program.queues:
        raise click.UsageError(unknown("queue", queue, program.queues))
    explicit = _explicit(program, queue, properties)
    body = read_stdin() if message_file == STDIN else Path(message_file).read_bytes()
    try:
        compiled = compile_program(program)
    except ProgramError as error:
        show([Diagnostic.of(item) for item in (error, *error.others)])
        return 1
    rules = SaxonEvaluator(compiled, simple=native_settings(evaluator).is_native)
    time = _time(now)
    memory = MemoryState(rules, {s.name: s.property for s in program.slicings.values()}, time)
    if state is not None:
        _load(state, memory, program)
    try:
        message = memory.add(queue, parse_document(body), explicit)
    except MessageError as error:
        return _refused(queue, error, as_json)
    outcome = rules.evaluate([message], memory, time)[0]
    if as_json:
        click.echo(json.dumps(_json(compiled, message, outcome), indent=2, ensure_ascii=False))
    else:
        click.echo(_text(compiled, message, outcome))
    return 1 if outcome.errors else 0


# --- what is there ---------------------------------------------------------------------------------------------------


def _explicit(program: Program, queue: str, properties: tuple[str, ...]) -> dict[str, PropertyValue]:
    try:
        return explicit_properties(program, queue, given_properties(properties))
    except MessageError as error:
        raise click.UsageError(error.message) from None


def _time(now: str | None) -> datetime:
    if now is None:
        return datetime.now(UTC)
    try:
        time = datetime.fromisoformat(now)
    except ValueError:
        raise click.UsageError(f"--now takes a time such as 2026-05-01T12:00:00Z, not {now}") from None
    return time.astimezone(UTC) if time.tzinfo else time.replace(tzinfo=UTC)


def _load(folder: Path, memory: MemoryState, program: Program) -> None:
    """Messages and collections from a folder. What no queue can take is an error of the folder."""
    for inner in sorted(folder.iterdir()):
        if not inner.is_dir():
            continue
        if inner.name in program.queues:
            for file in sorted(inner.glob("*.xml")):
                try:
                    memory.add(inner.name, _document(file))
                except MessageError as error:
                    raise click.ClickException(f"{file}: {error.message}") from None
        elif inner.name == COLLECTIONS:
            for collection in sorted(inner.iterdir()):
                for file in sorted(collection.glob("*.xml")):
                    memory.add_to_collection(collection.name, _document(file))
        else:
            raise click.ClickException(f"{inner}: there is no queue {inner.name}")


def _document(file: Path) -> Document:
    try:
        return parse_document(file.read_bytes())
    except MessageError as error:
        raise click.ClickException(f"{file}: {error.message}") from None


# --- what it says ----------------------------------------------------------------------------------------------------


def _refused(queue: str, error: MessageError, as_json: bool) -> int:
    if as_json:
        click.echo(json.dumps({"refused": {"kind": error.kind, "description": error.message}}, indent=2))
    else:
        click.echo(f"queue {queue} refuses the message ({error.kind}): {error.message}", err=True)
    return 1


def _own_properties(message: Message) -> dict[str, PropertyValue]:
    return {name: value for name, value in message.properties.items() if not name.startswith("demaq:")}


def _text(compiled: CompiledProgram, message: Message, outcome: Outcome) -> str:
    known = [f"{name} = {value.text}" for name, value in _own_properties(message).items()]
    lines = [f"message of queue {message.queue}" + (f": {', '.join(known)}" if known else "")]
    errors = {error.rule: error for error in outcome.errors}
    for plan in compiled.plan.queues[message.queue].rules:
        name = plan.rule.name
        if name in errors:
            lines += _error_lines(errors[name])
        elif name in outcome.fired:
            lines.append(f"rule {name} fires")
            lines += _action_lines(outcome, name)
        elif any([action.rule == name for action in outcome.actions]):
            lines.append(f"rule {name} does not fire, and its else acts")
            lines += _action_lines(outcome, name)
        else:
            lines.append(f"rule {name} does not fire")
    return "\n".join(lines)


def _action_lines(outcome: Outcome, rule: str) -> list[str]:
    lines: list[str] = []
    for action in outcome.actions:
        if action.rule != rule:
            continue
        if isinstance(action, Enqueued):
            known = [f"{name} = {value.text}" for name, value in action.properties.items()]
            lines.append(f"  enqueue into {action.queue}" + (f" with {', '.join(known)}" if known else ""))
            lines += [f"    {line}" for line in action.document.text.splitlines()]
        else:
            lines.append(f'  reset slicing {action.slicing}, key "{action.key}"')
    return lines or ["  no action"]


def _error_lines(error: RuleError) -> list[str]:
    where = f"{error.at}: " if error.at is not None else ""
    return [f"rule {error.rule} fails ({error.kind})", f"  {where}{error.code}: {error.description}"]


def _json(compiled: CompiledProgram, message: Message, outcome: Outcome) -> dict[str, Any]:
    return {
        "queue": message.queue,
        "properties": _properties(_own_properties(message)),
        "rules": [plan.rule.name for plan in compiled.plan.queues[message.queue].rules],
        "fired": outcome.fired,
        "actions": [_action(action) for action in outcome.actions],
        "errors": [
            {
                "rule": error.rule,
                "kind": error.kind,
                "code": error.code,
                "description": error.description,
                "file": error.at.file if error.at else None,
                "line": error.at.line if error.at else None,
                "column": error.at.column if error.at else None,
            }
            for error in outcome.errors
        ],
    }


def _properties(values: dict[str, PropertyValue]) -> dict[str, dict[str, str]]:
    return {name: {"type": f"xs:{value.type}", "value": value.text} for name, value in values.items()}


def _action(action: Any) -> dict[str, Any]:
    if isinstance(action, Enqueued):
        return {
            "rule": action.rule,
            "enqueue": action.document.text,
            "into": action.queue,
            "properties": _properties(dict(action.properties)),
        }
    return {"rule": action.rule, "reset": action.slicing, "key": action.key}
