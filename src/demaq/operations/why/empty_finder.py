"""Find out why an expression finds nothing: how far its path leads, and what is there instead.

/order/total              /order is there, and has Total
//item[@n > 5]            none of 2 items: @n > 5, "3" > 5
for … where … return …    for none of 2 tuples
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from demaq.compiler.trees import asks_for_position, split_conjuncts
from demaq.evaluation.saxon.rule_probe import ProbedValue
from demaq.language import ast
from demaq.language.namespaces import FN, QS, XS
from demaq.operations.why.examination import CLOSEST, NESTING_MAX, Examination, text_of
from demaq.operations.why.frames import CallFrame, FocusFrame, Frames, TupleFrame, split_clauses
from demaq.operations.why.near_misses import list_names, similar_name
from demaq.operations.why.path_prefixes import Prefix, list_prefixes, names_beside
from demaq.operations.why.shown_values import count_of, show_value, write_value
from demaq.operations.why.verdicts import Cause
from demaq.source import NOWHERE

_ARITHMETIC = frozenset({"+", "-", "*", "div", "idiv", "mod"})
"""Operators that return nothing if one side is nothing."""
_SETS = frozenset({"|", "union", "intersect", "except", ","})
_SOURCES = {
    (QS, "slice"): "is empty",
    (QS, "queue"): "holds no message",
    (QS, "property"): "is absent",
    (QS, "slicekey"): "is absent",
    (FN, "collection"): "holds no document",
}

FindFalse = Callable[[ast.Expr, Frames], tuple[Cause, ...]]


class EmptyFinder:
    def __init__(self, examination: Examination, find_false: FindFalse) -> None:
        self._examination = examination
        self._find_false = find_false
        self._nesting = 0

    def explain(self, expr: ast.Expr, frames: Frames) -> Cause:
        """Return why an expression, whose value is empty, finds nothing."""
        nothing = self._examination.cause(expr, "finds nothing")
        if self._nesting >= NESTING_MAX or not self._examination.is_divisible(expr):
            return nothing
        self._nesting += 1
        try:
            return self._take_apart(expr, frames) or nothing
        finally:
            self._nesting -= 1

    def _take_apart(self, expr: ast.Expr, frames: Frames) -> Cause | None:
        match expr:
            case ast.Sequence(items=(only,)):
                return self.explain(only, frames)
            case ast.Path() | ast.AxisStep() | ast.Postfix():
                return self._path(expr, frames)
            case ast.OperatorChain(operators=("!", *_)):
                return self._path(expr, frames)
            case ast.OperatorChain(operators=(symbol, *_)) if symbol in _ARITHMETIC:
                return self._without_argument(expr, expr.operands, frames)
            case ast.Unary() | ast.TypeOperation():
                return self._without_argument(expr, (expr.operand,), frames)
            case ast.OperatorChain(operators=(symbol, *_)) if symbol in _SETS:
                return self._combined(expr, frames)
            case ast.Sequence():
                parts = [self.explain(item, frames) for item in expr.items]
                return self._examination.cause(expr, "finds nothing", parts=parts)
            case ast.Flwor():
                return self._flwor(expr, frames)
            case ast.If():
                return self._branch(expr, frames)
            case ast.VarRef():
                bound = self.find_binding(expr, frames)
                if bound is not None:
                    return self._examination.cause(expr, "is empty", parts=[self.explain(*bound)])
                return self._examination.cause(expr, "is empty")
            case ast.FunctionCall():
                return self._call(expr, frames)
        return None

    # paths

    def _path(self, expr: ast.Expr, frames: Frames) -> Cause | None:
        prefixes = list_prefixes(expr)
        values = self._examination.values(frames, [prefix.expr for prefix in prefixes])
        for number, (prefix, value) in enumerate(zip(prefixes, values, strict=True)):
            if value.error is not None or value.count > 0:
                continue
            before = prefixes[number - 1] if number else None
            if prefix.predicate is not None and before is not None:
                return self._predicate(expr, before, values[number - 1], prefix.predicate, frames)
            if prefix.step is not None:
                return self._step(expr, prefix, before, values[number - 1] if number else None, frames)
            if prefix.expr is expr:
                return None
            return self._examination.cause(expr, "finds nothing", parts=[self.explain(prefix.expr, frames)])
        return None

    def _step(
        self, expr: ast.Expr, prefix: Prefix, before: Prefix | None, value: ProbedValue | None, frames: Frames
    ) -> Cause:
        """Return that a step of a path leads nowhere, and which names there are."""
        step = prefix.step
        assert step is not None
        where = self._describe_place(before, value, frames)
        words = f"finds nothing: {where} no {text_of(step)}" if before is not None or frames else None
        names, hint = self._examination.names, None
        wanted = names.elements.get(step.test) or names.attributes.get(step.test)
        sigil = "@" if step.axis == "attribute" else ""
        listed = names_beside(prefix, before)
        if listed is not None and wanted is not None:
            there, beside, deeper = [self._read_names(v) for v in self._examination.values(frames, listed, 40)]
            hint = similar_name(wanted, there, names.prefixes, sigil)
            if hint is None and there and words is not None:
                words += f", but {list_names(there, names.prefixes, sigil)}"
            if hint is None and wanted[1] in [local for _, local in beside]:
                hint = f"there is {'' if sigil else '@'}{wanted[1]}, {'an element' if sigil else 'an attribute'}"
            if hint is None and wanted in deeper:
                hint = f"there is one further down: //{sigil}{wanted[1]} finds it"
            if words is None:
                root = f": the root is {list_names(there, names.prefixes, sigil)}" if there else ""
                words = f"finds nothing{root}" if prefix.is_from_root else "finds nothing"
        return self._examination.cause(expr, words or "finds nothing", hint=hint)

    def _describe_place(self, before: Prefix | None, value: ProbedValue | None, frames: Frames) -> str:
        if before is None or value is None:
            return "it has"
        if value.count == 1:
            return f"{before.text} has"
        return f"{before.text} finds {_count_found(value)}, which have"

    def _read_names(self, value: ProbedValue) -> list[tuple[str, str]]:
        found: list[tuple[str, str]] = []
        for item in value.items:
            uri, _, local = item.text.removeprefix("Q{").rpartition("}")
            found.append((uri, local))
        return found

    def _predicate(
        self, expr: ast.Expr, before: Prefix, value: ProbedValue, predicate: ast.Predicate, frames: Frames
    ) -> Cause | None:
        """Return that no item fulfils a predicate, with those that come closest."""
        condition = predicate.condition
        examination = self._examination
        found = f"finds nothing: {before.text} finds {_count_found(value)}"
        if asks_for_position(condition, examination.names) or not examination.is_divisible(condition):
            return examination.cause(expr, f"{found}, none with {text_of(predicate)}")
        first = examination.value((*frames, FocusFrame(before.expr, 1)), condition)
        if first.count == 1 and first.items[0].kind in ("xs:integer", "xs:decimal", "xs:double", "xs:float"):
            return examination.cause(expr, found)
        item = ast.Name(NOWHERE, "item", None, "demaq:runtime")
        binding = ast.ForBinding(NOWHERE, item, None, False, None, before.expr)
        focus = [
            ast.Template(NOWHERE, ("($Q{demaq:runtime}item ! (", part, "))")) for part in split_conjuncts(condition)
        ]
        closest = examination.closest_tuples(frames, [ast.ForClause(NOWHERE, (binding,))], focus)
        parts: list[Cause] = []
        for number in closest[:CLOSEST]:
            inner = (*frames, FocusFrame(before.expr, number))
            shown = write_value(show_value(examination.value(inner, ast.ContextItem(NOWHERE)), False))
            parts += [replace(cause, given=shown) for cause in self._find_false(condition, inner)]
        return examination.cause(expr, f"{found}, and the predicate holds for none", parts=parts)

    # what combines others

    def _combined(self, expr: ast.OperatorChain, frames: Frames) -> Cause:
        examination = self._examination
        values = examination.values(frames, expr.operands)
        if expr.operators[0] in ("|", "union"):
            return examination.cause(
                expr, "finds nothing", parts=[self.explain(each, frames) for each in expr.operands]
            )
        operands = [
            examination.operand(each, value, as_text=False) for each, value in zip(expr.operands, values, strict=True)
        ]
        shown = f" {expr.operators[0]} ".join([write_value(operand.value) for operand in operands])
        return examination.cause(expr, f"finds nothing: {shown}", operands=operands)

    def _branch(self, expr: ast.If, frames: Frames) -> Cause | None:
        truth = self._examination.value(frames, expr.condition).truth
        branch = expr.then if truth else expr.otherwise
        if truth is None or branch is None:
            return None
        decided = f"finds nothing: {text_of(expr.condition)} is {'true' if truth else 'false'}"
        return self._examination.cause(expr, decided, parts=[self.explain(branch, frames)])

    def _call(self, expr: ast.FunctionCall, frames: Frames) -> Cause | None:
        examination = self._examination
        known = examination.names.functions.get(expr)
        if known is None:
            return None
        if known[:2] in _SOURCES:
            return examination.cause(expr, _SOURCES[known[:2]])
        if known[0] in (FN, XS):
            return self._without_argument(expr, expr.args, frames)
        declared = examination.names.declared.get(known)
        if declared is None or declared.body is None:
            return None
        if not any([item is declared for item in examination.context.module.tree.prolog]):
            return None
        inner = (*frames, CallFrame(declared.params, expr.args))
        if examination.value(inner, declared.body).count or examination.value(inner, declared.body).error:
            return None
        return examination.cause(expr, "finds nothing", parts=[self.explain(declared.body, inner)])

    def _without_argument(self, expr: ast.Expr, args: Sequence[ast.Expr], frames: Frames) -> Cause | None:
        """Return that what a function or operator is given is empty, so that it returns nothing."""
        if any([isinstance(arg, ast.Placeholder) for arg in args]):
            return None
        values = self._examination.values(frames, args)
        empty = [arg for arg, value in zip(args, values, strict=True) if value.count == 0 and value.error is None]
        if not empty:
            return None
        parts = [self.explain(arg, frames) for arg in empty]
        return self._examination.cause(expr, "finds nothing", parts=parts)

    # tuples

    def _flwor(self, expr: ast.Flwor, frames: Frames) -> Cause | None:
        clauses = split_clauses(expr.clauses)
        dry = self.explain_no_tuple(clauses, frames)
        if dry is not None:
            return self._examination.cause(expr, "finds nothing", parts=[dry])
        inner = (*frames, TupleFrame(tuple(clauses), 1))
        return self._examination.cause(expr, "finds nothing", parts=[self.explain(expr.result, inner)])

    def explain_no_tuple(self, clauses: Sequence[ast.Clause], frames: Frames) -> Cause | None:
        """Return which clause leaves no tuple; None if some are left."""
        examination = self._examination
        one = ast.NumericLiteral(NOWHERE, "1")
        prefixes = [ast.Flwor(NOWHERE, tuple(clauses[: n + 1]), one) for n in range(len(clauses))]
        values = examination.values(frames, prefixes)
        for number, (clause, value) in enumerate(zip(clauses, values, strict=True)):
            if value.count > 0:
                continue
            if value.error is not None:
                return None
            earlier = tuple(clauses[:number])
            if isinstance(clause, ast.ForClause):
                inner = (*frames, TupleFrame(earlier, 1)) if earlier else frames
                binding = clause.bindings[0]
                return self.explain(binding.expr, inner)
            if isinstance(clause, ast.WhereClause):
                closest = examination.closest_tuples(frames, earlier, split_conjuncts(clause.condition))
                parts = self.explain_tuples(earlier, closest, clause.condition, frames)
                words = f"holds for none of {count_of(values[number - 1].count, 'item')}"
                return examination.cause(clause, words, parts=parts)
            return examination.cause(clause, "leaves nothing")
        return None

    def explain_tuples(
        self, clauses: Sequence[ast.Clause], numbers: Sequence[int], condition: ast.Expr, frames: Frames
    ) -> list[Cause]:
        """Return why a condition is false for the first of these tuples."""
        found: list[Cause] = []
        for number in numbers[:CLOSEST]:
            inner = (*frames, TupleFrame(tuple(clauses), number))
            label = self._examination.describe_tuple(inner, clauses) or None
            found += [replace(cause, given=label) for cause in self._find_false(condition, inner)]
        return found

    def find_binding(self, reference: ast.VarRef, frames: Frames) -> tuple[ast.Expr, Frames] | None:
        """Return the expression that a variable was bound to by `let` or as an argument, with the frames around it."""
        binder = self._examination.names.variables.get(reference)
        for number, frame in enumerate(frames):
            if isinstance(frame, CallFrame):
                for param, arg in zip(frame.params, frame.args, strict=True):
                    if param is binder:
                        return arg, frames[:number]
            elif isinstance(frame, TupleFrame):
                for place, clause in enumerate(frame.clauses):
                    if isinstance(clause, ast.LetClause) and clause.bindings[0] is binder:
                        earlier, later = frame.clauses[:place], frame.clauses[place:]
                        if all([isinstance(each, ast.LetClause) for each in later]):
                            return clause.bindings[0].expr, (*frames[:number], TupleFrame(earlier, frame.number))
                        if all([isinstance(each, ast.LetClause) for each in earlier]):
                            return clause.bindings[0].expr, (*frames[:number], TupleFrame(earlier, 1))
        return None


def _count_found(value: ProbedValue) -> str:
    kind = value.items[0].kind
    word = {"document": "message", "element": "element", "attribute": "attribute"}.get(kind, "item")
    return count_of(value.count, word)
