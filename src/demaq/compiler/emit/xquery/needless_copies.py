"""Find `copy` expressions that need no copy before they are updated.

The result is built anew with its updates, so the updates may be collected on the original if they only navigate down
from it: then every updated node lies in the original, and neither its parent nor its identity is observed.
"""

from __future__ import annotations

from typing import Literal

from demaq.compiler.emit.xquery.emitted_names import EmittedNames
from demaq.language import ast
from demaq.language.namespaces import FN, QS, XS

_DOWN = frozenset({"child", "descendant", "attribute"})
_HERE = frozenset({"self", "descendant-or-self"})
_OPERATORS = frozenset({"is", "<<", ">>", "intersect", "except"})
_TELLING = frozenset(
    {"root", "path", "base-uri", "document-uri", "generate-id", "id", "idref", "element-with-id", "lang", "outermost"}
    | {"innermost", "apply", "for-each", "for-each-pair", "filter", "fold-left", "fold-right", "function-lookup"}
    | {"transform", "load-xquery-module", "sort", "in-scope-prefixes", "namespace-uri-for-prefix", "resolve-QName"}
)
_ELSEWHERE = (ast.InlineFunction, ast.NamedFunctionRef, ast.Copy, ast.TransformWith, ast.Arrow, ast.Arguments)
"""Expressions that lead to code not analysed here, or to other copies."""


def is_needless(node: ast.Copy, names: EmittedNames) -> bool:
    """Return whether the single copy of an expression may be the original while its updates are collected."""
    if len(node.bindings) != 1:
        return False
    binding = node.bindings[0]
    return all([_is_harmless(part, binding, names) for part in ast.walk(node.modify)])


def _is_harmless(node: ast.Node, copy: ast.CopyBinding, names: EmittedNames) -> bool:
    match node:
        case ast.AxisStep():
            return node.axis in _DOWN or node.axis in _HERE
        case ast.OperatorChain():
            return _OPERATORS.isdisjoint(node.operators)
        case ast.FunctionCall():
            known = names.function(node)
            return known is not None and (known[0] in (QS, XS) or (known[0] == FN and known[1] not in _TELLING))
        case ast.Insert(where="before" | "after") | ast.Delete() | ast.Replace(value_of=False):
            return _locate(node.target, copy, names) == "below"
        case ast.Insert() | ast.Replace() | ast.Rename():
            return _locate(node.target, copy, names) is not None
    return not isinstance(node, _ELSEWHERE)


def _locate(target: ast.Expr, copy: ast.CopyBinding, names: EmittedNames) -> Literal["self", "below"] | None:
    """Return where the nodes of an expression certainly are: in the copy (perhaps the copy itself), or below it."""
    match target:
        case ast.VarRef():
            binder = names.variables.get(target)
            if binder is copy:
                return "self"
            return _locate(binder.expr, copy, names) if isinstance(binder, (ast.ForBinding, ast.LetBinding)) else None
        case ast.Postfix() if all([isinstance(suffix, ast.Predicate) for suffix in target.suffixes]):
            return _locate(target.base, copy, names)
        case ast.Sequence(items=(one,)):
            return _locate(one, copy, names)
        case ast.Path() if not target.separators[0]:
            start, *steps = target.steps
            place = _locate(start, copy, names)
            if place is None or not all([isinstance(step, ast.AxisStep) for step in steps]):
                return None
            goes_down = any([isinstance(step, ast.AxisStep) and step.axis in _DOWN for step in steps])
            return "below" if goes_down else place
    return None
