"""Compile a plan with Saxon: the function items of rules, properties and indexes, and the locations of errors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from demaq.compiler.containment import can_distinguish_parsed
from demaq.compiler.emit.xquery.blocks import Block, BlockEmitter, make_runtime_query, property_entry
from demaq.compiler.emit.xquery.property_queries import describe_property, emit_intake_query
from demaq.compiler.emit.xquery.rule_filter import INTAKE_BODY, JOBS_BODY, MIGRATE_BODY, RUNTIME_BODY, emit_batch_query
from demaq.compiler.emit.xquery.vocabulary import SEPARATOR
from demaq.compiler.plan import Plan, QueuePlan
from demaq.compiler.planner import make_plan
from demaq.errors import ProgramError
from demaq.evaluation.saxon.failures import BASE_URI, UNTYPED_HINT, place_in_attributes, readable
from demaq.evaluation.saxon.processor import EvaluationError, Saxon, StaticError
from demaq.language import ast
from demaq.language.diagnostics import Diagnostic
from demaq.language.program.program import Program, Property
from demaq.language.recursion import deep_recursion
from demaq.source import SourceLocation

STATIC = "DQ0704"
RUNTIME_URI = "demaq:runtime"
"""The base URI of our own functions, by which their errors are recognised."""


class CompiledQueue:
    """The functions that evaluate the messages of one queue."""

    def __init__(self, plan: QueuePlan, compiled: CompiledProgram) -> None:
        saxon = compiled.saxon
        self.plan = plan
        self.numbers = [rule.rule.number for rule in plan.rules]
        self.positions = {number: position + 1 for position, number in enumerate(self.numbers)}
        firsts = [compiled.first(number) for number in self.numbers]
        self.first_rules = saxon.array(firsts)
        self.full_rules = saxon.array([compiled.functions[("rule", str(number))] for number in self.numbers])
        self.run = saxon.functions(emit_batch_query(plan), RUNTIME_URI)[0]


class CompiledProgram:
    """Everything of a plan that Saxon evaluates. Raises a ProgramError (with `others`) for what Saxon refuses."""

    def __init__(self, plan: Plan, saxon: Saxon) -> None:
        self.plan = plan
        self.saxon = saxon
        self.emitter = BlockEmitter(plan)
        self.hands_nodes_on = not can_distinguish_parsed(plan.modules)
        """Whether rules may get new documents as nodes, without serializing and parsing them."""
        self.functions: dict[tuple[str, str], Any] = {}
        self._blocks: dict[tuple[str, str], Block] = {}
        self._queues: dict[str, CompiledQueue] = {}
        self._variable_failures: dict[int, dict[str, tuple[str, SourceLocation]]] = {}
        refused: list[Diagnostic] = []
        for block in self.emitter.blocks():
            refused.extend(self._compile(block))
        errors = [*self.emitter.errors, *[item.error() for item in refused]]
        if errors:
            errors[0].others = tuple(errors[1:])
            raise errors[0]
        self.rules = {plan.rule.number: plan for plan in self.plan.rules.values()}
        ours = make_runtime_query(f"[{', '.join([JOBS_BODY, INTAKE_BODY, MIGRATE_BODY, RUNTIME_BODY])}]")
        self.jobs, self.intake, self.migrate, self.runtime = saxon.functions(ours, RUNTIME_URI)
        self.intakes = self._intakes()

    def first(self, number: int) -> Any:
        """Return the function of the first step: the whole rule, or what is decided before state is read."""
        return self.functions.get(("first", str(number))) or self.functions[("rule", str(number))]

    def queue(self, name: str) -> CompiledQueue:
        compiled = self._queues.get(name)
        if compiled is None:
            compiled = self._queues[name] = CompiledQueue(self.plan.queues[name], self)
        return compiled

    def place(self, rule: int, module: str, line: str, column: str) -> SourceLocation | None:
        """Return where in the author's text a rule has failed, as far as Saxon reports it."""
        if module == RUNTIME_URI or not line or int(line) < 1:
            return None
        place = _place(self._blocks[("rule", str(rule))], int(line), int(column) if column else 1)
        if place is None:
            failed = self.rules[rule].rule
            return place_in_attributes(failed, self.plan.program.modules[failed.module])
        return place

    def variable_failure(self, rule: int, description: str) -> tuple[str, SourceLocation] | None:
        """Return code and location of an error that ended a whole call, if a global variable of the module raised it.

        Global variables depend on nothing, so one that fails always fails with the same message.
        """
        module = self.rules[rule].rule.module
        if module not in self._variable_failures:
            self._variable_failures[module] = self._failing_variables(module)
        return self._variable_failures[module].get(description)

    def _failing_variables(self, module: int) -> dict[str, tuple[str, SourceLocation]]:
        block = self.emitter.variables_block(module)
        state = self.saxon.map({"d": self.runtime})
        found: dict[str, tuple[str, SourceLocation]] = {}
        for function, place in zip(self.saxon.functions(block.text, BASE_URI), block.locations, strict=True):
            try:
                failure = self.saxon.call(function, state).split(SEPARATOR)
            except EvaluationError:
                continue  # it uses another one that fails
            if failure[0] == "X":
                _, _, code, description, _, _, line, column = failure
                at = _place(block, int(line), int(column or 1)) if line else None
                found[description] = (code, at or place)
        return found

    def _compile(self, block: Block) -> Iterable[Diagnostic]:
        try:
            functions = self.saxon.functions(block.text, BASE_URI)
        except StaticError as error:
            return self._explain(block, error)
        self._blocks.update(dict.fromkeys(block.entries, block))
        self.functions.update(zip(block.entries, functions, strict=True))
        return []

    def _explain(self, block: Block, error: StaticError) -> list[Diagnostic]:
        """Find what is wrong with a block: its prolog, or each of the functions that do not compile alone."""
        prolog = self.emitter.prolog_block(block.module)
        try:
            self.saxon.functions(prolog.text, BASE_URI)
        except StaticError as own:
            return [_diagnostic(prolog, own, None)]
        found: list[Diagnostic] = []
        for single in self.emitter.single_blocks(block):
            try:
                self.saxon.functions(single.text, BASE_URI)
            except StaticError as own:
                found.append(_diagnostic(single, own, single.locations[0]))
        return found or [_diagnostic(block, error, block.locations[0] if block.locations else None)]

    def _value(self, prop: Property, queue: str) -> Any:
        """Return the function that computes a property on a queue, or the empty sequence."""
        value = prop.values[queue]
        return self.saxon.empty() if value is None else self.functions[property_entry(prop, value)]

    def _intakes(self) -> Any:
        """Return for each queue with properties or indexes the functions that compute those of a new message."""
        saxon, program = self.saxon, self.plan.program
        queries: dict[str, str] = {}
        arguments: dict[str, tuple[Any, Any]] = {}
        for queue in program.queues:
            properties = in_dependency_order(program, queue)
            indexes = [
                saxon.map(
                    {"number": saxon.string(str(index.number)), "value": self.functions[("index", str(index.number))]}
                )
                for index in self.plan.indexes_of(queue)
            ]
            if properties or indexes:
                queries[queue] = emit_intake_query(
                    [describe_property(prop, queue, self.emitter.document_only) for prop in properties], bool(indexes)
                )
                values = saxon.array([self._value(prop, queue) for prop in properties])
                arguments[queue] = values, saxon.array(indexes)
        if not queries:
            return saxon.map({})
        makers = saxon.functions(make_runtime_query(f"[{', '.join(queries.values())}]"), RUNTIME_URI)
        return saxon.map({queue: f.call(list(arguments[queue])).head for queue, f in zip(queries, makers, strict=True)})


def in_dependency_order(program: Program, queue: str) -> list[Property]:
    """Return the properties of a queue, each after those that its value reads. The checks have excluded cycles."""
    properties = {prop.name: prop for prop in program.properties_of(queue)}
    ordered: dict[str, Property] = {}

    def add(prop: Property) -> None:
        value = prop.values[queue]
        if value is not None and prop.module is not None:
            names = program.modules[prop.module].names
            for node in ast.walk(value):
                other = properties.get(names.parts.get(node, ""))
                if other is not None and other is not prop and other.name not in ordered:
                    add(other)
        ordered[prop.name] = prop

    for prop in properties.values():
        if prop.name not in ordered:
            add(prop)
    return list(ordered.values())


def compile_program(program: Program, saxon: Saxon | None = None) -> CompiledProgram:
    with deep_recursion():
        return CompiledProgram(make_plan(program), saxon or Saxon())


def static_check(program: Program) -> list[Diagnostic]:
    """Return the errors that only compiling finds."""
    try:
        compile_program(program)
    except ProgramError as error:
        return [Diagnostic.of(item) for item in (error, *error.others)]
    return []


def _diagnostic(block: Block, error: StaticError, fallback: SourceLocation | None) -> Diagnostic:
    place = _place(block, error.line, error.column or 1) if error.line is not None else None
    words = readable(error.message)
    message = f"{error.code}: {words}" if error.code else words
    return Diagnostic(severity="error", code=STATIC, message=message, at=place or fallback, hint=_hint(error))


def _place(block: Block, line: int, column: int) -> SourceLocation | None:
    """Return the location of a position. Saxon counts columns from 1 in the first line and from 2 in all others."""
    return block.map.place(line, column if line == 1 else column - 1)


def _hint(error: StaticError) -> str | None:
    if error.code == "XPTY0004" and error.message.startswith("Arithmetic operator") and "xs:string" in error.message:
        return "strings are joined with `||`; a text is made a number by number() or xs:decimal()"
    if error.code == "XPTY0004" and "cannot compare" in error.message and "xs:untypedAtomic" in error.message:
        return UNTYPED_HINT
    return None
