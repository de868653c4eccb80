"""`demaq try`: what an application would do with one message. Nothing is stored."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from demaq.cli.applications import load_or_exit
from demaq.cli.command_classes import ExampleFirst
from demaq.cli.parameters import STDIN, parse_properties, read_stdin
from demaq.cli.shared_options import evaluator_option
from demaq.cli.stored_state import StoredState, recompute_message
from demaq.cli.stores import open_for_reading, parse_number, program_of, store_option, terminal_width
from demaq.documents import Document, parse_document
from demaq.engine.intake import type_properties
from demaq.engine.namespace_watch import missed_by_properties, missed_by_rules
from demaq.errors import MessageError
from demaq.evaluation.native.native_settings import EvaluatorName, native_settings
from demaq.evaluation.outcomes import Enqueued, Outcome, StateReader
from demaq.evaluation.saxon.compiled import CompiledProgram, compile_program
from demaq.evaluation.saxon.saxon_evaluator import SaxonEvaluator
from demaq.evaluation.state.memory_state import MemoryState
from demaq.language.analysis.missed_names import MissedName, read_vocabulary
from demaq.language.program.program import Program
from demaq.messages import Message, PropertyValue
from demaq.operations.json_values import as_json as to_json
from demaq.operations.why.rule_verdicts import RuleExaminer
from demaq.operations.why.verdict_text import write_cause, write_short
from demaq.operations.why.verdicts import RuleVerdict
from demaq.operations.why.why_message import find_long_queues
from demaq.store.location import StoreLocation
from demaq.store.protocol import StoredMessage
from demaq.store.sql_store import SqlStore
from demaq.suggestions import describe_unknown

COLLECTIONS = "collections"
RULES_SHOWN = 10
"""Of so many rules that do not fire it is said why."""
_IDLE = ("not-fired", "not-asked")


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
@click.argument("application", nargs=-1, required=True, metavar="APP... MESSAGE")
@click.option("--queue", metavar="QUEUE", help="The queue the message arrives in.")
@store_option
@click.option(
    "--state",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="Messages that are there already: DIR/QUEUE/*.xml in the order of their names, DIR/collections/NAME/*.xml.",
)
@click.option("--with", "properties", multiple=True, metavar="NAME=VALUE", help="Set a property of the message.")
@click.option("--now", metavar="DATETIME", help="What the time is; by default what the clock says.")
@click.option("-v", "--verbose", is_flag=True, help="Say of every rule that does not fire why.")
@evaluator_option
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def try_message(
    application: tuple[str, ...],
    queue: str | None,
    place: StoreLocation,
    state: Path | None,
    properties: tuple[str, ...],
    now: str | None,
    verbose: bool,
    evaluator: EvaluatorName,
    as_json: bool,
) -> int:
    """Show which rules fire on a message and what they would do.

    APP is a .dmq file or a folder of them; MESSAGE comes last: a file, or the number of a message in the store, which
    is tried on the messages there. `-` reads either from standard input. Exit 1 when the message is refused or a rule
    fails.
    """
    if len(application) < 2:
        raise click.UsageError("give the application and, last, a message")
    *paths, message_file = application
    if STDIN in paths and message_file == STDIN:
        raise click.UsageError("standard input is the application or the message, not both")
    program = load_or_exit(paths)
    is_stored = message_file.isascii() and message_file.isdigit() and not Path(message_file).exists()
    if is_stored and (queue is not None or state is not None):
        raise click.UsageError("a stored message has its queue, and the store is its state: no --queue and no --state")
    if not is_stored and queue is None:
        raise click.UsageError("say in which queue the message arrives: --queue QUEUE")
    if queue is not None and queue not in program.queues:
        raise click.UsageError(describe_unknown("queue", queue, program.queues))
    compiled = compile_program(program)
    rules = SaxonEvaluator(compiled, native=native_settings(evaluator).is_native)
    tried = _Tried(compiled, rules, properties, _time(now))
    if is_stored:
        with open_for_reading(place) as store:
            found = store.message(parse_number(message_file, "MESSAGE"))
            if found is None:
                raise click.ClickException(f"there is no message {message_file} in {place}, and no such file")
            if found.queue not in program.queues:
                raise click.ClickException(
                    f"message {found.seq}: {describe_unknown('queue', found.queue, program.queues)}"
                )
            refused, queue = tried.try_stored(store, found), found.queue
    else:
        assert queue is not None, "asked for above"
        refused = tried.try_file(queue, message_file, state)
    if refused is not None:
        return _print_refusal(queue, refused, as_json)
    if as_json:
        click.echo(json.dumps(_json(compiled, tried), indent=2, ensure_ascii=False))
    else:
        click.echo(_text(tried, verbose))
    return 1 if tried.outcome.errors else 0


class _Tried:
    """One message on its way through the rules."""

    message: Message
    outcome: Outcome
    verdicts: tuple[RuleVerdict, ...]

    def __init__(
        self, compiled: CompiledProgram, rules: SaxonEvaluator, properties: tuple[str, ...], now: datetime
    ) -> None:
        self._compiled = compiled
        self._program = compiled.plan.program
        self._rules = rules
        self._properties = properties
        self._now = now
        self._long_queues: frozenset[str] = frozenset()

    def try_file(self, queue: str, message_file: str, state: Path | None) -> MessageError | None:
        """Try a message on a folder of others. Return why it is refused, if it is."""
        explicit = _explicit(self._program, queue, self._properties)
        body = read_stdin() if message_file == STDIN else Path(message_file).read_bytes()
        memory = MemoryState(self._rules, {s.name: s.property for s in self._program.slicings.values()}, self._now)
        if state is not None:
            _load(state, memory, self._program)
        try:
            self.message = memory.add(queue, parse_document(body), explicit)
        except MessageError as error:
            return error
        self._evaluate(memory)
        return None

    def try_stored(self, store: SqlStore, stored: StoredMessage) -> MessageError | None:
        """Try a stored message on the state before it was processed. Return why it is refused, if it is."""
        explicit = _explicit(self._program, stored.queue, self._properties)
        snapshot = store.snapshot() if stored.processed is None else stored.processed - 1
        try:
            self.message = recompute_message(self._program, self._rules, stored, explicit, self._now)
        except MessageError as error:
            return error
        self._long_queues = find_long_queues(store)
        self._evaluate(StoredState(self._program, program_of(store), self._rules, store, snapshot))
        return None

    def _evaluate(self, state: StateReader) -> None:
        self.outcome = self._rules.evaluate([self.message], state, self._now)[0]
        self.verdicts = RuleExaminer(
            self._rules, self.message, state, self._now, self._long_queues, self.outcome
        ).examine()

    def missed_by_properties(self) -> list[tuple[str, MissedName]]:
        """Return names that miss an element of the message for its namespace: of properties that are absent."""
        vocabulary = read_vocabulary(self.message.document.tree.getroot())
        queue = self.message.queue
        absent = [p.name for p in self._program.properties_of(queue) if p.name not in self.message.properties]
        found = missed_by_properties(self._program, queue, absent, vocabulary)
        return [(f"property {name} is absent", missed) for name, missed in found]

    def missed_by_rules(self) -> list[tuple[str, MissedName]]:
        """Return the same of rules that do nothing."""
        vocabulary = read_vocabulary(self.message.document.tree.getroot())
        idle = {verdict.rule for verdict in self.verdicts if verdict.result in ("not-fired", "not-asked")}
        rules = [plan.rule for plan in self._compiled.plan.queues[self.message.queue].rules if plan.rule.name in idle]
        return [
            (f"rule {rule.name} does not fire", missed)
            for rule, missed in missed_by_rules(self._program, rules, vocabulary)
        ]


# --- what is there ---------------------------------------------------------------------------------------------------


def _explicit(program: Program, queue: str, properties: tuple[str, ...]) -> dict[str, PropertyValue]:
    try:
        return type_properties(program, queue, parse_properties(properties))
    except MessageError as error:
        raise click.UsageError(error.message) from None


def _time(now: str | None) -> datetime:
    if now is None:
        return datetime.now(UTC)
    try:
        time = datetime.fromisoformat(now)
        return time.astimezone(UTC) if time.tzinfo else time.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        raise click.UsageError(f"--now takes a time such as 2026-05-01T12:00:00Z, not {now}") from None


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


def _print_refusal(queue: str, error: MessageError, as_json: bool) -> int:
    if as_json:
        click.echo(json.dumps({"refused": {"kind": error.kind, "description": error.message}}, indent=2))
    else:
        click.echo(f"queue {queue} refuses the message ({error.kind}): {error.message}", err=True)
    return 1


def _own_properties(message: Message) -> dict[str, PropertyValue]:
    return {name: value for name, value in message.properties.items() if not name.startswith("demaq:")}


def _text(tried: _Tried, verbose: bool) -> str:
    message, width = tried.message, terminal_width()
    known = [f"{name} = {value.text}" for name, value in _own_properties(message).items()]
    lines = [f"message of queue {message.queue}" + (f": {', '.join(known)}" if known else "")]
    active: list[str] = []
    idle: list[str] = []
    left_out = 0
    # Rules that were not asked are of interest if nothing else happens.
    shown = RULES_SHOWN if any([verdict.result not in _IDLE for verdict in tried.verdicts]) else 2 * RULES_SHOWN
    for verdict in tried.verdicts:
        if verdict.result not in _IDLE:
            active += _active_lines(tried.outcome, verdict, width)
        elif verbose or (len(idle) < shown and (verdict.result == "not-fired" or shown > RULES_SHOWN)):
            idle += ["\n".join(write_short(verdict, "tried", width))]
        else:
            left_out += 1
    if not active:
        active.append("no rule fires" if tried.verdicts else "no rule is given the message")
    lines += [*active, *idle]
    for about, each in tried.missed_by_properties():
        lines += [f"{about}: {each.words} the message", f"  {each.asked.at}", f"  hint: {each.hint}"]
    if left_out:
        further = "further rule does" if left_out == 1 else "further rules do"
        lines.append(f"{left_out} {further} not fire: -v shows why")
    return "\n".join(lines)


def _active_lines(outcome: Outcome, verdict: RuleVerdict, width: int) -> list[str]:
    """Return what a rule does that fires, acts or fails."""
    if verdict.failure is not None:
        where = f"{verdict.failure.at}: " if verdict.failure.at is not None else ""
        head = f"rule {verdict.rule} fails ({verdict.failure.kind})"
        return [head, f"  {where}{verdict.failure.code}: {verdict.failure.description}"]
    if verdict.result == "else":
        return [f"rule {verdict.rule} does not fire, and its else acts", *_action_lines(outcome, verdict.rule)]
    lines = [f"rule {verdict.rule} fires", *_action_lines(outcome, verdict.rule)]
    return [*lines, *[line for cause in verdict.causes for line in write_cause(cause, "  ", width)]]


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


def _json(compiled: CompiledProgram, tried: _Tried) -> dict[str, Any]:
    message, outcome = tried.message, tried.outcome
    missed = [*tried.missed_by_properties(), *tried.missed_by_rules()]
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
        "namespaces": [
            {
                "about": about,
                "name": each.asked.name[1],
                "namespace": each.asked.name[0],
                "in_message": each.namespace,
                "hint": each.hint,
                "file": each.asked.at.file,
                "line": each.asked.at.line,
                "column": each.asked.at.column,
            }
            for about, each in missed
        ],
        "why": to_json([verdict for verdict in tried.verdicts if verdict.causes or verdict.reason]),
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
