"""Emit conditions of loops: predicates, `where` and `satisfies`.

Saxon evaluates the conjuncts that do not depend on the loop once, before it, and fails there even if the loop has no
iteration (XQuery 3.1, 2.3.4, allows it). So they are evaluated there: what would be an error is left to Saxon.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from demaq.compiler.emit.python.code import PythonCode, Type, new_name, to_condition
from demaq.compiler.trees import split_conjuncts
from demaq.language import ast


@dataclass(frozen=True, slots=True)
class LoopCondition:
    """A condition in a loop."""

    before: str
    """Clauses of a comprehension to evaluate before the loop."""
    code: PythonCode

    @property
    def text(self) -> str:
        return to_condition(self.code)


def translate_condition(
    condition: ast.Expr,
    translate: Callable[[ast.Expr], PythonCode],
    depends: Callable[[ast.Expr], bool],
) -> LoopCondition:
    """Return a condition; `depends` says whether a conjunct depends on the loop."""
    before: list[str] = []
    codes: list[PythonCode] = []
    conjuncts = split_conjuncts(condition)
    for conjunct in conjuncts:
        code = translate(conjunct)
        if not depends(conjunct) and not isinstance(conjunct, (ast.NumericLiteral, ast.StringLiteral)):
            name = new_name()
            if len(conjuncts) > 1:
                code = PythonCode(to_condition(code), Type.BOOLEAN)
            before.append(f"for {name} in ({code.text},)")
            code = replace(code, item=name, clauses="", is_iterator=False)
        codes.append(code)
    if len(codes) == 1:
        return LoopCondition(" ".join(before), codes[0])
    joined = " and ".join([to_condition(code) for code in codes])
    return LoopCondition(" ".join(before), PythonCode(f"({joined})", Type.BOOLEAN))
