"""Evaluate calls in translated expressions once, when a function is loaded, if their arguments are constants.

for v1 in (date(v2),) if order_moments(v1, date('2026-01-01')) > 0
for v1 in (date(v2),) if order_moments(v1, constant0) > 0
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import Any

_PURE = (
    *("Decimal", "Untyped", "AnyUri", "boolean", "integer", "decimal", "double", "cast_double", "single"),
    *("date", "date_time", "time", "day_times", "year_months", "timeout_values"),
)
"""Functions whose value depends on nothing but their arguments, and is never changed."""


def fold_constant_calls(tree: ast.Module, called: Mapping[str, Any]) -> dict[str, Any]:
    """Replace constant calls by variables, as far as they succeed. Return the values of these.

    A call that fails remains, and fails again where it is evaluated.
    """
    folding = _Folding({name: called[name] for name in _PURE})
    folding.visit(tree)
    return folding.values


class _Folding(ast.NodeTransformer):
    def __init__(self, pure: Mapping[str, Callable[..., Any]]) -> None:
        self._pure = pure
        self.values: dict[str, Any] = {}

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if not isinstance(node.func, ast.Name) or node.func.id not in self._pure or node.keywords:
            return node
        if not all([self._is_constant(argument) for argument in node.args]):
            return node
        try:
            value = self._pure[node.func.id](*[self._value_of(argument) for argument in node.args])
        except Exception:
            return node
        name = f"constant{len(self.values)}"
        self.values[name] = value
        return ast.copy_location(ast.Name(name, ast.Load()), node)

    def _is_constant(self, node: ast.expr) -> bool:
        if isinstance(node, ast.List):
            return all([self._is_constant(item) for item in node.elts])
        return isinstance(node, ast.Constant) or (isinstance(node, ast.Name) and node.id in self.values)

    def _value_of(self, node: ast.expr) -> Any:
        if isinstance(node, ast.List):
            return [self._value_of(item) for item in node.elts]
        if isinstance(node, ast.Name):
            return self.values[node.id]
        assert isinstance(node, ast.Constant), "it is constant"
        return node.value
