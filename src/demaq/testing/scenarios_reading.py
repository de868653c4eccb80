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

import yaml

from demaq.documents import parse_document
from demaq.errors import ERROR_KINDS, MessageError
from demaq.language.program.program import Program
from demaq.source import SourceLocation
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
from demaq.testing.scenarios_yaml import ScenarioError, Table, YamlKey, YamlReader

LOOKS: tuple[Look, ...] = get_args(Look)
STEPS = ("arrives", "refused", "passes", "crash", "takes", "expect")
SUBJECTS = ("queue", "slice", "error", "no errors", "timers")
BESIDE = "files are looked for beside the scenarios"
MANNERS = ("in any order", "whitespace")


def read_scenarios(path: str | os.PathLike[str], program: Program) -> ScenarioFile:
    """Read a file of scenarios. Raises the first mistake as a ScenarioError; its `others` are the rest."""
    file = os.fspath(path)
    try:
        text = Path(file).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ScenarioError(f"{file} is not UTF-8") from None
    reading = _FileReader(YamlReader(text, file), program, Path(file).parent)
    found = reading.file(file)
    mistakes = sorted(reading.yaml.mistakes, key=lambda mistake: mistake.at.start if mistake.at else 0)
    if mistakes:
        mistakes[0].others = tuple(mistakes[1:])
        raise mistakes[0]
    return found


class _FileReader:
    def __init__(self, reader: YamlReader, program: Program, folder: Path) -> None:
        self.yaml = reader
        self.program = program
        self.folder = folder

    # the file

    def file(self, name: str) -> ScenarioFile:
        root = self.yaml.root()
        if root is None:
            if not self.yaml.mistakes:
                self.yaml.mistake(
                    SourceLocation(self.yaml.source, 0, 0), 'the file is empty; it needs the key "scenarios"'
                )
            return ScenarioFile(file=name, scenarios=())
        table = self.yaml.table(root, "the file", ["scenarios"], ["collections"])
        shared = self._collections(table)
        scenarios: dict[str, Scenario] = {}
        for node in self.yaml.list(table["scenarios"].value, "scenarios") if "scenarios" in table else ():
            scenario = self._scenario(node, shared)
            if scenario.name in scenarios:
                self.yaml.mistake(scenario.at, f'a scenario named "{scenario.name}" is there already')
            scenarios[scenario.name] = scenario
        return ScenarioFile(file=name, scenarios=tuple(scenarios.values()))

    def _scenario(self, node: yaml.Node, shared: Mapping[str, tuple[bytes | str, ...]]) -> Scenario:
        table = self.yaml.table(node, "a scenario", ["name", "steps"], ["errors", "collections", "begins"])
        steps: list[Step] = []
        for step in self.yaml.list(table["steps"].value, "steps") if "steps" in table else ():
            steps += self._step(step)
        name = self.yaml.text(table["name"], "name") if "name" in table else None
        allowed = (
            self.yaml.one_of(table["errors"], "value of errors", ["allowed"], "values") if "errors" in table else None
        )
        return Scenario(
            at=self.yaml.place(table["name"].value) if "name" in table else self.yaml.place(node),
            name=name or "",
            steps=tuple(steps),
            errors_allowed=allowed is not None,
            collections={**shared, **self._collections(table)},
            begins=self._time(table["begins"]) if "begins" in table else None,
        )

    def _time(self, key: YamlKey) -> datetime | None:
        text = self.yaml.text(key, "begins")
        if text is None:
            return None
        try:
            time = datetime.fromisoformat(text)
        except ValueError:
            self.yaml.mistake(self.yaml.place(key.value), "begins must be a time such as 2026-05-01T12:00:00Z")
            return None
        return time if time.tzinfo is not None else time.replace(tzinfo=UTC)

    def _collections(self, table: Table) -> dict[str, tuple[bytes | str, ...]]:
        if "collections" not in table:
            return {}
        found: dict[str, tuple[bytes | str, ...]] = {}
        for name, key in (self.yaml.any_table(table["collections"].value, "collections") or {}).items():
            declared = self.program.collections
            if declared and name not in declared:
                self.yaml.unknown(key.at, f'there is no collection "{name}"', name, declared, "collections")
            documents: list[bytes | str] = []
            for item in self.yaml.items(key.value):
                documents += self._documents(item, f"collection {name}")
            found[name] = tuple(documents)
        return found

    def _documents(self, node: yaml.Node, what: str) -> list[bytes | str]:
        """XML as it stands there, a file, all files that a pattern matches, or those of a folder."""
        text = self.yaml.scalar(node, what)
        if text is None:
            return []
        place = self.yaml.place(node)
        if text.lstrip().startswith("<"):
            return [text] if self._well_formed(text, place) else []
        paths = [self.folder / text]
        if paths[0].is_dir():
            paths = sorted(paths[0].glob("*.xml"))
        elif any([letter in text for letter in "*?["]):
            paths = sorted([self.folder / name for name in glob(text, root_dir=self.folder)])
        if not paths:
            self.yaml.mistake(place, f"there are no files {text}", BESIDE)
        found = [self._read(path, place) for path in paths]
        return [body for body in found if body is not None and self._well_formed(body, place)]

    # steps

    def _step(self, node: yaml.Node) -> list[Step]:
        """Return the steps that one item of the list stands for: a list of expectations is several."""
        table = self.yaml.any_table(node, "a step")
        if table is None:
            return []
        for name, key in table.items():
            if name not in STEPS:
                self.yaml.unknown(key.at, f'"{name}" is not a step', name, STEPS, "steps")
        if len(table) != 1:
            names = ", ".join(table) or "none"
            self.yaml.mistake(self.yaml.place(node), f"a step has one key, this one has {len(table)}: {names}")
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

    def _each(self, key: YamlKey, read: Callable[[yaml.Node], list[Step]]) -> list[Step]:
        """Return one of them, or a list."""
        found: list[Step] = []
        for node in self.yaml.items(key.value):
            found += read(node)
        return found

    def _arrives(self, key: YamlKey) -> list[Step]:
        messages: list[ScenarioMessage] = []
        for node in self.yaml.items(key.value):
            table = self.yaml.table(node, "arrives", ["queue"], ["body", "file", "properties"])
            incoming = self._incoming(table, node, "arrives", must_be_well_formed=True)
            if incoming is not None:
                messages.append(incoming)
        if not messages and not self.yaml.mistakes:
            self.yaml.mistake(self.yaml.place(key.value), "arrives needs a message")
        return [Arrives(at=key.at, messages=tuple(messages))]

    def _refused(self, node: yaml.Node) -> list[Step]:
        table = self.yaml.table(node, "refused", ["queue"], ["body", "file", "properties", "kind", "reason"])
        message = self._incoming(table, node, "refused", must_be_well_formed=False)
        kind = self._kind(table)
        reason = self.yaml.text(table["reason"], "reason") if "reason" in table else None
        if message is None:
            return []
        return [ExpectRefusal(at=self.yaml.place(node), message=message, kind=kind, reason=reason)]

    def _incoming(self, table: Table, node: yaml.Node, step: str, must_be_well_formed: bool) -> ScenarioMessage | None:
        queue = self._queue(table)
        body = self._body(table, node, step, must_be_well_formed)
        properties: dict[str, str] = {}
        for name, key in self._properties(table).items():
            value = self.yaml.text(key, f"property {name}")
            if queue is not None:
                known = [item.name for item in self.program.properties_of(queue) if item.decl is not None]
                known += transport_properties(self.program.queues[queue].kind)
                if name not in known:
                    self.yaml.unknown(key.at, f'queue {queue} has no property "{name}"', name, known, "properties")
            if value is not None:
                properties[name] = value
        if queue is None or body is None:
            return None
        return ScenarioMessage(queue=queue, body=body, properties=properties)

    def _passes(self, key: YamlKey) -> list[Step]:
        text = self.yaml.text(key, "passes")
        if text is None:
            return []
        seconds = seconds_of(text)
        if seconds is None:
            hint = 'a time is written 1h 30m, 90 minutes, 3 days, or PT90M; a century at most, and no "months"'
            self.yaml.mistake(self.yaml.place(key.value), f'"{text}" is no length of time', hint)
            return []
        return [Passes(at=key.at, seconds=seconds, text=text)]

    def _crash(self, key: YamlKey) -> list[Step]:
        if self.yaml.flag(key, "crash") is False:
            self.yaml.mistake(self.yaml.place(key.value), "crash must be true; leave the step out otherwise")
        return [Crash(at=key.at)]

    def _takes(self, node: yaml.Node) -> list[Step]:
        table = self.yaml.table(node, "takes", ["queue"], ["bodies", "count", *MANNERS])
        queue = self._queue(table)
        wanted = self._bodies_or_count(table, node, "takes", queue)
        if queue is None or wanted is None:
            return []
        return [Takes(at=self.yaml.place(node), queue=queue, wanted=wanted, any_order=self._any_order(table))]

    # expectations

    def _expect(self, node: yaml.Node) -> list[Step]:
        table = self.yaml.any_table(node, "expect")
        if table is None:
            return []
        subjects = [name for name in table if name in SUBJECTS]
        if len(subjects) != 1:
            known = (*SUBJECTS, *LOOKS, "key", "count", "bodies", *MANNERS)
            strange = [name for name in table if name not in known]
            for name in strange:
                self.yaml.unknown(table[name].at, f'"{name}" is not a key of expect', name, known, "keys")
            if strange:
                return []
            which = (
                "is about one of" if not subjects else f"cannot be about {' and '.join(subjects)} at once, only one of"
            )
            self.yaml.mistake(self.yaml.place(node), f"expect {which}: {', '.join(SUBJECTS)}")
            return []
        match subjects[0]:
            case "queue":
                return self._expect_queue(node)
            case "slice":
                return self._expect_slice(node)
            case "timers":
                key = self.yaml.table(node, "expect", ["timers"])["timers"]
                count = self.yaml.count(key, "timers")
                return [] if count is None else [ExpectTimers(at=self.yaml.place(node), count=count)]
            case "no errors":
                key = self.yaml.table(node, "expect", ["no errors"])["no errors"]
                if self.yaml.flag(key, "no errors") is False:
                    self.yaml.mistake(self.yaml.place(key.value), "no errors must be true; leave it out otherwise")
                return [ExpectNoErrors(at=self.yaml.place(node))]
            case _:
                key = self.yaml.table(node, "expect", ["error"])["error"]
                return self._each(key, self._expect_error)

    def _expect_queue(self, node: yaml.Node) -> list[Step]:
        table = self.yaml.table(node, "expect about a queue", ["queue"], [*LOOKS, *MANNERS])
        queue = self._queue(table)
        looks = [look for look in LOOKS if look in table]
        if not looks:
            self.yaml.mistake(self.yaml.place(node), f"expect about a queue needs one of: {', '.join(LOOKS)}")
        any_order = self._any_order(table)
        found: list[Step] = []
        for look in looks:
            wanted = self._wanted(table[look], look, queue, self._exact(table))
            if queue is not None and wanted is not None:
                at = table[look].at
                found.append(ExpectQueue(at=at, queue=queue, look=look, wanted=wanted, any_order=any_order))
        return found

    def _expect_slice(self, node: yaml.Node) -> list[Step]:
        table = self.yaml.table(node, "expect about a slice", ["slice", "key"], ["bodies", "count", *MANNERS])
        slicing = self.yaml.one_of(table["slice"], "slicing", self.program.slicings, "slicings")
        key = self.yaml.text(table["key"], "key") if "key" in table else None
        wanted = self._bodies_or_count(table, node, "expect about a slice", None)
        if slicing is None or key is None or wanted is None:
            return []
        at, any_order = self.yaml.place(node), self._any_order(table)
        return [ExpectSlice(at=at, slicing=slicing, key=key, wanted=wanted, any_order=any_order)]

    def _expect_error(self, node: yaml.Node) -> list[Step]:
        table = self.yaml.table(node, "error", [], ["queue", "kind", "rule", "code", "message contains"])
        rules = [rule.name for rule in self.program.rules]
        return [
            ExpectError(
                at=self.yaml.place(node),
                queue=self._queue(table) if "queue" in table else None,
                kind=self._kind(table),
                rule=self.yaml.one_of(table["rule"], "rule", rules, "rules") if "rule" in table else None,
                code=self.yaml.text(table["code"], "code") if "code" in table else None,
                contains=self.yaml.text(table["message contains"], "message contains")
                if "message contains" in table
                else None,
            )
        ]

    # parts of steps

    def _queue(self, table: Table) -> str | None:
        return self.yaml.one_of(table["queue"], "queue", self.program.queues, "queues") if "queue" in table else None

    def _kind(self, table: Table) -> str | None:
        return self.yaml.one_of(table["kind"], "kind of error", ERROR_KINDS, "kinds") if "kind" in table else None

    def _any_order(self, table: Table) -> bool:
        return "in any order" in table and bool(self.yaml.flag(table["in any order"], "in any order"))

    def _exact(self, table: Table) -> bool:
        if "whitespace" not in table:
            return False
        return self.yaml.one_of(table["whitespace"], "way to treat white space", ["exact"], "ways") is not None

    def _properties(self, table: Table) -> Table:
        if "properties" not in table:
            return {}
        return self.yaml.any_table(table["properties"].value, "properties") or {}

    def _bodies_or_count(self, table: Table, node: yaml.Node, what: str, queue: str | None) -> Wanted | None:
        if ("bodies" in table) == ("count" in table):
            self.yaml.mistake(self.yaml.place(node), f"{what} needs either bodies or count")
            return None
        if "count" in table:
            return self.yaml.count(table["count"], "count")
        return self._wanted(table["bodies"], "bodies", queue, self._exact(table))

    def _wanted(self, key: YamlKey, what: str, queue: str | None, exact: bool) -> Wanted | None:
        """Return a number of messages, one message, or a list of them."""
        node = key.value
        if isinstance(node, yaml.ScalarNode) and node.value.isascii() and node.value.isdigit():
            return self.yaml.count(key, what)
        found = [self._expected(item, what, queue, exact) for item in self.yaml.items(node)]
        complete = [item for item in found if item is not None]
        return tuple(complete) if len(complete) == len(found) else None

    def _expected(self, node: yaml.Node, what: str, queue: str | None, exact: bool) -> Expected | None:
        if isinstance(node, yaml.MappingNode):
            message = f"a message of {what}"
            table = self.yaml.table(node, message, [], ["body", "file", "properties"])
            properties = self._expected_properties(table, queue)
            if "body" not in table and "file" not in table and "properties" in table:
                return Expected(body=None, properties=properties, exact=exact)
            text = self._body(table, node, message, must_be_well_formed=True)
            return None if text is None else self._expected_body(text, properties, exact)
        text = self.yaml.scalar(node, f"a message of {what}")
        if text is None or not self._well_formed(text, self.yaml.place(node), wildcard=True):
            return None
        return self._expected_body(text, {}, exact)

    def _expected_body(self, text: bytes | str, properties: Mapping[str, str | None], exact: bool) -> Expected:
        anything = isinstance(text, str) and text.strip() in WILDCARDS
        return Expected(body=None if anything else read_body(text, exact), properties=properties, exact=exact)

    def _expected_properties(self, table: Table, queue: str | None) -> dict[str, str | None]:
        found: dict[str, str | None] = {}
        for name, key in self._properties(table).items():
            if queue is not None and not is_system_property(name):
                known = [item.name for item in self.program.properties_of(queue)]
                known += transport_properties(self.program.queues[queue].kind)
                if name not in known:
                    names = [*known, *SYSTEM_PROPERTIES]
                    self.yaml.unknown(key.at, f'queue {queue} has no property "{name}"', name, names, "properties")
            readable, value = self.yaml.text_or_null(key, f"property {name}")
            if readable:
                found[name] = value
        return found

    # bodies

    def _body(self, table: Table, node: yaml.Node, what: str, must_be_well_formed: bool) -> bytes | str | None:
        if ("body" in table) == ("file" in table):
            self.yaml.mistake(self.yaml.place(node), f"{what} needs either body or file")
            return None
        key = table["body"] if "body" in table else table["file"]
        text = self.yaml.text(key, "body" if "body" in table else "file")
        if text is None:
            return None
        place = self.yaml.place(key.value)
        body = text if "body" in table else self._read(self.folder / text, place)
        if body is None or (must_be_well_formed and not self._well_formed(body, place, wildcard=what != "arrives")):
            return None
        return body

    def _read(self, path: Path, place: SourceLocation) -> bytes | None:
        try:
            return path.read_bytes()
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            self.yaml.mistake(place, f"{path}: {reason}", BESIDE)
            return None

    def _well_formed(self, body: bytes | str, place: SourceLocation, wildcard: bool = False) -> bool:
        if wildcard and isinstance(body, str) and body.strip() in WILDCARDS:
            return True
        try:
            parse_document(body)
        except MessageError as error:
            self.yaml.mistake(place, f"not well-formed XML: {error.message}")
            return False
        return True
