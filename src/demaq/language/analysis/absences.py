"""Find the messages whose absence from slices and queues a condition tests: what keeps a rule from firing twice.

not(qs:slice()/offer or qs:slice()/refusal)     tests the absence of offer and refusal
qs:slice()/offer, if it does not hold           tests the absence of offer
count(qs:slice()) = 1                           tests the absence of anything
"""

from __future__ import annotations

from dataclasses import dataclass, field

from demaq.language import ast
from demaq.language.analysis.shapes import ElementName, resolve_let
from demaq.language.namespaces import FN, QS
from demaq.language.resolving.names import Names

ANYTHING: ElementName = ("", "*")
"""Stands for a test that names no element, or one that is not analysed: it may test for anything."""

_FLIPS = ((FN, "not", 1), (FN, "empty", 1))
_KEEPS = ((FN, "exists", 1), (FN, "boolean", 1))
_STATE = ((QS, "slice"), (QS, "queue"))
_EXISTENCE_COMPARISONS = frozenset({"=", "!=", "<", "<=", ">", ">=", "eq", "ne", "lt", "le", "gt", "ge"})


@dataclass(slots=True)
class _Facts:
    """What an expression reads, through the variables it uses."""

    reads_state: bool = False
    counts: bool = False
    elements: set[ElementName] = field(default_factory=set)


class Absences:
    """Analyses the conditions of one rule. Runs inside `deep_recursion`."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self._bindings: dict[ast.Node, _Facts] = {}

    def find_tested(self, condition: ast.Expr, holds: bool | None) -> list[ElementName]:
        """Return the elements whose absence is tested if the condition holds, fails, or (None) was evaluated."""
        found: list[ElementName] = []
        waiting: list[tuple[ast.Expr, bool | None]] = [(condition, holds)]
        while waiting:
            expr, positive = waiting.pop()
            expr = resolve_let(expr, self.names)
            key = self.names.functions.get(expr)
            if isinstance(expr, ast.OperatorChain) and expr.operators[0] in ("and", "or"):
                waiting.extend([(operand, positive) for operand in expr.operands])
            elif isinstance(expr, ast.FunctionCall) and key in _FLIPS:
                waiting.append((expr.args[0], None if positive is None else not positive))
            elif isinstance(expr, ast.FunctionCall) and key in _KEEPS:
                waiting.append((expr.args[0], positive))
            else:
                found.extend(self._atom(expr, positive))
        return found

    def _atom(self, expr: ast.Expr, positive: bool | None) -> list[ElementName]:
        facts = self._facts(expr)
        if not facts.reads_state or (positive is True and self._asks_for_presence(expr, facts)):
            return []
        return sorted(facts.elements) or [ANYTHING]

    def _asks_for_presence(self, expr: ast.Expr, facts: _Facts) -> bool:
        """Return whether the expression is true because something exists, and not because it is missing."""
        if facts.counts:
            return False
        match expr:
            case ast.Path() | ast.Postfix() | ast.AxisStep():
                return True
            case ast.Quantified():
                return expr.kind == "some"
            case ast.OperatorChain():
                return expr.operators[0] in _EXISTENCE_COMPARISONS
            case ast.FunctionCall():
                return self.names.functions.get(expr, ("", ""))[:2] in _STATE
        return False

    def _facts(self, expr: ast.Expr) -> _Facts:
        facts = _Facts()
        for node in ast.walk(expr):
            key = self.names.functions.get(node)
            if key is not None:
                facts.reads_state |= key[:2] in _STATE
                facts.counts |= key[:2] == (FN, "count")
            elif isinstance(node, ast.NameTest):
                uri, local = self.names.elements.get(node, (None, "*"))
                if uri is not None and local != "*":
                    facts.elements.add((uri, local))
            elif isinstance(node, ast.VarRef):
                self._add_binding(node, facts)
        return facts

    def _add_binding(self, node: ast.VarRef, facts: _Facts) -> None:
        binder = self.names.variables.get(node)
        if not isinstance(binder, (ast.LetBinding, ast.ForBinding, ast.QuantifiedBinding)):
            return
        known = self._bindings.get(binder)
        if known is None:
            known = self._bindings[binder] = self._facts(binder.expr)
        facts.reads_state |= known.reads_state
        facts.counts |= known.counts
        facts.elements |= known.elements
