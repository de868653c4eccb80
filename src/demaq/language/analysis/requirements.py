"""Infer what a condition requires of the message it is evaluated on: its root, or an element anywhere in it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from demaq.language import ast
from demaq.language.analysis.shapes import ElementName, resolve_let
from demaq.language.namespaces import FN, QS
from demaq.language.resolving.names import Names

_COMPARISONS = frozenset({"=", "!=", "<", "<=", ">", ">=", "eq", "ne", "lt", "le", "gt", "ge"})
_EXISTENCE = ((FN, "exists", 1), (FN, "boolean", 1))


@dataclass(frozen=True, slots=True)
class Requirement:
    """The message has this element, as its root or anywhere."""

    name: ElementName
    is_root: bool
    node: ast.Node
    is_all: bool
    """Whether the expression requires nothing else."""


def infer_message_requirements(condition: ast.Expr, names: Names) -> list[Requirement]:
    """Return what is certainly true of the message if the condition holds."""
    found: list[Requirement] = []
    waiting = [condition]
    while waiting:
        expr = resolve_let(waiting.pop(), names)
        if isinstance(expr, ast.OperatorChain) and expr.operators[0] == "and":
            waiting.extend(reversed(expr.operands))
        elif isinstance(expr, ast.OperatorChain) and expr.operators[0] in _COMPARISONS:
            for operand in expr.operands:
                required = infer_requirement(operand, names)
                if required is not None:
                    found.append(replace(required, is_all=False))
        elif isinstance(expr, ast.FunctionCall) and names.functions.get(expr) in _EXISTENCE:
            waiting.append(expr.args[0])
        else:
            required = infer_requirement(expr, names)
            if required is not None:
                found.append(required)
    return found


def infer_requirement(expr: ast.Expr, names: Names) -> Requirement | None:
    """Return what a path requires if the context item is the message's document node."""
    separator, step, is_last = find_first_step(expr, names)
    if step is None or not isinstance(step.test, ast.NameTest):
        return None
    uri, local = names.elements.get(step.test, (None, "*"))
    if uri is None or local == "*":
        return None
    return Requirement((uri, local), separator == "/", step, is_last and not step.predicates)


def find_first_step(expr: ast.Expr, names: Names) -> tuple[str, ast.AxisStep | None, bool]:
    """Return separator and step of the first child step from the document node, and whether the path ends there."""
    if isinstance(expr, ast.AxisStep):
        return "/", expr if expr.axis == "child" else None, True
    if not isinstance(expr, ast.Path):
        return "", None, False
    separator, first, steps = expr.separators[0], expr.steps[0], 1
    if separator == "" and len(expr.steps) > 1 and _is_message(first, names):
        separator, first, steps = expr.separators[1], expr.steps[1], 2
    if not isinstance(first, ast.AxisStep) or first.axis != "child":
        return "", None, False
    return separator or "/", first, len(expr.steps) == steps


def starts_at_message_call(expr: ast.Path, names: Names) -> bool:
    """Return whether a path begins with qs:message(), and so refers to the message wherever it stands."""
    first = expr.steps[0]
    return isinstance(first, ast.FunctionCall) and names.functions.get(first) == (QS, "message", 0)


def _is_message(expr: ast.Expr, names: Names) -> bool:
    if isinstance(expr, ast.FunctionCall):
        return names.functions.get(expr) == (QS, "message", 0)
    return isinstance(expr, ast.ContextItem)
