"""Emit predicates: conditions on items, and positions."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from demaq.compiler.emit.python.code import (
    NUMERIC_TYPES,
    NotTranslatable,
    PythonCode,
    Type,
    make_list,
    make_loop,
    new_name,
    require_at_most_one,
)
from demaq.compiler.emit.python.focus import FocusAndVariables
from demaq.compiler.emit.python.loop_conditions import LoopCondition, translate_condition
from demaq.compiler.trees import is_call_of, uses_focus
from demaq.language import ast
from demaq.language.resolving.names import Names

Translate = Callable[[ast.Expr, FocusAndVariables], PythonCode]


@dataclass(frozen=True, slots=True)
class PredicateCode:
    """A translated predicate, with the variables that it refers to."""

    condition: LoopCondition
    item: str
    position: str
    whole: str
    """The list that the item is in."""
    is_by_position: bool
    slice: str
    """For a constant position: the part of the list, as a Python subscript."""

    def filter(self, found: PythonCode) -> PythonCode:
        """Return the items of a list for which the predicate holds."""
        if self.slice:
            made = make_list(f"{found.list_text}[{self.slice}]", found.type, found.order)
            return replace(made, is_single=True, name=found.name, is_own=found.is_own)
        before = self.condition.before
        if not self.is_by_position:
            loop = make_loop(found, self.item)
            return replace(loop, clauses=f"{before} {loop.clauses} {self.condition.filter}".lstrip())
        code = self.condition.code
        if code.type in NUMERIC_TYPES:
            value = require_at_most_one(code)
            test = f"{self.position} == {code.item}" if not code.is_list else f"{self.position} in {value.text}"
        else:
            test = self.condition.text
        clauses = (
            f"{before} for {self.whole} in ({found.list_text},)"
            f" for {self.position}, {self.item} in enumerate({self.whole}, 1) if {test}"
        )
        is_single = found.is_optional or (code.type in NUMERIC_TYPES and bool(before))
        return PythonCode(
            self.item,
            found.type,
            is_list=True,
            clauses=clauses.lstrip(),
            order=found.order,
            is_single=is_single,
            name=found.name,
            is_own=found.is_own,
        )


class Predicates:
    def __init__(self, names: Names, translate: Translate) -> None:
        self._names = names
        self._translate = translate

    def translate(self, predicate: ast.Predicate, like: PythonCode, scope: FocusAndVariables) -> PredicateCode:
        """Return a predicate on items like those of a value."""
        condition = predicate.condition
        if isinstance(condition, ast.NumericLiteral) and not _is_position(condition):
            # Saxon sees that there is nothing, and has a comparison with it return nothing instead of false.
            raise NotTranslatable("a position that no item has", node=condition)
        item, position, whole = new_name(), new_name(), new_name()
        inner = scope.stand_alone().with_focus(
            PythonCode(item, like.type, name=like.name, is_own=like.is_own),
            PythonCode(position, Type.INTEGER),
            PythonCode(f"len({whole})", Type.INTEGER),
        )
        found = translate_condition(
            condition,
            lambda part: self._translate(part, inner),
            lambda part: uses_focus(part, self._names),
            self._names,
            may_be_position=True,
        )
        if found.code.type in (Type.ATOMIC, Type.ITEM):
            raise NotTranslatable("a predicate that may be a position", node=condition)
        text = found.before + found.code.text
        uses_position = re.search(rf"\b({position}|{whole})\b", text) is not None
        return PredicateCode(
            condition=found,
            item=item,
            position=position,
            whole=whole,
            is_by_position=uses_position or found.code.type in NUMERIC_TYPES,
            slice=self._find_slice(condition),
        )

    def _find_slice(self, condition: ast.Expr) -> str:
        if isinstance(condition, ast.NumericLiteral) and condition.text.isdigit():
            position = int(condition.text)
            return f"{position - 1}:{position}"
        return "-1:" if is_call_of(condition, self._names, "last", arity=0) else ""


def _is_position(literal: ast.NumericLiteral) -> bool:
    value = float(literal.text)
    return value >= 1 and value.is_integer()
