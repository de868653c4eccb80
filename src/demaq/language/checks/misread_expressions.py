"""Warn of legal expressions that mean something else than in most languages: `!=` on several items, `||`, `--`, null.

A warning is given only if the meaning in XQuery is hardly ever intended.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from demaq.language import ast
from demaq.language.diagnostics import Diagnostic, warning
from demaq.language.namespaces import FN, QS
from demaq.language.program.draft import Draft
from demaq.language.resolving.names import Names
from demaq.source import SourceLocation

_CONSTANTS = {"null": "", "nil": "", "undefined": "", "true": "true()", "false": "false()"}
_WORDS = frozenset({"not", "then", "else", "and", "or", "return"})
_SEVERAL = {(QS, "queue"), (QS, "slice"), (FN, "collection"), (FN, "distinct-values"), (FN, "tokenize")}
_COMPARISONS = frozenset({"=", "!=", "<", "<=", ">", ">=", "eq", "ne", "lt", "le", "gt", "ge", "is"})


def misread_expressions(draft: Draft) -> Iterator[Diagnostic]:
    for module in draft.modules:
        trees: list[tuple[ast.Node, Names]] = [(module.tree, module.names)]
        trees += [(library.tree, library.names) for library in module.libraries]
        for tree, names in trees:
            for node in ast.walk(tree):
                yield from _check_node(node, names)


def _check_node(node: ast.Node, names: Names) -> Iterator[Diagnostic]:
    if isinstance(node, ast.OperatorChain):
        yield from _operation(node, names)
    elif isinstance(node, ast.If):
        yield from _check_condition(node.condition)
    elif isinstance(node, (ast.WhereClause, ast.Predicate)):
        yield from _check_concatenation(node.condition)
    elif isinstance(node, ast.Path):
        yield from _path(node)


def _operation(node: ast.OperatorChain, names: Names) -> Iterator[Diagnostic]:
    if node.operators[0] in _COMPARISONS:
        for operand in node.operands:
            yield from _check_constant(operand)
    if node.operators[0] in ("and", "or"):
        for operand in node.operands:
            yield from _check_condition(operand)
    if node.operators == ("!=",):
        yield from _check_inequality(node, names)
    for operator, left, right in zip(node.operators, node.operands, node.operands[1:], strict=False):
        between = node.at.source.text[left.at.end : right.at.start + 1]
        if operator == "-" and isinstance(right, ast.Unary) and between.lstrip().startswith("--"):
            at = SourceLocation(node.at.source, right.at.start - 1, right.at.start + 1)
            yield warning(
                "DQ1304", "`--` is twice a minus; it does not begin a comment", at, "comments are written (: … :)"
            )


def _check_inequality(node: ast.OperatorChain, names: Names) -> Iterator[Diagnostic]:
    left, right = node.operands
    if any([isinstance(operand, ast.Sequence) and not operand.items for operand in (left, right)]):
        text = "a comparison with the empty sequence is never true"
        yield warning("DQ1305", text, node.at, "write exists(…), or not(exists(…))")
        return
    for operand in (left, right):
        if _is_several(operand, names, 0):
            a, b = left.at.text, right.at.text
            hint = "write not(… = …) if none may be equal"
            if len(a) + len(b) < 60 and "\n" not in a + b:
                hint = f"write not({a} = {b}) if none may be equal"
            text = "`!=` is true as soon as one of several items differs"
            yield warning("DQ1305", text, node.at, hint)
            return


def _is_several(expr: ast.Expr, names: Names, depth: int) -> bool:
    """Return whether an expression by its form selects several items: descendants, whole queues and slices, lists."""
    if depth > 9:
        return False
    match expr:
        case ast.Sequence():
            return len(expr.items) > 1
        case ast.FunctionCall():
            key = names.functions.get(expr)
            return key is not None and key[:2] in _SEVERAL
        case ast.VarRef():
            binder = names.variables.get(expr)
            return isinstance(binder, ast.LetBinding) and _is_several(binder.expr, names, depth + 1)
        case ast.Path():
            if _is_positional(expr.steps[-1]):
                return False
            return "//" in expr.separators or _is_several(expr.steps[0], names, depth + 1)
    return False


def _is_positional(step: ast.Expr) -> bool:
    """Return whether a step ends with a predicate that selects one item: `[1]`, `[last()]`."""
    last: ast.Node | None = None
    if isinstance(step, ast.AxisStep) and step.predicates:
        last = step.predicates[-1].condition
    elif isinstance(step, ast.Postfix) and isinstance(step.suffixes[-1], ast.Predicate):
        last = step.suffixes[-1].condition
    return isinstance(last, ast.NumericLiteral) or (isinstance(last, ast.FunctionCall) and last.name.local == "last")


def _check_condition(expr: ast.Expr) -> Iterator[Diagnostic]:
    yield from _check_constant(expr)
    yield from _check_concatenation(expr)


def _check_concatenation(expr: ast.Expr) -> Iterator[Diagnostic]:
    if isinstance(expr, ast.OperatorChain) and expr.operators[0] == "||":
        text = "`||` joins strings, and a string is true if it is not empty"
        yield warning("DQ1304", text, expr.at, "write `or` if one of them is to hold")


def _check_constant(expr: ast.Expr) -> Iterator[Diagnostic]:
    if not isinstance(expr, ast.AxisStep) or expr.axis != "child" or expr.predicates:
        return
    word = expr.at.text
    if word in _CONSTANTS:
        meant = _CONSTANTS[word]
        hint = f"write {meant}" if meant else "there is no null: write exists(…) or not(exists(…))"
        yield warning("DQ1205", f"`{word}` is read as the name of a child element here", expr.at, hint)


def _path(node: ast.Path) -> Iterator[Diagnostic]:
    text = node.at.source.text
    first = node.steps[0]
    word = first.at.text if isinstance(first, ast.AxisStep) and node.separators[0] == "" else ""
    if word in _WORDS and text[first.at.end : first.at.end + 1].isspace():
        hint = "write not(…)" if word == "not" else "leave it out"
        yield warning("DQ1205", f"`{word}` is read as the name of a child element here", first.at, hint)
    for separator, before, step in zip(node.separators[1:], node.steps, node.steps[1:], strict=False):
        if separator == "/" and isinstance(step, ast.NumericLiteral):
            hint = "write `div` to divide"
            yield warning("DQ1304", "`/` continues a path; it does not divide", step.at, hint)
        elif separator == "//" and _reads_like_comment(text, before.at.end, step):
            hint = "comments are written (: … :); a path is written without blanks: a//b"
            yield warning("DQ1304", "`//` continues a path; it does not begin a comment", step.at, hint)


def _reads_like_comment(text: str, end: int, step: ast.Expr) -> bool:
    """Return whether `//` and one word end a line, separated from what is before."""
    between = text[end : step.at.start]
    is_apart = re.fullmatch(r"[ \t]+//[ \t]+", between) is not None
    return is_apart and re.match(r"[ \t]*(?:\n|$)", text[step.at.end :]) is not None
