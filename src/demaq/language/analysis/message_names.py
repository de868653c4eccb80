"""Collect the element names that an expression selects in the message it is evaluated on.

    if (/order[customer]) then do enqueue <x>{qs:queue("crm")//person}</x> into q

selects `order` as the root of the message and `customer` somewhere in it; `person` is in other messages. Names that
functions select in their arguments are not collected.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from demaq.language import ast
from demaq.language.analysis.shapes import ElementName
from demaq.language.namespaces import QS
from demaq.language.recursion import deep_recursion
from demaq.language.resolving.names import Names
from demaq.source import SourceLocation

_BINDINGS = (ast.LetBinding, ast.ForBinding, ast.QuantifiedBinding, ast.CopyBinding)
_SETS = frozenset({"|", "union", "intersect", "except"})


@dataclass(frozen=True, slots=True)
class MessageName:
    """An element that an expression selects in the message."""

    name: ElementName
    at: SourceLocation
    is_root: bool
    """Whether it can only be the root of the message."""


class _Focus(Enum):
    DOCUMENT = "the document node of the message"
    INSIDE = "nodes of the message"
    ELSEWHERE = "anything else"


def find_message_names(expr: ast.Expr, names: Names) -> list[MessageName]:
    """Return the names that an expression selects in the message, in source order."""
    with deep_recursion():
        reader = _NameReader(names)
        reader.visit(expr, _Focus.DOCUMENT)
    return reader.found


class _NameReader:
    def __init__(self, names: Names) -> None:
        self._names = names
        self._bound: dict[ast.Node, _Focus] = {}
        """What the variables hold."""
        self.found: list[MessageName] = []

    def visit(self, node: ast.Node, focus: _Focus) -> None:
        match node:
            case ast.AxisStep():
                self._note(node, focus)
                self._visit_all(node.predicates, _below(focus))
            case ast.Path():
                self._walk(node, focus)
            case ast.OperatorChain(operators=("!", *_)):
                for operand in node.operands:
                    self.visit(operand, focus)
                    focus = self._select(operand, focus)
            case ast.Postfix():
                self.visit(node.base, focus)
                inner = self._select(node.base, focus)
                for suffix in node.suffixes:
                    self.visit(suffix, inner if isinstance(suffix, ast.Predicate) else focus)
            case ast.TransformWith():
                self.visit(node.operand, focus)
                if node.modify is not None:
                    self.visit(node.modify, self._select(node.operand, focus))
            case ast.InlineFunction():
                self._visit_all(ast.children(node), _Focus.ELSEWHERE)
            case _:
                self._visit_all(ast.children(node), focus)
                if isinstance(node, _BINDINGS):
                    self._bound[node] = self._select(node.expr, focus)

    def _visit_all(self, nodes: Sequence[ast.Node], focus: _Focus) -> None:
        for node in nodes:
            self.visit(node, focus)

    def _note(self, step: ast.AxisStep, focus: _Focus) -> None:
        uri, local = self._names.elements.get(step.test, (None, "*"))
        if focus is not _Focus.ELSEWHERE and uri is not None and local != "*":
            is_root = focus is _Focus.DOCUMENT and step.axis == "child"
            self.found.append(MessageName((uri, local), step.test.at, is_root))

    def _walk(self, path: ast.Path, focus: _Focus, visit: bool = True) -> _Focus:
        """Traverse a path; return where it ends."""
        if path.separators[0] and focus is not _Focus.ELSEWHERE:
            focus = _Focus.DOCUMENT
        for separator, step in zip(path.separators, path.steps, strict=True):
            if separator == "//":
                focus = _below(focus)
            if visit:
                self.visit(step, focus)
            focus = self._select(step, focus)
        return focus

    def _select(self, expr: ast.Node, focus: _Focus) -> _Focus:
        """Return what an expression selects."""
        match expr:
            case ast.ContextItem():
                return focus
            case ast.Root():
                return focus if focus is _Focus.ELSEWHERE else _Focus.DOCUMENT
            case ast.AxisStep():
                return _below(focus)
            case ast.Path():
                return self._walk(expr, focus, visit=False)
            case ast.Postfix() if all([isinstance(suffix, ast.Predicate) for suffix in expr.suffixes]):
                return self._select(expr.base, focus)
            case ast.Sequence(items=[only]):
                return self._select(only, focus)
            case ast.OperatorChain() if expr.operators[0] in _SETS:
                return self._select(expr.operands[0], focus)
            case ast.OperatorChain(operators=("!", *_)):
                for operand in expr.operands:
                    focus = self._select(operand, focus)
                return focus
            case ast.FunctionCall() if self._names.functions.get(expr) == (QS, "message", 0):
                return _Focus.DOCUMENT
            case ast.VarRef():
                binder = self._names.variables.get(expr)
                return self._bound.get(binder, _Focus.ELSEWHERE) if binder is not None else _Focus.ELSEWHERE
            case _:
                return _Focus.ELSEWHERE


def _below(focus: _Focus) -> _Focus:
    return focus if focus is _Focus.ELSEWHERE else _Focus.INSIDE
