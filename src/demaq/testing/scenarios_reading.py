"""From a file of scenarios to values, checked against the application it is about.

All mistakes of a file are found in one run: unknown keys and names, values of the wrong shape, XML that is not
well-formed, files that are not there. A scenario that can be read can be run.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from glob import glob
from pathlib import Path
from typing import get_args

from demaq.configuration import ConfigurationReader, Table, Value
from demaq.documents import parse_document
from demaq.errors import ERROR_KINDS, MessageError, ProgramError
from demaq.language.program.program import Program
from demaq.source import Source, SourceLocation
from demaq.system_properties import SYSTEM_PROPERTIES, is_system_property, transport_properties
from demaq.testing.scenarios_steps import (
    Arrives,
    Crash,
    Expected,
    ExpectError,
    ExpectNoErrors,
    ExpectQueue,
    ExpectRefusal,
    ExpectSlice,
    ExpectTimers,
    Look,
    Passes,
    Scenario,
    ScenarioFile,
    ScenarioMessage,
    Step,
    Takes,
    Wanted,
    seconds_of,
)
from demaq.testing.scenarios_xml import WILDCARDS, read_body
from demaq.yaml_values import parse_yaml

LOOKS: tuple[Look, ...] = get_args(Look)
STEPS = ("arrives", "refused", "passes", "crash", "takes", "expect")
SUBJECTS = ("queue", "slice", "error", "no errors", "timers")
BESIDE = "paths are relative to the folder of the scenarios"
MANNERS = ("in any order", "whitespace")


class ScenarioError(ProgramError):
    """A file of scenarios is not what the format asks for."""

    code = "DQ9301"


def read_scenarios(path: str | os.PathLike[str], program: Program) -> ScenarioFile:
    """Return the scenarios of a file. Raises the first mistake as a ScenarioError; its `others` are the rest."""
    file = os.fspath(path)
    try:
        text = Path(file).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ScenarioError(f"{file} is not UTF-8") from None
    reader = ConfigurationReader(Source(text.removeprefix("\ufeff"), file), scalars_are_text=True)
    found = _ScenarioReader(reader, program, Path(file).parent).read()
    problems = sorted(reader.problems, key=lambda problem: problem.at.start)
    if problems:
        mistakes = [ScenarioError(problem.message, problem.at, problem.hint) for problem in problems]
        mistakes[0].others = tuple(mistakes[1:])
        raise mistakes[0]
    return found


def one_or_more(value: Value) -> list[Value]:
    """Return the items of a list; anything else is the only item."""
    return value.content if isinstance(value.content, list) else [value]


class _ScenarioReader:
    def __init__(self, reader: ConfigurationReader, program: Program, folder: Path) -> None:
        self._file = reader
        self._program = program
        self._folder = folder

    # the file

    def read(self) -> ScenarioFile:
        source = self._file.source
        root = parse_yaml(self._file)
        if root is None:
            if not self._file.problems:
                self._file.report(SourceLocation(source, 0, 0), 'the file is empty; it needs the key "scenarios"')
            return ScenarioFile(file=source.file, scenarios=())
        table = self._file.table(root, "the file", ["scenarios"], ["collections"])
        shared = self._collections(table)
        scenarios: dict[str, Scenario] = {}
        for node in self._items(table.get("scenarios"), "scenarios"):
            scenario = self._scenario(node, shared)
            if scenario.name in scenarios:
                self._file.report(scenario.at, f'a scenario named "{scenario.name}" is there already')
            scenarios[scenario.name] = scenario
        return ScenarioFile(file=source.file, scenarios=tuple(scenarios.values()))

    def _scenario(self, node: Value, shared: Mapping[str, tuple[bytes | str, ...]]) -> Scenario:
        table = self._file.table(node, "a scenario", ["name", "steps"], ["errors", "collections", "begins"])
        steps: list[Step] = []
        for step in self._items(table.get("steps"), "steps"):
            steps += self._step(step)
        name = self._file.text(table.get("name"), "name")
        allowed = self._file.one_of(table.get("errors"), "errors", ["allowed"])
        return Scenario(
            at=table["name"].at if "name" in table else node.at,
            name=name or "",
            steps=tuple(steps),
            errors_allowed=allowed is not None,
            collections={**shared, **self._collections(table)},
            begins=self._time(table.get("begins")),
        )

    def _items(self, value: Value | None, what: str) -> list[Value]:
        """Return the items of a list that must not be empty."""
        items = self._file.list(value, what)
        if items == [] and value is not None:
            self._file.report(value.at, f"{what} must have items: lines that start with -")
        return items or []

    def _time(self, key: Value | None) -> datetime | None:
        text = self._file.text(key, "begins")
        if key is None or text is None:
            return None
        try:
            time = datetime.fromisoformat(text)
            return time.astimezone(UTC) if time.tzinfo is not None else time.replace(tzinfo=UTC)
        except (ValueError, OverflowError):
            self._file.report(key.at, "begins must be a time such as 2026-05-01T12:00:00Z")
            return None

    def _collections(self, table: Table) -> dict[str, tuple[bytes | str, ...]]:
        found: dict[str, tuple[bytes | str, ...]] = {}
        for name, key in (self._file.any_table(table.get("collections"), "collections") or {}).items():
            declared = self._program.collections
            if declared and name not in declared:
                self._file.report_unknown(key.key_at, f'there is no collection "{name}"', name, declared, "collections")
            documents: list[bytes | str] = []
            for item in one_or_more(key):
                documents += self._documents(item, f"collection {name}")
            found[name] = tuple(documents)
        return found

    def _documents(self, node: Value, what: str) -> list[bytes | str]:
        """Return documents that are written as XML, or as the path of a file, a pattern of paths, or a folder."""
        text = self._file.text(node, what)
        if text is None:
            return []
        place = node.at
        if text.lstrip().startswith("<"):
            return [text] if self._well_formed(text, place) else []
        paths = [self._folder / text]
        if paths[0].is_dir():
            paths = sorted(paths[0].glob("*.xml"))
        elif any([letter in text for letter in "*?["]):
            paths = sorted([self._folder / name for name in glob(text, root_dir=self._folder)])
        if not paths:
            self._file.report(place, f"there are no files {text}", BESIDE)
        found = [self._read(path, place) for path in paths]
        return [body for body in found if body is not None and self._well_formed(body, place)]

    # steps

    def _step(self, node: Value) -> list[Step]:
        """Return the steps that one item of the list stands for: a list of expectations is several."""
        table = self._file.any_table(node, "a step")
        if table is None:
            return []
        for name, key in table.items():
            if name not in STEPS:
                self._file.report_unknown(key.key_at, f'"{name}" is not a step', name, STEPS, "steps")
        if len(table) != 1:
            names = ", ".join(table) or "none"
            self._file.report(node.at, f"a step has one key, this one has {len(table)}: {names}")
            return []
        ((name, key),) = table.items()
        match name:
            case "arrives":
                return self._arrives(key)
            case "refused":
                return self._each(key, self._refused)
            case "passes":
                return self._passes(key)
            case "crash":
                return self._crash(key)
            case "takes":
                return self._each(key, self._takes)
            case "expect":
                return self._each(key, self._expect)
        return []

    def _each(self, key: Value, read: Callable[[Value], list[Step]]) -> list[Step]:
        """Return one of them, or a list."""
        found: list[Step] = []
        for node in one_or_more(key):
            found += read(node)
        return found

    def _arrives(self, key: Value) -> list[Step]:
        messages: list[ScenarioMessage] = []
        for node in one_or_more(key):
            table = self._file.table(node, "arrives", ["queue"], ["body", "file", "properties"])
            incoming = self._incoming(table, node, "arrives", must_be_well_formed=True)
            messages += [incoming] if incoming is not None else []
        if not messages and not self._file.problems:
            self._file.report(key.at, "arrives needs a message")
        return [Arrives(at=key.key_at, messages=tuple(messages))]

    def _refused(self, node: Value) -> list[Step]:
        table = self._file.table(node, "refused", ["queue"], ["body", "file", "properties", "kind", "reason"])
        message = self._incoming(table, node, "refused", must_be_well_formed=False)
        kind = self._kind(table)
        reason = self._file.text(table.get("reason"), "reason")
        if message is None:
            return []
        return [ExpectRefusal(at=node.at, message=message, kind=kind, reason=reason)]

    def _incoming(self, table: Table, node: Value, step: str, must_be_well_formed: bool) -> ScenarioMessage | None:
        queue = self._queue(table)
        body = self._body(table, node, step, must_be_well_formed)
        properties: dict[str, str] = {}
        for name, key in self._properties(table).items():
            value = self._file.text(key, f"property {name}")
            if queue is not None:
                known = [item.name for item in self._program.properties_of(queue) if item.decl is not None]
                known += transport_properties(self._program.queues[queue].kind)
                if name not in known:
                    self._file.report_unknown(
                        key.key_at, f'queue {queue} has no property "{name}"', name, known, "properties"
                    )
            if value is not None:
                properties[name] = value
        if queue is None or body is None:
            return None
        return ScenarioMessage(queue=queue, body=body, properties=properties)

    def _passes(self, key: Value) -> list[Step]:
        text = self._file.text(key, "passes")
        if text is None:
            return []
        seconds = seconds_of(text)
        if seconds is None:
            hint = 'a time is written 1h 30m, 90 minutes, 3 days, or PT90M; a century at most, and no "months"'
            self._file.report(key.at, f'"{text}" is no length of time', hint)
            return []
        return [Passes(at=key.key_at, seconds=seconds, text=text)]

    def _crash(self, key: Value) -> list[Step]:
        if self._file.flag(key, "crash") is False:
            self._file.report(key.at, "crash must be true; leave the step out otherwise")
        return [Crash(at=key.key_at)]

    def _takes(self, node: Value) -> list[Step]:
        table = self._file.table(node, "takes", ["queue"], ["bodies", "count", *MANNERS])
        queue = self._queue(table)
        wanted = self._bodies_or_count(table, node, "takes", queue)
        if queue is None or wanted is None:
            return []
        return [Takes(at=node.at, queue=queue, wanted=wanted, any_order=self._any_order(table))]

    # expectations

    def _expect(self, node: Value) -> list[Step]:
        table = self._file.any_table(node, "expect")
        if table is None:
            return []
        subjects = [name for name in table if name in SUBJECTS]
        if len(subjects) != 1:
            known = (*SUBJECTS, *LOOKS, "key", "count", "bodies", *MANNERS)
            strange = [name for name in table if name not in known]
            for name in strange:
                self._file.report_unknown(table[name].key_at, f'"{name}" is not a key of expect', name, known, "keys")
            if strange:
                return []
            which = (
                "is about one of" if not subjects else f"cannot be about {' and '.join(subjects)} at once, only one of"
            )
            self._file.report(node.at, f"expect {which}: {', '.join(SUBJECTS)}")
            return []
        match subjects[0]:
            case "queue":
                return self._expect_queue(node)
            case "slice":
                return self._expect_slice(node)
            case "timers":
                key = self._file.table(node, "expect", ["timers"])["timers"]
                count = self._file.number(key, "timers")
                return [] if count is None else [ExpectTimers(at=node.at, count=count)]
            case "no errors":
                key = self._file.table(node, "expect", ["no errors"])["no errors"]
                if self._file.flag(key, "no errors") is False:
                    self._file.report(key.at, "no errors must be true; leave it out otherwise")
                return [ExpectNoErrors(at=node.at)]
            case _:
                key = self._file.table(node, "expect", ["error"])["error"]
                return self._each(key, self._expect_error)

    def _expect_queue(self, node: Value) -> list[Step]:
        table = self._file.table(node, "expect about a queue", ["queue"], [*LOOKS, *MANNERS])
        queue = self._queue(table)
        looks = [look for look in LOOKS if look in table]
        if not looks:
            self._file.report(node.at, f"expect about a queue needs one of: {', '.join(LOOKS)}")
        any_order = self._any_order(table)
        found: list[Step] = []
        for look in looks:
            wanted = self._wanted(table[look], look, queue, self._exact(table))
            if queue is not None and wanted is not None:
                at = table[look].key_at
                found.append(ExpectQueue(at=at, queue=queue, look=look, wanted=wanted, any_order=any_order))
        return found

    def _expect_slice(self, node: Value) -> list[Step]:
        table = self._file.table(node, "expect about a slice", ["slice", "key"], ["bodies", "count", *MANNERS])
        slicing = self._file.name(table["slice"], "slicing", self._program.slicings, "slicings")
        key = self._file.text(table.get("key"), "key")
        wanted = self._bodies_or_count(table, node, "expect about a slice", None)
        if slicing is None or key is None or wanted is None:
            return []
        at, any_order = node.at, self._any_order(table)
        return [ExpectSlice(at=at, slicing=slicing, key=key, wanted=wanted, any_order=any_order)]

    def _expect_error(self, node: Value) -> list[Step]:
        table = self._file.table(node, "error", [], ["queue", "kind", "rule", "code", "message contains"])
        rules = [rule.name for rule in self._program.rules]
        return [
            ExpectError(
                at=node.at,
                queue=self._queue(table),
                kind=self._kind(table),
                rule=self._file.name(table.get("rule"), "rule", rules, "rules"),
                code=self._file.text(table.get("code"), "code"),
                contains=self._file.text(table.get("message contains"), "message contains"),
            )
        ]

    # parts of steps

    def _queue(self, table: Table) -> str | None:
        return self._file.name(table.get("queue"), "queue", self._program.queues, "queues")

    def _kind(self, table: Table) -> str | None:
        return self._file.name(table.get("kind"), "kind of error", ERROR_KINDS, "kinds")

    def _any_order(self, table: Table) -> bool:
        return bool(self._file.flag(table.get("in any order"), "in any order"))

    def _exact(self, table: Table) -> bool:
        return self._file.one_of(table.get("whitespace"), "whitespace", ["exact"]) is not None

    def _properties(self, table: Table) -> Table:
        return self._file.any_table(table.get("properties"), "properties") or {}

    def _bodies_or_count(self, table: Table, node: Value, what: str, queue: str | None) -> Wanted | None:
        if ("bodies" in table) == ("count" in table):
            self._file.report(node.at, f"{what} needs either bodies or count")
            return None
        if "count" in table:
            return self._file.number(table["count"], "count")
        return self._wanted(table["bodies"], "bodies", queue, self._exact(table))

    def _wanted(self, key: Value, what: str, queue: str | None, exact: bool) -> Wanted | None:
        """Return a number of messages, one message, or a list of them."""
        if isinstance(key.content, str) and key.content.isascii() and key.content.isdigit():
            return self._file.number(key, what)
        found = [self._expected(item, what, queue, exact) for item in one_or_more(key)]
        complete = [item for item in found if item is not None]
        return tuple(complete) if len(complete) == len(found) else None

    def _expected(self, node: Value, what: str, queue: str | None, exact: bool) -> Expected | None:
        if isinstance(node.content, dict):
            message = f"a message of {what}"
            table = self._file.table(node, message, [], ["body", "file", "properties"])
            properties = self._expected_properties(table, queue)
            if "body" not in table and "file" not in table and "properties" in table:
                return Expected(body=None, properties=properties, exact=exact)
            text = self._body(table, node, message, must_be_well_formed=True)
            return None if text is None else self._expected_body(text, properties, exact)
        text = self._file.text(node, f"a message of {what}")
        if text is None or not self._well_formed(text, node.at, wildcard=True):
            return None
        return self._expected_body(text, {}, exact)

    def _expected_body(self, text: bytes | str, properties: Mapping[str, str | None], exact: bool) -> Expected:
        anything = isinstance(text, str) and text.strip() in WILDCARDS
        return Expected(body=None if anything else read_body(text, exact), properties=properties, exact=exact)

    def _expected_properties(self, table: Table, queue: str | None) -> dict[str, str | None]:
        found: dict[str, str | None] = {}
        for name, key in self._properties(table).items():
            if queue is not None and not is_system_property(name):
                known = [item.name for item in self._program.properties_of(queue)]
                known += transport_properties(self._program.queues[queue].kind)
                if name not in known:
                    names = [*known, *SYSTEM_PROPERTIES]
                    self._file.report_unknown(
                        key.key_at, f'queue {queue} has no property "{name}"', name, names, "properties"
                    )
            value = None if key.content is None else self._file.text(key, f"property {name}")
            if value is not None or key.content is None:
                found[name] = value
        return found

    # bodies

    def _body(self, table: Table, node: Value, what: str, must_be_well_formed: bool) -> bytes | str | None:
        if ("body" in table) == ("file" in table):
            self._file.report(node.at, f"{what} needs either body or file")
            return None
        key = table["body"] if "body" in table else table["file"]
        text = self._file.text(key, "body" if "body" in table else "file")
        if text is None:
            return None
        place = key.at
        body = text if "body" in table else self._read(self._folder / text, place)
        if body is None or (must_be_well_formed and not self._well_formed(body, place, wildcard=what != "arrives")):
            return None
        return body

    def _read(self, path: Path, place: SourceLocation) -> bytes | None:
        try:
            return path.read_bytes()
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            self._file.report(place, f"{path}: {reason}", BESIDE)
            return None

    def _well_formed(self, body: bytes | str, place: SourceLocation, wildcard: bool = False) -> bool:
        if wildcard and isinstance(body, str) and body.strip() in WILDCARDS:
            return True
        try:
            parse_document(body)
        except MessageError as error:
            self._file.report(place, f"not well-formed XML: {error.message}")
            return False
        return True
