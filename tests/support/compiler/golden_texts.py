"""What the compiler makes of a small program, as one readable text: the plan, the XQuery, and the Python if it is native."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from demaq.compiler.emit.python.queue_code import IntakeText, NativeEmitter, SaxonRuleText
from demaq.compiler.emit.xquery.blocks import Block, BlockEmitter
from demaq.compiler.emit.xquery.probe_function import Probe, emit_probes, truth_of
from demaq.compiler.emit.xquery.property_queries import describe_property, emit_intake_query
from demaq.compiler.emit.xquery.rule_filter import emit_batch_query
from demaq.compiler.explain import explain
from demaq.compiler.plan import Plan
from demaq.compiler.planner import make_plan
from demaq.evaluation.saxon.compiled import in_dependency_order
from demaq.language.loader import load_program_texts
from demaq.language.program.program import Program

GOLDEN = Path(__file__).parents[2] / "golden"
_SECTION = re.compile(r"^== .*$", re.MULTILINE)


def read_program(text: str) -> str:
    """Return the program at the head of a golden text."""
    return _SECTION.split(text, maxsplit=1)[0].rstrip() + "\n"


def load(program: str, folder: Path) -> Program:
    """Return a program as it is loaded from a folder, which has the libraries that it imports."""
    return load_program_texts({str(folder / "program.dmq"): program})


def make_text(program: str, folder: Path) -> str:
    """Return the golden text of a program."""
    plan = make_plan(load(program, folder))
    sections = [
        ("plan", explain(plan).replace(f"{folder}/", "")),
        ("xquery", "\n\n".join(_xquery(plan))),
        ("python", "\n\n".join(_python(plan))),
    ]
    if folder.name == "probe_function":
        sections = [("probes", "\n\n".join(_probes(plan)))]
    return program + "".join([f"\n== {title}\n\n{_clean(body)}" for title, body in sections])


def _clean(text: str) -> str:
    # Names of our own and of the standard are easier to read without their namespaces.
    for namespace, prefix in _PREFIXES.items():
        text = text.replace(f"Q{{{namespace}}}", prefix)
    for before, after in _LINE_BREAKS.items():
        text = text.replace(before, after)
    return "\n".join([line.rstrip() for line in text.replace("\x1e", "␞").splitlines()]).strip() + "\n"


_PREFIXES = {
    "demaq:runtime": "d:",
    "http://www.w3.org/2005/xpath-functions": "fn:",
    "http://www.w3.org/2001/XMLSchema": "xs:",
    "http://www.w3.org/2005/xqt-errors": "err:",
}


_LINE_BREAKS = {
    " let $d:message := ": "\n  let $d:message := ",
    " return if (try {": "\n  return if (try {",
    " return try {": "\n  return try {",
    " } catch * {": "\n  } catch * {",
    ' return map { "made"': '\n  return map { "made"',
    ', "each": [': ',\n  "each": [',
}


def _xquery(plan: Plan) -> Iterator[str]:
    emitter = BlockEmitter(plan)
    for block in emitter.blocks():
        yield from _functions(BlockEmitter(plan), block)  # its own, to number sites from the first one
    assert not emitter.errors, emitter.errors
    for queue in plan.program.queues:
        properties = in_dependency_order(plan.program, queue)
        if properties:
            described = [describe_property(prop, queue, emitter.document_only) for prop in properties]
            query = emit_intake_query(described, bool(plan.indexes_of(queue)))
            yield f"(: properties of a new message in {queue} :)\n{query}"
    for queue, item in plan.queues.items():
        if item.picks:
            yield f"(: which rules a message in {queue} is given to :)\n{emit_batch_query(item)}"


def _probes(plan: Plan) -> Iterator[str]:
    """For each rule the function that evaluates its conjuncts, and whether they hold."""
    for rule in plan.rules.values():
        probes = [probe for condition in rule.conditions for probe in (Probe(condition), Probe(truth_of(condition), 1))]
        block = emit_probes(BlockEmitter(plan), rule, rule.sites, probes)
        yield f"(: conjuncts of rule {rule.rule.name} :)\n{block.text[block.text.rindex(chr(10) + '[') + 2 : -1]}"


def _functions(emitter: BlockEmitter, block: Block) -> Iterator[str]:
    """The functions of a block, each under what it is for, after what the author's prolog has become."""
    prolog = [line for line in emitter.prolog_block(block.module).text.splitlines() if not line.startswith(_USUAL)]
    if prolog[:-1]:
        yield "\n".join(prolog[:-1])  # the last line is the array of no functions
    for single in emitter.single_blocks(block):
        [(kind, name)] = single.entries
        text = single.text[single.text.rindex("\n[") + 2 : -1]
        if kind in ("rule", "first"):
            name = next(item.rule.name for item in emitter.plan.rules.values() if str(item.rule.number) == name)
        yield f"(: {'decided first in rule' if kind == 'first' else kind} {name.split(' at ')[0]} :)\n{text}"


_USUAL = (
    *[f"declare namespace {p} " for p in ("qs", "demaq", "map", "array", "math", "err")],
    "declare function Q{demaq:",
)


def _python(plan: Plan) -> Iterator[str]:
    emitter = NativeEmitter(plan)
    for queue, item in plan.queues.items():
        if not item.rules:
            continue
        made = emitter.emit_queue(queue)
        for rule, text in made.rules:
            if isinstance(text, SaxonRuleText):
                filtered = "no filter" if text.filter is None else f"filter\n{_numbered(text.filter)}"
                yield f"# {rule.rule.name} is left to Saxon because of {text.reason.text}: {filtered}"
                continue
            parts = [("decided first", text.first), *[("key", key) for key in text.keys], ("rule", text.body)]
            yield "\n".join([f"# {rule.rule.name}: {title}\n{_numbered(part)}" for title, part in parts if part])
        for target, intake in made.intakes.items():
            yield from _intake(target, intake)


def _intake(queue: str, intake: IntakeText) -> Iterator[str]:
    for prop in intake.properties:
        yield f"# property {prop.property.name} in {queue}\n{_numbered(prop.computed or '# not computed')}"
    for number, text in intake.indexes:
        yield f"# index {number} of {queue}\n{_numbered(text)}"


def _numbered(text: str) -> str:
    """Number variables from 1: they have other numbers in each process."""
    known: dict[str, str] = {}
    return re.sub(r"\bv\d+\b", lambda found: known.setdefault(found[0], f"v{len(known) + 1}"), text).rstrip()
