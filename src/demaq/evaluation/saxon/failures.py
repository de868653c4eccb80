"""Describe Saxon's errors at run time to an author: words without internals, and the narrowest location.

Saxon reports no location of their own for some errors, among them those of value comparisons (`eq`, `lt` …) and of
sum(), but that of the enclosing construct, or none. The message shows which kind of expression has failed. If the rule
has one such expression there, that is the location; if it has several, it is the narrowest expression around them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from demaq.language import ast
from demaq.language.program.program import ModuleContext, Rule
from demaq.source import SourceLocation


def place_in_attributes(rule: Rule, module: ModuleContext) -> SourceLocation | None:
    """Return the computed attribute, if there is only one; the action, if all are in one; else None."""
    if any([True for prolog in _prologs(module) for _ in _computed_attributes(prolog)]):
        return None
    found = list(_computed_attributes([rule.body]))
    if len(found) == 1:
        return found[0].at
    actions = [node for node in ast.walk(rule.body) if isinstance(node, ast.Enqueue)]
    around = [action.at for action in actions if found and _holds(action.at, found)]
    return around[0] if around else None


def _prologs(module: ModuleContext) -> Iterator[Sequence[ast.Node]]:
    yield module.tree.prolog
    for library in module.libraries:
        yield library.prolog


def _computed_attributes(trees: Sequence[ast.Node]) -> Iterator[ast.DirectAttribute]:
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.DirectAttribute) and any([isinstance(part, ast.Enclosed) for part in node.parts]):
                yield node


def _holds(place: SourceLocation, nodes: Sequence[ast.Node]) -> bool:
    return all([place.start <= node.at.start and node.at.end <= place.end for node in nodes])


BASE_URI = "http://demaq.invalid/"
"""The base of relative URIs in rules, unless their module declares another. It is removed from messages."""

VALUE_COMPARISONS = frozenset({"eq", "ne", "lt", "le", "gt", "ge"})

UNTYPED_HINT = (
    "what is read from a message is text for `eq` and its kin: compare with `=`, or convert it, as in number(@n) eq 5"
)

_PARSER = re.compile(
    r"org\.xml\.sax\.SAXParseException; (?:systemId: [^;]*; )?lineNumber: (\d+); columnNumber: (\d+); (.*)", re.DOTALL
)
_NOT_COMPARABLE = re.compile(r"Values are not comparable \(xs:(\w+), xs:(\w+)\)")
_COLLATION = re.compile(r"collation (\S+) is not supported")


def readable(description: str) -> str:
    """Return Saxon's words without the names of its classes and without our base URI."""
    match = _PARSER.search(description)
    if match is not None:
        line, column, reason = match.groups()
        half = len(reason) // 2
        reason = reason[:half] if len(reason) % 2 == 0 and reason[:half] == reason[half:] else reason
        description = f"{description[: match.start()]}Line {line}, column {column}: {reason}"
    if "xs:untypedAtomic" in description and _NOT_COMPARABLE.search(description):
        description = f"{description}; {UNTYPED_HINT}"
    return description.replace(BASE_URI, "") if BASE_URI in description else description


def narrowest_place(
    at: SourceLocation | None, rule: Rule, module: ModuleContext, description: str
) -> SourceLocation | None:
    """Return where a rule has failed, given the location that Saxon reports (if any) and its message."""
    is_culprit = _culprits(description)
    if is_culprit is None:
        return at
    inside = [node for node in _walk_around(rule.body, at) if is_culprit(node)]
    if not inside:
        functions = [item for item in module.tree.prolog if isinstance(item, ast.FunctionDecl)]
        called = [node for function in functions for node in ast.walk(function) if is_culprit(node)]
        return called[0].at if len(called) == 1 else at
    if len(inside) == 1:
        return inside[0].at
    first, last = min([node.at.start for node in inside]), max([node.at.end for node in inside])
    around = [node.at for node in _walk_around(rule.body, at) if node.at.start <= first and last <= node.at.end]
    return min(around, key=lambda place: place.end - place.start, default=at)


def _walk_around(body: ast.Node, at: SourceLocation | None) -> Iterator[ast.Node]:
    """Yield the nodes of a rule's body that are inside of a location, or all of them."""
    for node in ast.walk(body):
        if at is None or (node.at.source is at.source and at.start <= node.at.start and node.at.end <= at.end):
            yield node


def _culprits(description: str) -> Callable[[ast.Node], bool] | None:
    """Return a predicate for expressions that may have failed with this message; None if Saxon has located it."""
    compared = _NOT_COMPARABLE.search(description)
    if compared is not None:
        types = compared.groups()
        return lambda node: _may_compare(node, types)
    if "found while sorting" in description:
        return lambda node: isinstance(node, ast.OrderSpec) or _calls(node, "sort")
    if "Input to sum()" in description or description.endswith(" to double"):
        return lambda node: _calls(node, "sum")
    if "date and time are in different timezones" in description:
        return lambda node: _calls(node, "dateTime")
    collation = _COLLATION.search(description)
    if collation is not None:
        name = collation[1]
        return lambda node: isinstance(node, ast.StringLiteral) and node.value == name
    return None


def _may_compare(node: ast.Node, types: tuple[str, ...]) -> bool:
    """Return whether a node is a value comparison whose literal operands are of these types."""
    if not isinstance(node, ast.OperatorChain) or node.operators[0] not in VALUE_COMPARISONS:
        return False
    return all([_literal_type(operand) in (None, type_) for operand, type_ in zip(node.operands, types, strict=False)])


def _literal_type(expr: ast.Expr) -> str | None:
    if isinstance(expr, ast.StringLiteral):
        return "string"
    if not isinstance(expr, ast.NumericLiteral):
        return None
    if "e" in expr.text.lower():
        return "double"
    return "decimal" if "." in expr.text else "integer"


def _calls(node: ast.Node, function: str) -> bool:
    return isinstance(node, ast.FunctionCall) and node.name.local == function and node.name.prefix in (None, "fn")
