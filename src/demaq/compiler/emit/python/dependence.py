"""Conditions in loops that do not depend on the loop.

Saxon asks these once, before the loop, and fails there even if the loop has no turn (XQuery 3.1, 2.3.4, allows it). A
comprehension asks them in each turn. So they are left to Saxon, unless they cannot fail.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from demaq.compiler.emit.python.code import NotTranslatable
from demaq.language import ast
from demaq.language.namespaces import FN
from demaq.language.resolving.names import Names

_OF_FOCUS = ("string", "data", "number", "string-length", "normalize-space", "position", "last")
"""Functions that without an argument are about the context item."""
_REASON = "a condition that does not depend on the loop it is in"


def must_depend_on_focus(condition: ast.Expr, names: Names) -> None:
    """Raises NotSimple where a part of a predicate says the same of every item."""
    for part in _conjuncts(condition):
        if not _is_constant(part, names) and not _depends_on_focus(part, names):
            raise NotTranslatable(_REASON)


def must_depend_on(condition: ast.Expr, binders: Collection[ast.Node], names: Names) -> None:
    """Raises NotSimple where a part of a condition says the same whatever these variables are."""
    for part in _conjuncts(condition):
        if not _is_constant(part, names) and not uses(part, binders, names):
            raise NotTranslatable(_REASON)


def uses(expr: ast.Node, binders: Collection[ast.Node], names: Names) -> bool:
    """Whether an expression refers to a variable that one of these binds."""
    found = [names.variables.get(node) for node in ast.walk(expr) if isinstance(node, ast.VarRef)]
    return any([binder in binders for binder in found if binder is not None])


def _conjuncts(condition: ast.Expr) -> Iterator[ast.Expr]:
    """What must all hold: each may be asked by itself."""
    match condition:
        case ast.Sequence(items=[only]):
            yield from _conjuncts(only)
        case ast.OperatorChain(operators=["and", *_]):
            for operand in condition.operands:
                yield from _conjuncts(operand)
        case _:
            yield condition


def _is_constant(expr: ast.Expr, names: Names) -> bool:
    if isinstance(expr, ast.FunctionCall):
        return names.functions.get(expr) in ((FN, "true", 0), (FN, "false", 0))
    return isinstance(expr, (ast.StringLiteral, ast.NumericLiteral))


def _depends_on_focus(expr: ast.Node, names: Names) -> bool:
    """Whether an expression asks for the context item itself, not only in an inner focus."""
    match expr:
        case ast.ContextItem() | ast.Root() | ast.AxisStep():
            return True
        case ast.Path():
            return expr.separators[0] != "" or _depends_on_focus(expr.steps[0], names)
        case ast.Postfix():
            return _depends_on_focus(expr.base, names)
        case ast.OperatorChain(operators=["!", *_]):
            return _depends_on_focus(expr.operands[0], names)
        case ast.FunctionCall(args=()):
            known = names.functions.get(expr)
            return known is not None and known[0] == FN and known[1] in _OF_FOCUS
    return any([_depends_on_focus(child, names) for child in ast.children(expr)])
