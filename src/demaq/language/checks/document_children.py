"""Warn of child steps from a message's document node that select nothing: a message has one root.

The paper itself slips here: `qs:message()/customerID` instead of `qs:message()//customerID`.
"""

from __future__ import annotations

from collections.abc import Iterator

from demaq.language import ast
from demaq.language.analysis.conditions import find_branch_events
from demaq.language.analysis.requirements import (
    Requirement,
    infer_message_requirements,
    infer_requirement,
    starts_at_message_call,
)
from demaq.language.analysis.shapes import ElementName
from demaq.language.diagnostics import Diagnostic, warning
from demaq.language.program.bodies import DraftRule
from demaq.language.program.draft import Draft
from demaq.language.resolving.names import Names


def impossible_roots(draft: Draft) -> Iterator[Diagnostic]:
    """Yield steps that select another root than the one the condition requires."""
    for rule in draft.rules:
        names = rule.module.names
        if len({read.name for read in root_reads(rule.decl.body, names)}) < 2:
            continue  # the common case: all steps from the document node agree
        known: list[Requirement] = []
        opened: list[bool] = []
        for event in find_branch_events(rule.decl.body):
            if event.kind == "enter":
                condition = event.scope.condition if event.scope.holds else None
                required = [] if condition is None else infer_message_requirements(condition, names)
                root = next(iter([r for r in required if r.is_root]), None)
                opened.append(root is not None)
                if root is not None:
                    known.append(root)
            elif event.kind == "leave":
                if opened.pop():
                    known.pop()
            elif event.kind == "value" and known and event.node is not None:
                for read in root_reads(event.node, names):
                    if read.name != known[-1].name:
                        yield _impossible(read, known[-1])


def roots_read_as_descendants(draft: Draft) -> Iterator[Diagnostic]:
    """Yield rules that read the same name as `//name` and as the root: one of them is a mistake."""
    for rule in draft.rules:
        names = rule.module.names
        reads = [read for read in root_reads(rule.decl.body, names) if read.is_all]
        anywhere = _read_anywhere(rule) if reads else set()
        if not anywhere:
            continue
        required: set[ElementName] = set()
        for event in find_branch_events(rule.decl.body):
            if event.kind == "enter" and event.scope.condition is not None:
                required.update([r.name for r in infer_message_requirements(event.scope.condition, names) if r.is_root])
        for read in reads:
            if read.name in anywhere and read.name not in required:
                local = read.name[1]
                yield warning(
                    "DQ1203",
                    f"`{local}` is read as the root of the message here, and as a descendant elsewhere in the rule",
                    read.node.at,
                    f"did you mean //{local}?",
                )


def root_reads(expr: ast.Node, names: Names) -> list[Requirement]:
    """Return the child steps from the message's document node, anywhere in an expression evaluated on the message."""
    found: list[Requirement] = []
    stack: list[tuple[ast.Node, bool]] = [(expr, True)]
    while stack:
        node, on_message = stack.pop()
        if isinstance(node, (ast.Path, ast.AxisStep)):
            anchored = isinstance(node, ast.Path) and starts_at_message_call(node, names)
            read = infer_requirement(node, names) if on_message or anchored else None
            if read is not None and read.is_root:
                found.append(read)
        if ast.children(node):
            stack.extend(_below(node, on_message))
    return found


def _below(node: ast.Node, on_message: bool) -> list[tuple[ast.Node, bool]]:
    """Return the parts of a node, each with whether its context item is still the message."""
    match node:
        case ast.Path():
            if node.separators[0] == "" and not isinstance(node.steps[0], ast.AxisStep):
                return [(node.steps[0], on_message), *[(step, False) for step in node.steps[1:]]]
            return [(step, False) for step in node.steps]
        case ast.OperatorChain() if node.operators[0] == "!":
            return [(node.operands[0], on_message), *[(operand, False) for operand in node.operands[1:]]]
        case ast.Predicate() | ast.InlineFunction() | ast.AxisStep():
            return [(child, False) for child in ast.children(node)]
        case ast.TransformWith():
            below: list[tuple[ast.Node, bool]] = [(node.operand, on_message)]
            return below if node.modify is None else [*below, (node.modify, False)]
    return [(child, on_message) for child in ast.children(node)]


def _read_anywhere(rule: DraftRule) -> set[ElementName]:
    found: set[ElementName] = set()
    for node in ast.walk(rule.decl.body):
        if not isinstance(node, ast.Path):
            continue
        for separator, step in zip(node.separators, node.steps, strict=True):
            if separator == "//" and isinstance(step, ast.AxisStep) and isinstance(step.test, ast.NameTest):
                uri, local = rule.module.names.elements.get(step.test, (None, "*"))
                if uri is not None and local != "*":
                    found.add((uri, local))
    return found


def _impossible(read: Requirement, root: Requirement) -> Diagnostic:
    return warning(
        "DQ1202",
        f"the root of the message is `{root.name[1]}` here, so `{read.name[1]}` cannot be it",
        read.node.at,
        f"did you mean //{read.name[1]} or /{root.name[1]}/{read.name[1]}?",
    )
