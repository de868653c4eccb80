"""Take a condition apart: which of its parts is false, and what was there instead.

    /order and /order/total > 100            /order/total > 100     "90" > 100
    some $i in //item satisfies $i/@n > 5    for none of 2 items: $i/@n > 5, "3" > 5
    not(qs:slice()/paid)                     there is <paid/>

Every part is evaluated again, in the context that the rule gives it. What cannot be taken apart is reported as a whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from demaq.compiler.trees import has_no_else, split_conjuncts
from demaq.evaluation.saxon.rule_probe import ProbedValue
from demaq.language import ast
from demaq.language.namespaces import FN, XS
from demaq.operations.why.empty_finder import EmptyFinder
from demaq.operations.why.examination import NESTING_MAX, Examination, text_of
from demaq.operations.why.frames import CallFrame, Frames, TupleFrame, quantified_clauses, split_clauses
from demaq.operations.why.near_misses import comparison_hint
from demaq.operations.why.shown_values import count_of, show_value, write_value
from demaq.operations.why.verdicts import Cause

_GENERAL = frozenset({"=", "!=", "<", "<=", ">", ">="})
_VALUE = frozenset({"eq", "ne", "lt", "le", "gt", "ge"})
_NODE = frozenset({"is", "<<", ">>"})
NUMBERS = frozenset({"xs:integer", "xs:decimal", "xs:double", "xs:float"})
COMPARISONS = _GENERAL | _VALUE | _NODE
_READS = (ast.Path, ast.AxisStep, ast.Postfix, ast.VarRef, ast.FunctionCall)
"""Expressions that may find nothing without being written as nothing."""
ALTERNATIVES_MAX = 8
CALL_TEXT_MAX = 4
"""So many arguments of a function are shown with their values."""


class CauseFinder:
    def __init__(self, examination: Examination) -> None:
        self._examination = examination
        self._empty = EmptyFinder(examination, self.find_false)
        self._nesting = 0

    # conditions

    def find_false(self, condition: ast.Expr, frames: Frames = ()) -> tuple[Cause, ...]:
        """Return for each conjunct of a false condition that is false why it is."""
        conjuncts = split_conjuncts(condition)
        values = self._examination.values(frames, conjuncts)
        found = [
            self._explain(conjunct, value, frames)
            for conjunct, value in zip(conjuncts, values, strict=True)
            if value.truth is False
        ]
        if found:
            return tuple(found)
        failing = [(each, value) for each, value in zip(conjuncts, values, strict=True) if value.truth is None]
        return tuple([self._examination.cause(each, _describe_failure(value)) for each, value in failing])

    def explain_no_action(self, expr: ast.Expr, frames: Frames = ()) -> tuple[Cause, ...]:
        """Return why the actions of a rule that fired were not reached."""
        if self._nesting >= NESTING_MAX:
            return ()
        self._nesting += 1
        try:
            return self._no_action(expr, frames)
        finally:
            self._nesting -= 1

    def _no_action(self, expr: ast.Expr, frames: Frames) -> tuple[Cause, ...]:
        match expr:
            case ast.If():
                if self._examination.value(frames, expr.condition).truth is not False:
                    return self.explain_no_action(expr.then, frames)
                if has_no_else(expr) or expr.otherwise is None:
                    return self.find_false(expr.condition, frames)
                return self.explain_no_action(expr.otherwise, frames)
            case ast.Sequence():
                return tuple([cause for item in expr.items for cause in self.explain_no_action(item, frames)])
            case ast.Flwor():
                clauses = split_clauses(expr.clauses)
                dry = self._empty.explain_no_tuple(clauses, frames)
                if dry is not None:
                    return (dry,)
                return self.explain_no_action(expr.result, (*frames, TupleFrame(tuple(clauses), 1)))
        return ()

    # one conjunct

    def _explain(self, expr: ast.Expr, value: ProbedValue, frames: Frames) -> Cause:
        whole = self._examination.cause(expr, _describe_false(value))
        if self._nesting >= NESTING_MAX or not self._examination.is_divisible(expr):
            return whole
        self._nesting += 1
        try:
            return self._take_apart(expr, value, frames) or whole
        finally:
            self._nesting -= 1

    def _take_apart(self, expr: ast.Expr, value: ProbedValue, frames: Frames) -> Cause | None:
        match expr:
            case ast.Sequence(items=(only,)):
                return self._explain(only, value, frames)
            case ast.OperatorChain(operators=("or", *_)):
                return self._none_holds(expr, frames)
            case ast.OperatorChain(operators=(symbol,)) if symbol in COMPARISONS:
                return self._comparison(expr, symbol, frames)
            case ast.OperatorChain(operators=("and", *_)):
                return self._examination.cause(expr, "is false", parts=self.find_false(expr, frames))
            case ast.FunctionCall():
                return self._call(expr, expr, expr.args, value, frames)
            case ast.Arrow(calls=(ast.ArrowCall(function=ast.Name()) as call,)):
                return self._call(expr, call, (expr.operand, *call.args), value, frames)
            case ast.Quantified():
                return self._quantified(expr, frames)
            case ast.If():
                return self._branch(expr, frames)
            case ast.TypeOperation():
                operand = self._examination.value(frames, expr.operand)
                shown = self._examination.operand(expr.operand, operand)
                return self._examination.cause(expr, f"is false: it is {write_value(shown.value)}", operands=[shown])
            case ast.Flwor() if value.count > 0:
                return self._single_tuple(expr, frames)
            case ast.VarRef() if value.count > 0:
                return self._variable(expr, value, frames)
            case _ if value.count == 0 and value.error is None:
                return self._empty.explain(expr, frames)
        return None

    def _none_holds(self, expr: ast.OperatorChain, frames: Frames) -> Cause:
        operands = expr.operands[:ALTERNATIVES_MAX]
        parts = [cause for operand in operands for cause in self.find_false(operand, frames)]
        count = {2: "neither alternative holds"}.get(
            len(expr.operands), f"none of its {len(expr.operands)} alternatives holds"
        )
        return self._examination.cause(expr, f"is false: {count}", parts=parts)

    def _comparison(self, expr: ast.OperatorChain, symbol: str, frames: Frames) -> Cause | None:
        examination = self._examination
        left, right = examination.values(frames, expr.operands)
        if left.error is not None or right.error is not None:
            return None
        operands = [
            examination.operand(side, _as_compared(value, other, symbol), as_text=symbol not in _NODE)
            for side, value, other in zip(expr.operands, (left, right), (right, left), strict=True)
        ]
        parts: list[Cause] = []
        for side, value in zip(expr.operands, (left, right), strict=True):
            part = self._explain_operand(side, value, frames)
            parts += [part] if part is not None else []
        shown = f"{write_value(operands[0].value)} {symbol} {write_value(operands[1].value)}"
        words = "is false" if shown == text_of(expr) else f"is false: {shown}"
        return examination.cause(expr, words, operands=operands, parts=parts, hint=comparison_hint(left, symbol, right))

    def _explain_operand(self, side: ast.Expr, value: ProbedValue, frames: Frames) -> Cause | None:
        """Return why a side of a comparison is empty, counts nothing, or was computed from nothing."""
        if value.count == 0:
            return self._empty.explain(side, frames)
        known = self._examination.names.functions.get(side)
        if known == (FN, "count", 1) and isinstance(side, ast.FunctionCall):
            if value.items[0].text == "0":
                return self._empty.explain(side.args[0], frames)
            counted = self._examination.value(frames, side.args[0])
            if counted.count > 0 and counted.items[0].is_node:
                shown = write_value(show_value(counted, False))
                return self._examination.cause(side.args[0], f"is {shown}")
            return None
        return self._explain_argument(side, frames)

    def _explain_argument(self, side: ast.Expr, frames: Frames) -> Cause | None:
        """Return why a function such as `number` or `sum` is given nothing, and returns a value all the same."""
        known = self._examination.names.functions.get(side)
        if known is None or known[0] not in (FN, XS) or not isinstance(side, ast.FunctionCall):
            return None
        args = [arg for arg in side.args if isinstance(arg, _READS)]
        for arg, value in zip(args, self._examination.values(frames, args), strict=True):
            if value.count == 0 and value.error is None:
                return self._empty.explain(arg, frames)
            inner = self._explain_argument(arg, frames)
            if inner is not None:
                return inner
        return None

    # functions

    def _call(
        self, expr: ast.Expr, call: ast.Node, args: Sequence[ast.Expr], value: ProbedValue, frames: Frames
    ) -> Cause | None:
        examination = self._examination
        known = examination.names.functions.get(call)
        if known is None or any([isinstance(arg, ast.Placeholder) for arg in args]):
            return None
        match known:
            case (uri, "not" | "empty", 1) if uri == FN:
                return self._negated(expr, args[0], frames)
            case (uri, "exists", 1) if uri == FN:
                return examination.cause(expr, "is false", parts=[self._empty.explain(args[0], frames)])
            case (uri, "boolean", 1) if uri == FN:
                return examination.cause(expr, "is false", parts=self.find_false(args[0], frames))
            case (uri, "true" | "false", 0) if uri == FN:
                return examination.cause(expr, "is written there")
        declared = examination.names.declared.get(known)
        if declared is not None:
            return self._declared(expr, declared, args, frames)
        if value.count == 0:
            return self._empty.explain(expr, frames)
        if not args:
            return None
        values = examination.values(frames, args)
        if any([each.error is not None for each in values]):
            return None
        operands = [examination.operand(arg, each) for arg, each in zip(args, values, strict=True)]
        shown = f"{known[1]}({', '.join([write_value(each.value) for each in operands[:CALL_TEXT_MAX]])})"
        words = _describe_false(value)
        if words == "is false" and shown != text_of(expr):
            words = f"is false: {shown}"
        hint = _call_hint(known[1], values)
        parts = [self._empty.explain(arg, frames) for arg, each in zip(args, values, strict=True) if each.count == 0]
        return examination.cause(expr, words, operands=operands, parts=parts, hint=hint)

    def _negated(self, expr: ast.Expr, inner: ast.Expr, frames: Frames) -> Cause:
        """Return why `not(…)` or `empty(…)` is false: what there is."""
        examination = self._examination
        value = examination.value(frames, inner)
        shown = examination.operand(inner, value, as_text=False)
        if isinstance(inner, ast.OperatorChain) and len(inner.operators) == 1 and inner.operators[0] in COMPARISONS:
            left, right = examination.values(frames, inner.operands)
            sides = [
                examination.operand(side, _as_compared(each, other, inner.operators[0]))
                for side, each, other in zip(inner.operands, (left, right), (right, left), strict=True)
            ]
            holds = f"{write_value(sides[0].value)} {inner.operators[0]} {write_value(sides[1].value)}"
            return examination.cause(expr, f"is false: {holds}", operands=sides)
        if value.count > 0 and value.items[0].is_node:
            return examination.cause(expr, f"is false: there is {write_value(shown.value)}", operands=[shown])
        words = f"is false: {text_of(inner)} is {write_value(shown.value)}"
        return examination.cause(expr, words, operands=[shown], parts=self._twice_negated(inner, frames))

    def _twice_negated(self, inner: ast.Expr, frames: Frames) -> Sequence[Cause]:
        """Return why `not(empty(…))` or `not(not(…))` is false: as for what is negated twice."""
        if not isinstance(inner, ast.FunctionCall) or len(inner.args) != 1:
            return ()
        match self._examination.names.functions.get(inner):
            case (uri, "empty", 1) if uri == FN:
                return [self._empty.explain(inner.args[0], frames)]
            case (uri, "not", 1) if uri == FN:
                return self.find_false(inner.args[0], frames)
        return ()

    def _declared(
        self, expr: ast.Expr, declared: ast.FunctionDecl, args: Sequence[ast.Expr], frames: Frames
    ) -> Cause | None:
        """Return why a function of the application returns false: its body is taken apart like a condition."""
        examination = self._examination
        operands = [
            examination.operand(arg, value, as_text=False)
            for arg, value in zip(args, examination.values(frames, args), strict=True)
        ]
        given = f" for {', '.join([write_value(each.value) for each in operands])}" if operands else ""
        parts: tuple[Cause, ...] = ()
        if declared.body is not None and any([item is declared for item in examination.context.module.tree.prolog]):
            inner = (*frames, CallFrame(declared.params, tuple(args)))
            if examination.value(inner, declared.body).truth is False:
                parts = self.find_false(declared.body, inner)
        return examination.cause(expr, f"is false{given}", operands=operands, parts=parts)

    # what binds variables

    def _quantified(self, expr: ast.Quantified, frames: Frames) -> Cause | None:
        examination = self._examination
        clauses = quantified_clauses(expr)
        dry = self._empty.explain_no_tuple(clauses, frames)
        if dry is not None:
            return examination.cause(expr, "is false: there is nothing to ask", parts=[dry])
        closest = examination.closest_tuples(frames, clauses, split_conjuncts(expr.condition))
        if not closest:
            return None
        parts = self._empty.explain_tuples(clauses, closest, expr.condition, frames)
        if expr.kind == "every":
            return examination.cause(expr, f"is false: not for {count_of(len(closest), 'item')}", parts=parts)
        return examination.cause(expr, f"is false: for none of {count_of(len(closest), 'item')}", parts=parts)

    def _branch(self, expr: ast.If, frames: Frames) -> Cause | None:
        """Return why an `if` inside a condition is false."""
        truth = self._examination.value(frames, expr.condition).truth
        branch = expr.then if truth else expr.otherwise
        if truth is None or branch is None:
            return None
        decided = f"{text_of(expr.condition)} is {'true' if truth else 'false'}"
        return self._examination.cause(expr, f"is false: {decided}", parts=self.find_false(branch, frames))

    def _single_tuple(self, expr: ast.Flwor, frames: Frames) -> Cause | None:
        """Return why a FLWOR expression that has one tuple, as one with `let` alone has, returns false."""
        clauses = tuple(split_clauses(expr.clauses))
        inner = (*frames, TupleFrame(clauses, 1))
        others = self._examination.closest_tuples(frames, clauses, [expr.result])
        if others != [1]:
            return None
        return self._examination.cause(expr, "is false", parts=self.find_false(expr.result, inner))

    def _variable(self, expr: ast.VarRef, value: ProbedValue, frames: Frames) -> Cause | None:
        """Return why a variable is false."""
        bound = self._empty.find_binding(expr, frames)
        if bound is None:
            return None
        return self._examination.cause(expr, _describe_false(value), parts=self.find_false(*bound))


def _as_compared(value: ProbedValue, other: ProbedValue, symbol: str) -> ProbedValue:
    """Return a side of a comparison as it is compared: a node is a number if the other side is one."""
    if symbol not in _GENERAL or not any([item.kind in NUMBERS for item in other.items]):
        return value
    kinds = ("untyped", "element", "attribute", "document", "text")
    items = [replace(item, kind="xs:double", markup="") if item.kind in kinds else item for item in value.items]
    return replace(value, items=tuple(items))


def _describe_false(value: ProbedValue) -> str:
    if value.error is not None:
        return _describe_failure(value)
    if value.count == 0:
        return "finds nothing"
    if value.items[0].kind == "xs:boolean":
        return "is false"
    return f"is {write_value(show_value(value, True))}, which counts as false"


def _describe_failure(value: ProbedValue) -> str:
    return f"fails: {value.error}" if value.error is not None else "has no truth value"


def _call_hint(name: str, values: Sequence[ProbedValue]) -> str | None:
    """Return a hint for functions on texts that would return true for the same text in another case."""
    if name not in ("contains", "starts-with", "ends-with") or len(values) < 2:
        return None
    if not all([value.count == 1 for value in values[:2]]):
        return None
    text, part = [value.items[0].text.casefold() for value in values[:2]]
    found = {"contains": part in text, "starts-with": text.startswith(part), "ends-with": text.endswith(part)}[name]
    return "upper and lower case differ: compare lower-case(…) of both" if found else None
