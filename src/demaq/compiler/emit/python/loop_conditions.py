"""Emit conditions of loops: predicates, `where` and `satisfies`.

Saxon evaluates the conjuncts that do not depend on the loop once, before it, and fails there even if the loop has no
iteration (XQuery 3.1, 2.3.4, allows it). So they are evaluated there: what would be an error is left to Saxon.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from demaq.compiler.emit.python.code import NUMERIC_TYPES, PythonCode, Type, new_name, to_condition
from demaq.compiler.trees import split_conjuncts, split_parts
from demaq.language import ast
from demaq.language.resolving.names import Names


@dataclass(frozen=True, slots=True)
class LoopCondition:
    """A condition in a loop."""

    code: PythonCode
    conjuncts: Sequence[PythonCode]
    lifted: Sequence[tuple[ast.Expr, str]]
    """Conjuncts that do not depend on the loop, each with the clause of a comprehension that evaluates it."""

    @property
    def before(self) -> str:
        """Return the clauses to evaluate before the loop."""
        return " ".join([clause for _, clause in self.lifted])

    @property
    def text(self) -> str:
        return to_condition(self.code)

    @property
    def filter(self) -> str:
        """Return the clauses of a comprehension that are passed once if the condition holds, and not otherwise."""
        return " ".join([conjunct.filter for conjunct in self.conjuncts])


def translate_condition(
    condition: ast.Expr,
    translate: Callable[[ast.Expr], PythonCode],
    depends: Callable[[ast.Expr], bool],
    names: Names,
    may_be_position: bool = False,
    is_unordered: bool = False,
) -> LoopCondition:
    """Return a condition; `depends` says whether a conjunct depends on the loop.

    What is lifted is the effective boolean value, which may be an error, unless the condition may be a position. Of
    `not(A or B)`, which to Saxon is `not(A) and not(B)`, both operands are evaluated if they are not in the loop. If
    Saxon evaluates conjuncts in another order, all are evaluated that may fail.
    """
    lifted: list[tuple[ast.Expr, str]] = []
    codes: list[PythonCode] = []
    conjuncts = split_conjuncts(condition)
    for conjunct in conjuncts:
        code = translate(conjunct)
        is_literal = isinstance(conjunct, (ast.NumericLiteral, ast.StringLiteral))
        if not is_literal and (not depends(conjunct) or (is_unordered and _may_fail(code))):
            name = new_name()
            if len(conjuncts) > 1 or not may_be_position or code.type not in _POSITIONS:
                code = PythonCode(to_condition(code), Type.BOOLEAN)
            lifted.append((conjunct, f"for {name} in ({code.text},)"))
            code = replace(code, item=name, clauses="", is_iterator=False)
        codes.append(code)
        parts = split_parts(conjunct, names)
        for part in parts if len(parts) > 1 else ():
            found = translate(part)
            if not depends(part) or (is_unordered and _may_fail(found)):
                lifted.append((part, f"for {new_name()} in ({to_condition(found)},)"))
    if len(codes) == 1:
        return LoopCondition(codes[0], codes, lifted)
    joined = " and ".join([to_condition(code) for code in codes])
    return LoopCondition(PythonCode(f"({joined})", Type.BOOLEAN), codes, lifted)


_POSITIONS = NUMERIC_TYPES | {Type.ATOMIC, Type.ITEM}
"""The types of predicates that are positions, or may be."""

_CALLED = re.compile(r"(?<![.\w])(\w+)\(")
_SURE = frozenset(
    {
        *("any", "bool", "dict", "enumerate", "float", "len", "list", "max", "min", "str", "sum", "Decimal", "Untyped"),
        *("has", "listed", "attribute", "attributes_of", "children", "self_and_below", "has_name", "root_named"),
        *("parent", "ancestors_or_self", "following", "preceding", "texts_in", "child_nodes", "siblings", "ordered"),
        *("united", "merged", "item_at", "side_by_side", "string_of", "string_of_node", "name_of", "local_name_of"),
        *("namespace_of", "normalized", "any_equal", "any_unequal", "castable", "number_or_nan", "is_true_number"),
        *("comparable", "to_double", "substring_before", "substring_after", "upper", "lower", "translate_text"),
    }
)
"""Functions of what XQuery has no errors for."""


def _may_fail(code: PythonCode) -> bool:
    """Return whether the evaluation of an expression may be an error in XQuery."""
    return not _SURE.issuperset(_CALLED.findall(to_condition(code)))
