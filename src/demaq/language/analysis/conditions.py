"""Determine the branch of a rule that an action stands in, and the conditions under which it is reached.

    if (/order) then                    scope 1: /order holds
      if (//paid) then do reset         scope 2: /order and //paid hold
      else do enqueue <x/> into q       scope 3: /order holds, //paid does not

A pass reads the events in order, and updates its own state when it enters and leaves a scope.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from demaq.language import ast

EventKind: TypeAlias = Literal["enter", "leave", "action", "value"]


@dataclass(slots=True, eq=False)
class BranchCondition:
    """The condition of one branch, in addition to those of the enclosing scope."""

    parent: BranchCondition | None
    condition: ast.Expr | None
    holds: bool | None
    """Whether the condition holds; None if it is only known to have been evaluated."""
    once: bool
    """Whether an action in this branch happens exactly once if all conditions hold as given."""


@dataclass(slots=True, eq=False)
class Event:
    """`enter` and `leave` have a scope, `action` an Enqueue or Reset, `value` an evaluated expression."""

    kind: EventKind
    scope: BranchCondition
    node: ast.Node | None = None


def find_branch_events(expr: ast.Expr) -> list[Event]:
    """Return the branches of an updating expression in source order. Runs inside `deep_recursion`."""
    reader = _ConditionReader()
    reader.read(expr, BranchCondition(None, None, None, True))
    return reader.events


class _ConditionReader:
    def __init__(self) -> None:
        self.events: list[Event] = []

    def read(self, node: ast.Expr, scope: BranchCondition) -> None:
        match node:
            case ast.Enqueue() | ast.Reset():
                self.events.append(Event("action", scope, node))
                for child in ast.children(node):
                    self._value(child, scope)
            case ast.Sequence():
                for item in node.items:
                    self.read(item, scope)
            case ast.If():
                self._value(node.condition, scope)
                self._inside(node.then, BranchCondition(scope, node.condition, True, scope.once))
                if node.otherwise is not None:
                    self._inside(node.otherwise, BranchCondition(scope, node.condition, False, scope.once))
            case ast.Flwor():
                self._flwor(node, scope)
            case ast.Switch():
                self._value(node.operand, scope)
                for case in node.cases:
                    for value in case.values:
                        self._value(value, scope)
                self._cases(node.operand, [case.result for case in node.cases], node.default, scope)
            case ast.Typeswitch():
                self._value(node.operand, scope)
                self._cases(node.operand, [case.result for case in node.cases], node.default, scope)
            case ast.Copy():
                for binding in node.bindings:
                    self._value(binding.expr, scope)
                self._value(node.modify, scope)
                self.read(node.result, scope)
            case _:
                self._value(node, scope)

    def _value(self, node: ast.Node, scope: BranchCondition) -> None:
        self.events.append(Event("value", scope, node))

    def _inside(self, node: ast.Expr, scope: BranchCondition) -> None:
        self.events.append(Event("enter", scope))
        self.read(node, scope)
        self.events.append(Event("leave", scope))

    def _cases(self, operand: ast.Expr, results: list[ast.Expr], default: ast.Expr, scope: BranchCondition) -> None:
        for result in (*results, default):
            self._inside(result, BranchCondition(scope, operand, None, False))

    def _flwor(self, node: ast.Flwor, scope: BranchCondition) -> None:
        opened: list[BranchCondition] = []
        for clause in node.clauses:
            self._value(clause, scope)
            if isinstance(clause, ast.WhereClause):
                scope = BranchCondition(scope, clause.condition, True, scope.once)
            elif isinstance(clause, (ast.LetClause, ast.OrderByClause)):
                continue
            else:
                scope = BranchCondition(scope, None, None, False)
            opened.append(scope)
            self.events.append(Event("enter", scope))
        self.read(node.result, scope)
        for inner in reversed(opened):
            self.events.append(Event("leave", inner))
