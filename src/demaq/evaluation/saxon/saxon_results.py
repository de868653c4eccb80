"""Read the result of a batch, fields in a string and documents, as outcomes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from demaq.compiler.emit.xquery.vocabulary import RUNTIME, SITE
from demaq.compiler.plan import RulePlan
from demaq.documents import Document
from demaq.evaluation.outcomes import Enqueued, Location, Outcome, RuleError, SliceReset
from demaq.evaluation.queue_schemas import QueueSchemas
from demaq.evaluation.saxon.compiled import CompiledProgram, CompiledQueue
from demaq.evaluation.saxon.failures import narrowest_place, readable
from demaq.language.namespaces import DEMAQ
from demaq.messages import KEY_BYTES_MAX, PROPERTY_CHARACTERS_MAX, PropertyValue
from demaq.source import SourceLocation
from demaq.system_properties import UNSUITABLE_TARGETS

OURS = f"Q{{{DEMAQ}}}"
"""The prefix of our own error codes."""
_NEED = f"Q{{{RUNTIME}}}"


class SaxonResult(NamedTuple):
    """The result of a call: fields, and new documents."""

    fields: Iterator[str]
    documents: Iterator[Document]


class SaxonResultReader:
    """Reads results of the rules of one program."""

    def __init__(self, compiled: CompiledProgram, schemas: QueueSchemas) -> None:
        self._compiled = compiled
        self._program = compiled.plan.program
        self._schemas = schemas

    def read(self, answer: SaxonResult, outcomes: list[Outcome]) -> list[tuple[int, int, list[list[str]]]]:
        """Read the fields of a result into outcomes. Return what needs state: message, rule and keys."""
        wanted: list[tuple[int, int, list[list[str]]]] = []
        reader = answer.fields
        number = -1
        for tag in reader:
            match tag:
                case "M":
                    number += 1
                case "F":
                    outcomes[number].fired.append(self._rule(next(reader)).rule.name)
                case "E":
                    self._read_enqueued(reader, next(answer.documents), outcomes[number])
                case "R":
                    rule, slicing, key = self._rule(next(reader)).rule.name, next(reader), next(reader)
                    outcomes[number].actions.append(SliceReset(rule=rule, slicing=slicing, key=key))
                case "X":
                    rule_number = next(reader)
                    self._fail(outcomes[number], self._read_error(reader, self._rule(rule_number)))
                case "N":
                    plan = self._rule(next(reader))
                    lookups = sum([len(read.lookups) for read in plan.keyed])
                    keys = [[next(reader) for _ in range(int(next(reader)))] for _ in range(lookups)]
                    wanted.append((number, plan.rule.number, keys))
                case "":
                    break
                case _:
                    raise AssertionError(f"unknown record {tag!r}")
        return wanted

    def _rule(self, number: str) -> RulePlan:
        return self._compiled.rules[int(number)]

    def _read_enqueued(self, reader: Iterator[str], document: Document, outcome: Outcome) -> None:
        rule, site, queue = self._rule(next(reader)).rule, next(reader), next(reader)
        properties = self.read_properties(reader)
        entries = self.read_entries(reader)
        refusal = self.refusal(queue, document, properties)
        if refusal is not None:
            kind, reason = refusal
            at = self._compiled.emitter.sites.locations[int(site)]
            description = f"queue {queue} refuses the message: {reason}"
            error = RuleError(
                rule=rule.name, kind=kind, code=f"demaq:{kind}", description=description, at=Location.of(at)
            )
            self._fail(outcome, error)
        elif not any([error.rule == rule.name for error in outcome.errors]):
            outcome.actions.append(
                Enqueued(rule=rule.name, queue=queue, document=document, properties=properties, entries=entries)
            )

    def refusal(
        self, queue: str, document: Document, properties: Mapping[str, PropertyValue]
    ) -> tuple[str, str] | None:
        """Return why a queue refuses a message: the kind of error and the reason; None if it accepts it."""
        problem = self._length_problem(queue, properties)
        if problem is not None:
            return "propertyError", problem
        violation = self._schemas.violation(queue, document)
        if violation is not None:
            return "schemaViolation", violation
        if self._program.queues[queue].kind == "echo":
            problem = self._timer_problem(properties)
            if problem is not None:
                return "propertyError", problem
        return None

    def _length_problem(self, queue: str, properties: Mapping[str, PropertyValue]) -> str | None:
        for name, value in properties.items():
            if len(value.text) <= KEY_BYTES_MAX // 4:
                continue  # neither can be exceeded
            if len(value.text) > PROPERTY_CHARACTERS_MAX:
                return f"property {name} has more than {PROPERTY_CHARACTERS_MAX:,} characters"
            is_key = any([slicing.property == name for slicing in self._program.slicings_of(queue)])
            if is_key and len(value.key.encode("utf-8", "replace")) > KEY_BYTES_MAX:
                return f"property {name} is the key of a slice and has more than {KEY_BYTES_MAX:,} bytes"
        return None

    def _timer_problem(self, properties: Mapping[str, PropertyValue]) -> str | None:
        if "timeout" not in properties:
            return "an echo queue needs to know when: with timeout value …"
        if "target" not in properties:
            return "an echo queue needs to know where to: with target value …"
        target = self._program.queues.get(properties["target"].text)
        if target is None:
            return f"its target {properties['target'].text} is no queue"
        why = UNSUITABLE_TARGETS.get(target.kind)
        return f"its target {target.name} is {why}" if why is not None else None

    def read_properties(self, reader: Iterator[str]) -> dict[str, PropertyValue]:
        found: dict[str, PropertyValue] = {}
        for _ in range(int(next(reader))):
            name, type_, text, key = next(reader), next(reader), next(reader), next(reader)
            declared = self._program.properties.get(name)
            found[name] = PropertyValue(declared.type if declared else type_ or "string", text, key)
        return dict(sorted(found.items())) if len(found) > 1 else found

    def read_entries(self, reader: Iterator[str]) -> tuple[tuple[int, str], ...]:
        return tuple([(int(next(reader)), next(reader)) for _ in range(int(next(reader)))])

    def _read_error(self, reader: Iterator[str], plan: RulePlan) -> RuleError:
        code, description, value = next(reader), next(reader), next(reader)
        module, line, column = next(reader), next(reader), next(reader)
        kind, shown = "dynamicError", code
        at: SourceLocation | None = self._compiled.place(plan.rule.number, module, line, column)
        if value.startswith(SITE) and value.removeprefix(SITE).isdigit():
            at = self._compiled.emitter.sites.locations[int(value.removeprefix(SITE))]
        else:
            at = narrowest_place(at, plan.rule, self._program.modules[plan.rule.module], description)
        if code.startswith(_NEED):
            kind = "need"
            description, _, encoded = code.removeprefix(_NEED).partition(".")
            shown = "".join([chr(int(number)) for number in encoded.split("-")])
        elif code.startswith(OURS):
            kind = code.removeprefix(OURS)
            shown = f"demaq:{kind}"
            if kind in ("enqueueError", "propertyError") and value.isdigit():
                at = self._compiled.emitter.sites.locations[int(value)]
            else:
                kind = kind if kind in ("enqueueError", "propertyError") else "dynamicError"
        return RuleError(
            rule=plan.rule.name,
            kind=kind,
            code=shown,
            description=readable(description),
            at=Location.of(at or plan.rule.decl.at),
        )

    def _fail(self, outcome: Outcome, error: RuleError) -> None:
        """Record the error of a rule, which contributes none of its actions."""
        outcome.actions = [action for action in outcome.actions if action.rule != error.rule]
        outcome.fired = [rule for rule in outcome.fired if rule != error.rule]
        if not any([known.rule == error.rule for known in outcome.errors]):
            outcome.errors.append(error)

    def fail_all(self, queue: CompiledQueue, outcome: Outcome, reason: str) -> None:
        for number in queue.numbers:
            outcome.errors.append(self.lost(number, reason))

    def lost(self, number: int, reason: str) -> RuleError:
        rule = self._compiled.rules[number].rule
        code, at = self._compiled.variable_failure(number, reason) or ("demaq:notEvaluated", rule.decl.at)
        return RuleError(
            rule=rule.name,
            kind="dynamicError",
            code=code.replace(OURS, "demaq:"),
            description=readable(reason),
            at=Location.of(at),
        )
