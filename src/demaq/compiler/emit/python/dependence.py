"""Refuse conditions in loops that do not depend on the loop.

Saxon evaluates these once, before the loop, and fails there even if the loop has no iteration (XQuery 3.1, 2.3.4,
allows it). A comprehension evaluates them in each iteration. So they are left to Saxon unless they cannot fail.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from demaq.compiler.emit.python.code import NotTranslatable
from demaq.language import ast
from demaq.language.namespaces import FN
from demaq.language.resolving.names import Names

_OF_FOCUS = ("string", "data", "number", "string-length", "normalize-space", "position", "last")
"""Functions that use the context item if called without arguments."""
_REASON = "a condition that does not depend on the loop it is in"


def require_dependence_on_focus(condition: ast.Expr, names: Names) -> None:
    """Raises NotTranslatable if a conjunct of a predicate does not depend on the context item."""
    for part in _split_conjuncts(condition):
        if not _is_constant(part, names) and not _depends_on_focus(part, names):
            raise NotTranslatable(_REASON)


def require_dependence_on(condition: ast.Expr, binders: Collection[ast.Node], names: Names) -> None:
    """Raises NotTranslatable if a conjunct of a condition does not depend on these variables."""
    for part in _split_conjuncts(condition):
        if not _is_constant(part, names) and not uses(part, binders, names):
            raise NotTranslatable(_REASON)


def uses(expr: ast.Node, binders: Collection[ast.Node], names: Names) -> bool:
    """Return whether an expression refers to a variable that one of these nodes binds."""
    found = [names.variables.get(node) for node in ast.walk(expr) if isinstance(node, ast.VarRef)]
    return any([binder in binders for binder in found if binder is not None])


def _split_conjuncts(condition: ast.Expr) -> Iterator[ast.Expr]:
    """Yield the operands of a conjunction; each can be evaluated alone."""
    match condition:
        case ast.Sequence(items=[only]):
            yield from _split_conjuncts(only)
        case ast.OperatorChain(operators=["and", *_]):
            for operand in condition.operands:
                yield from _split_conjuncts(operand)
        case _:
            yield condition


def _is_constant(expr: ast.Expr, names: Names) -> bool:
    if isinstance(expr, ast.FunctionCall):
        return names.functions.get(expr) in ((FN, "true", 0), (FN, "false", 0))
    return isinstance(expr, (ast.StringLiteral, ast.NumericLiteral))


def _depends_on_focus(expr: ast.Node, names: Names) -> bool:
    """Return whether an expression uses the context item itself, not only in an inner focus."""
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
