"""The precedence of expressions and how they end, which decide where parentheses are needed.

The parser drops redundant parentheses and makes each chain of operators one flat OperatorChain, so an operand of the
same level as its chain was in parentheses.
"""

from __future__ import annotations

from typing import Final

from demaq.language import ast
from demaq.language.parsing.expressions import ARROW, LEVEL
from demaq.language.printing import words

SINGLE = 0
"""The level of expressions that begin with a keyword. The parser has the levels of operators, from 1 to ARROW."""
UNARY, VALUE, PATH, STEP, PRIMARY = range(ARROW + 1, ARROW + 6)

_LEVELS: Final[dict[type[ast.Expr], int]] = {
    **dict.fromkeys((ast.Flwor, ast.Quantified, ast.Switch, ast.Typeswitch, ast.If, ast.TryCatch), SINGLE),
    **dict.fromkeys((ast.Insert, ast.Delete, ast.Replace, ast.Rename, ast.Copy, ast.TransformWith), SINGLE),
    **dict.fromkeys((ast.Enqueue, ast.Reset), SINGLE),
    ast.Arrow: ARROW,
    ast.Unary: UNARY,
    ast.Extension: VALUE,
    ast.Path: PATH,
    ast.AxisStep: STEP,
    ast.Postfix: STEP,
}


def level(expr: ast.Expr) -> int:
    """Return the precedence level of an expression. A Sequence has its own parentheses."""
    if isinstance(expr, ast.OperatorChain):
        return LEVEL.get(expr.operators[0], VALUE)  # `!` binds tighter than unary operators
    if isinstance(expr, ast.TypeOperation):
        return LEVEL[expr.operator.partition(" ")[0]]
    return _LEVELS.get(type(expr), PRIMARY)


def tail(expr: ast.Expr) -> ast.Expr | None:
    """Return the unbracketed part that an expression ends in, if any."""
    if isinstance(expr, ast.Flwor | ast.Copy):
        return expr.result
    if isinstance(expr, ast.If):
        return expr.then if expr.otherwise is None else expr.otherwise
    if isinstance(expr, ast.Switch | ast.Typeswitch):
        return expr.default
    return expr.condition if isinstance(expr, ast.Quantified) else None


def ends_without_else(expr: ast.Expr) -> bool:
    """Return whether an `else` right after the expression would be parsed as its own."""
    while not isinstance(expr, ast.If) or expr.otherwise is not None:
        following = tail(expr)
        if following is None:
            return False
        expr = following
    return True


def ends_in_bare_reset(expr: ast.Expr) -> bool:
    """Return whether `else key` right after the expression would be parsed as slicing and key of its `do reset`."""
    while (following := tail(expr)) is not None:
        expr = following
    return isinstance(expr, ast.Reset) and expr.slicing is None


def begins_with_word(expr: ast.Expr, word: str) -> bool:
    """Return whether an expression begins with this word; parentheses are ignored."""
    while (first := _first_part(expr)) is not None:
        expr = first
    if isinstance(expr, ast.AxisStep):
        return expr.axis == "child" and isinstance(expr.test, ast.NameTest) and words.name(expr.test) == word
    return isinstance(expr, ast.FunctionCall | ast.NamedFunctionRef) and words.name(expr.name) == word


def _first_part(expr: ast.Expr) -> ast.Expr | None:
    if isinstance(expr, ast.OperatorChain):
        return expr.operands[0]
    if isinstance(expr, ast.Path):
        return None if expr.separators[0] else expr.steps[0]
    if isinstance(expr, ast.Postfix):
        return expr.base
    return expr.operand if isinstance(expr, ast.TypeOperation | ast.Arrow | ast.TransformWith) else None
