"""Refuse conditions in loops that do not depend on the loop.

Saxon evaluates these once, before the loop, and fails there even if the loop has no iteration (XQuery 3.1, 2.3.4,
allows it). A comprehension evaluates them in each iteration. So they are left to Saxon unless they cannot fail.
"""

from __future__ import annotations

from collections.abc import Collection

from demaq.compiler.emit.python.code import NotTranslatable
from demaq.compiler.trees import find_variables, split_conjuncts, uses_focus
from demaq.language import ast
from demaq.language.namespaces import FN
from demaq.language.resolving.names import Names

_REASON = "a condition that does not depend on the loop it is in"


def require_dependence_on_focus(condition: ast.Expr, names: Names) -> None:
    """Raises NotTranslatable if a conjunct of a predicate does not depend on the context item."""
    for part in split_conjuncts(condition):
        if not _is_constant(part, names) and not uses_focus(part, names):
            raise NotTranslatable(_REASON)


def require_dependence_on(condition: ast.Expr, binders: Collection[ast.Node], names: Names) -> None:
    """Raises NotTranslatable if a conjunct of a condition does not depend on these variables."""
    for part in split_conjuncts(condition):
        if not _is_constant(part, names) and not uses(part, binders, names):
            raise NotTranslatable(_REASON)


def uses(expr: ast.Node, binders: Collection[ast.Node], names: Names) -> bool:
    """Return whether an expression refers to a variable that one of these nodes binds."""
    found = [names.variables.get(node) for node in find_variables(expr)]
    return any([binder in binders for binder in found if binder is not None])


def _is_constant(expr: ast.Expr, names: Names) -> bool:
    if isinstance(expr, ast.FunctionCall):
        return names.functions.get(expr) in ((FN, "true", 0), (FN, "false", 0))
    return isinstance(expr, (ast.StringLiteral, ast.NumericLiteral))
