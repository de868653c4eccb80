"""One rule on one message under examination: parts of it are evaluated, and what they came to is written down."""

from __future__ import annotations

from collections.abc import Sequence

from demaq.compiler.context import CompilerContext
from demaq.compiler.emit.xquery.probe_function import Probe, truth_of
from demaq.evaluation.outcomes import Location
from demaq.evaluation.saxon.rule_probe import ProbedValue, RuleProbe
from demaq.language import ast
from demaq.language.printing.printer import print_expr
from demaq.operations.why.frames import Frames, bound_names, first_tuples, put_around
from demaq.operations.why.shown_values import cut, show_value, write_value
from demaq.operations.why.verdicts import Cause, Operand
from demaq.source import NOWHERE

CALLS_MAX = 60
"""So often Saxon is called for one rule. What is not taken apart by then is reported as a whole."""
NESTING_MAX = 10
"""So deep an expression is taken apart."""
TUPLES_MAX = 100
"""Among so many tuples or items those are looked for that came closest."""
CLOSEST = 3
"""So many of them are shown."""
EXPRESSION_MAX = 300

UNKNOWN = ProbedValue(error="not evaluated: there was too much to evaluate")


class Examination:
    def __init__(self, probe: RuleProbe, context: CompilerContext) -> None:
        self.probe = probe
        self.context = context
        self.names = context.names
        self._calls_left = CALLS_MAX

    def values(self, frames: Frames, exprs: Sequence[ast.Expr], items: int | None = None) -> list[ProbedValue]:
        """Return the values of expressions inside frames."""
        if self._calls_left <= 0:
            return [UNKNOWN] * len(exprs)
        self._calls_left -= 1
        wrapped = [put_around(frames, expr) for expr in exprs]
        return self.probe.evaluate([Probe(expr) if items is None else Probe(expr, items) for expr in wrapped])

    def value(self, frames: Frames, expr: ast.Expr) -> ProbedValue:
        return self.values(frames, [expr])[0]

    def is_divisible(self, expr: ast.Expr) -> bool:
        """Return whether parts of an expression have a value: not if an index finds the messages of a long queue."""
        return not any([node in self.probe.looked_up for node in ast.walk(expr)])

    def closest_tuples(
        self, frames: Frames, clauses: Sequence[ast.Clause], conditions: Sequence[ast.Expr]
    ) -> list[int]:
        """Return the numbers of tuples for which some condition is false, those first for which most hold."""
        truths = ast.Template(
            NOWHERE, ("(", *[part for each in conditions for part in (truth_of(each), " || ")], '"")')
        )
        found = self.values(frames, [first_tuples(clauses, TUPLES_MAX, truths)], TUPLES_MAX)[0]
        rows = [item.text for item in found.items]
        false = [number for number, row in enumerate(rows, 1) if "0" in row]
        return sorted(false, key=lambda number: -rows[number - 1].count("1"))

    def describe_tuple(self, frames: Frames, clauses: Sequence[ast.Clause]) -> str:
        """Return the variables of a tuple with their values."""
        names = bound_names(clauses)
        values = self.values(frames, [ast.VarRef(NOWHERE, name) for name in names])
        return ", ".join(
            [f"${name} = {write_value(show_value(value, False))}" for name, value in zip(names, values, strict=True)]
        )

    def cause(
        self,
        expr: ast.Node,
        words: str,
        *,
        operands: Sequence[Operand] = (),
        parts: Sequence[Cause] = (),
        hint: str | None = None,
    ) -> Cause:
        return Cause(
            expression=text_of(expr),
            at=None if expr.at is NOWHERE else Location.of(expr.at),
            start=expr.at.start,
            end=expr.at.end,
            words=words,
            operands=tuple(operands),
            parts=tuple(parts),
            hints=(hint,) if hint is not None else (),
        )

    def operand(self, expr: ast.Expr, value: ProbedValue, as_text: bool = True) -> Operand:
        return Operand(expression=text_of(expr), value=show_value(value, as_text))


def text_of(expr: ast.Node) -> str:
    """Return an expression as its author wrote it, on one line."""
    text = expr.at.text
    if not text and isinstance(expr, ast.Expr):
        text = print_expr(expr)
    return cut(" ".join(text.split()), EXPRESSION_MAX)
