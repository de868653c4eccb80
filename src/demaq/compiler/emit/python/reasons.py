"""Reasons why a rule is left to Saxon, as data: a code, the place, the construct and a hint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from demaq.compiler.emit.python.code import NotTranslatable
from demaq.compiler.emit.python.operators import GENERAL, SINGLE
from demaq.language import ast
from demaq.source import SourceLocation

HINTS: Mapping[str, str] = {
    "native.action": "write actions directly in `if`, `for` and sequences, and give each `do enqueue` one element",
    "native.comparison": "make both operands the same kind of value, such as xs:decimal(…), and make sure they exist",
    "native.constructor": "write elements and attributes directly, with declared prefixes",
    "native.expression": "write it with paths, comparisons, FLWOR expressions and direct constructors",
    "native.flwor": "use `for`, `let`, `where` and `order by` with conditions that depend on their loop",
    "native.function": "use another function, or compute the value where the message is made",
    "native.index": "compare an element or attribute of the other messages with a string or number",
    "native.nesting": "divide the rule into smaller ones",
    "native.operator": "cast both operands to one numeric type, such as xs:decimal(…)",
    "native.path": "use child, descendant and attribute steps with names, and simple predicates",
    "native.property": "give the property a type that native rules have, and compute it with a native expression",
    "native.read": "name the queue or collection with a string literal",
    "native.setting": "remove the declaration from the prolog, or move the rule to a module without it",
    "native.variable": "bind the variable inside of the rule, without a type",
}
"""All codes, which never change, each with the hint that is given if there is none for the case."""

_CODES: Mapping[type[ast.Node], str] = {
    ast.AxisStep: "native.path",
    ast.DirectElement: "native.constructor",
    ast.Enqueue: "native.action",
    ast.Flwor: "native.flwor",
    ast.FunctionCall: "native.function",
    ast.OperatorChain: "native.operator",
    ast.Path: "native.path",
    ast.Postfix: "native.path",
    ast.Quantified: "native.flwor",
    ast.Reset: "native.action",
    ast.VarRef: "native.variable",
}
"""Codes by the kind of the offending expression."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """Why a rule is left to Saxon."""

    code: str
    """A key of HINTS."""
    text: str
    """The construct, as an author reads it."""
    at: SourceLocation | None
    """The offending expression."""
    hint: str

    def as_json(self) -> dict[str, Any]:
        at = self.at
        return {
            "code": self.code,
            "text": self.text,
            "file": at.file if at else None,
            "line": at.line if at else None,
            "column": at.column if at else None,
            "hint": self.hint,
        }


def describe_reason(error: NotTranslatable | RecursionError, default: SourceLocation | None = None) -> Reason:
    """Return why something is not translated; `default` is the place if no expression is known."""
    if isinstance(error, RecursionError):
        error = NotTranslatable("expressions that are nested too deeply", "native.nesting")
    code = error.code or _find_code(error.node)
    at = default if error.node is None else error.node.at
    return Reason(code=code, text=str(error), at=at, hint=error.hint or HINTS[code])


def _find_code(node: ast.Node | None) -> str:
    if isinstance(node, ast.OperatorChain) and node.operators[0] in (*GENERAL, *SINGLE):
        return "native.comparison"
    return "native.expression" if node is None else _CODES.get(type(node), "native.expression")
