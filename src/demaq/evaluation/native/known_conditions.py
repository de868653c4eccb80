"""Leave out conditions of a translated function that are known to hold, or not to hold, where they are tested.

if m.tag == 'order': … (m.get('id') if m.tag == 'order' else None) …
if m.tag == 'order': … m.get('id') …
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from demaq.evaluation.native.comprehensions import target_names
from demaq.evaluation.native.pure_values import PureValue, PureValues

_NEGATED: dict[type[ast.cmpop], ast.cmpop] = {ast.NotEq: ast.Eq(), ast.IsNot: ast.Is()}
"""Comparisons that are tested as the opposite of others."""


def drop_known_conditions(function: ast.FunctionDef) -> None:
    """Change a function such that it tests nothing again that it has tested."""
    _Knowledge().simplify_statements(function.body)


class _Knowledge(ast.NodeTransformer):
    """What is known while a function is gone through in the order of its evaluation."""

    def __init__(self) -> None:
        self._values = PureValues()
        self._known: dict[int, tuple[bool, PureValue]] = {}
        """Whether conditions hold, by their keys."""

    def simplify_statements(self, statements: Sequence[ast.stmt]) -> None:
        before = dict(self._known)
        for statement in statements:
            if isinstance(statement, ast.If):
                statement.test = self._test(statement.test)
                self._assume_for(statement.test, True, statement.body)
                self._assume_for(statement.test, False, statement.orelse)
                if isinstance(statement.body[-1], ast.Return) and not statement.orelse:
                    self._assume(statement.test, False)
            else:
                self.generic_visit(statement)
        self._known = before

    def _assume_for(self, condition: ast.expr, holds: bool, statements: Sequence[ast.stmt]) -> None:
        before = dict(self._known)
        self._assume(condition, holds)
        self.simplify_statements(statements)
        self._known = before

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        node.test = self._test(node.test)
        if isinstance(node.test, ast.Constant):
            return self._visit(node.body if node.test.value else node.orelse)
        before = dict(self._known)
        self._assume(node.test, True)
        node.body = self._visit(node.body)
        self._known = dict(before)
        self._assume(node.test, False)
        node.orelse = self._visit(node.orelse)
        self._known = before
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        before = dict(self._known)
        for index, value in enumerate(node.values):
            node.values[index] = self._visit(value)
            self._assume(node.values[index], isinstance(node.op, ast.And))
        self._known = before
        return node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        if not isinstance(node.op, ast.Not):
            self.generic_visit(node)
            return node
        node.operand = self._test(node.operand)
        return ast.Constant(not node.operand.value) if isinstance(node.operand, ast.Constant) else node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        match node:
            case ast.Call(func=ast.Name(id="bool"), args=[condition]):
                node.args = [self._test(condition)]
            case _:
                self.generic_visit(node)
        return node

    def visit_ListComp(self, node: ast.ListComp) -> ast.expr:
        before = dict(self._known)
        node.generators[0].iter = self._visit(node.generators[0].iter)
        bound = [name for generator in node.generators for name in target_names(generator.target)]
        if len(set(bound)) < len(bound):
            return node
        self._known = {key: known for key, known in self._known.items() if not known[1].names.intersection(bound)}
        for generator in node.generators:
            if generator is not node.generators[0]:
                generator.iter = self._visit(generator.iter)
            conditions = []
            for condition in generator.ifs:
                found = self._test(condition)
                self._assume(found, True)
                if not isinstance(found, ast.Constant) or not found.value:
                    conditions.append(found)
            generator.ifs = conditions
        node.elt = self._visit(node.elt)
        self._known = before
        return node

    def visit_GeneratorExp(self, node: ast.GeneratorExp) -> ast.expr:
        return node  # it is evaluated later

    def _visit(self, node: ast.expr) -> ast.expr:
        found = self.visit(node)
        assert isinstance(found, ast.expr), "an expression remains one"
        return found

    def _test(self, node: ast.expr) -> ast.expr:
        """Return an expression of which only the truth matters; a constant if that is known."""
        match node:
            case ast.BoolOp():
                return self._test_all(node)
            case ast.Call(func=ast.Name(id="bool"), args=[condition]):
                return self._test(condition)
        fact = self._find_fact(node)
        if fact is not None and fact[0].key in self._known:
            value, is_same = fact
            return ast.Constant(self._known[value.key][0] == is_same)
        return self._visit(node)

    def _test_all(self, node: ast.BoolOp) -> ast.expr:
        """Return conditions without those that decide nothing."""
        before = dict(self._known)
        is_and = isinstance(node.op, ast.And)
        found: list[ast.expr] = []
        for value in node.values:
            condition = self._test(value)
            self._assume(condition, is_and)
            if not isinstance(condition, ast.Constant) or bool(condition.value) is not is_and:
                found.append(condition)
        self._known = before
        if not found:
            return ast.Constant(is_and)
        return found[0] if len(found) == 1 else ast.BoolOp(node.op, found)

    def _assume(self, condition: ast.expr, holds: bool) -> None:
        """Know from here on whether a condition holds."""
        match condition:
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                self._assume(operand, not holds)
            case ast.BoolOp(op=operator, values=values):
                if isinstance(operator, ast.And) is holds:
                    for value in values:
                        self._assume(value, holds)
            case ast.Call(func=ast.Name(id="bool"), args=[operand]):
                self._assume(operand, holds)
            case _:
                fact = self._find_fact(condition)
                if fact is not None:
                    self._known[fact[0].key] = holds == fact[1], fact[0]

    def _find_fact(self, condition: ast.expr) -> tuple[PureValue, bool] | None:
        """Return what a condition tests, and whether it is true if that is; None if it may change."""
        match condition:
            case ast.Constant():
                return None
            case ast.Compare(left=left, ops=[operator], comparators=others) if type(operator) in _NEGATED:
                found = self._values.describe(ast.Compare(left, [_NEGATED[type(operator)]], others))
                return None if found is None else (found, False)
        found = self._values.describe(condition)
        return None if found is None or found.is_iterator else (found, True)
