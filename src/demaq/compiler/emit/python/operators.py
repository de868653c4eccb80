"""Emit comparisons and arithmetic on values whose types are known."""

from __future__ import annotations

import re
from dataclasses import replace

from demaq.compiler.emit.python.code import (
    NODES,
    NUMBERS,
    STRINGS,
    NotTranslatable,
    PythonCode,
    Type,
    atomize,
    make_list,
    make_loop,
    map_items,
    new_name,
    require_at_most_one,
    to_operands,
)

_LITERAL = re.compile(r"\[?[0-9.e+-]+\]?")
_NUMERIC = NUMBERS | {Type.DECIMAL}
GENERAL = {"=": "==", "!=": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
SINGLE = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


def compare(operator: str, left: PythonCode, right: PythonCode) -> PythonCode:
    one, other = atomize(left), atomize(right)
    if Type.EMPTY in (one.type, other.type):
        raise NotTranslatable("a comparison with nothing")
    if operator in SINGLE:
        return _compare_single(SINGLE[operator], left, right)
    sign = GENERAL[operator]
    if one.type in STRINGS and other.type in STRINGS:
        if operator == "=":
            if not right.is_list and right.type in STRINGS:
                return PythonCode(f"({right.item} in {one.text})", Type.BOOLEAN)
            if not left.is_list and left.type in STRINGS:
                return PythonCode(f"({left.item} in {other.text})", Type.BOOLEAN)
            return PythonCode(f"any_equal({one.text}, {other.text})", Type.BOOLEAN)
        if operator == "!=":
            return PythonCode(f"any_unequal({one.text}, {other.text})", Type.BOOLEAN)
        raise NotTranslatable("an order of strings")
    if one.type in _NUMERIC or other.type in _NUMERIC:
        are_untyped = one.type is Type.UNTYPED, other.type is Type.UNTYPED
        one, other = _make_comparable(*to_operands(left, right), *are_untyped)
        if not left.is_list and not right.is_list and left.type in NUMBERS and right.type in NUMBERS:
            one, other = _make_comparable(left, right)
            return PythonCode(f"({one.item} {sign} {other.item})", Type.BOOLEAN)
        name = new_name()
        loop, inner = make_loop(one), make_loop(make_list(name, other.type))
        pairs = f"for {name} in ({other.text},) {loop.clauses} {inner.clauses}"
        return PythonCode(f"any([{loop.item} {sign} {inner.item} {pairs}])", Type.BOOLEAN)
    raise NotTranslatable(f"a comparison of {one.type.value} and {other.type.value}")


def _compare_single(sign: str, left: PythonCode, right: PythonCode) -> PythonCode:
    """Return a value comparison (`eq`, `lt`, …). Raises NotTranslatable if an operand may be empty."""
    if left.is_list or right.is_list or left.type in NODES or right.type in NODES:
        raise NotTranslatable("a comparison of single values that may not be there")
    if left.type in NUMBERS and right.type in NUMBERS:
        left, right = _make_comparable(left, right)
        return PythonCode(f"({left.item} {sign} {right.item})", Type.BOOLEAN)
    if left.type in STRINGS and right.type in STRINGS and sign in ("==", "!="):
        return PythonCode(f"({left.text} {sign} {right.text})", Type.BOOLEAN)
    raise NotTranslatable(f"a comparison of {left.type.value} and {right.type.value}")


def compute(sign: str, left: PythonCode, right: PythonCode) -> PythonCode:
    if sign not in ("+", "-", "*"):
        raise NotTranslatable(f"the operator {sign}")
    one, other = [require_at_most_one(code) for code in to_operands(left, right)]
    kind = _sum_type(one.type, other.type)
    if not left.is_list and not right.is_list and left.type in NUMBERS and right.type in NUMBERS:
        return PythonCode(f"({left.text} {sign} {right.text})", kind)
    name = new_name()
    outer, inner = make_loop(one), make_loop(make_list(name, other.type))
    both = f"for {name} in ({other.text},) {outer.clauses} {inner.clauses}"  # always evaluates the right operand
    return PythonCode(f"({outer.item} {sign} {inner.item})", kind, is_list=True, clauses=both, is_single=True)


def _make_comparable(
    one: PythonCode, other: PythonCode, one_is_cast: bool = False, other_is_cast: bool = False
) -> tuple[PythonCode, PythonCode]:
    """Return numbers that Python compares as Saxon does (see `comparable`); a cast value is an ordinary double."""
    is_alike = one.type is other.type and one.type is not Type.NUMERIC
    if is_alike and not one_is_cast and not other_is_cast:
        return one, other
    return one if one_is_cast else _check(one), other if other_is_cast else _check(other)


def _check(code: PythonCode) -> PythonCode:
    if not code.clauses and _LITERAL.fullmatch(code.item):
        return code
    if not code.is_list:
        return replace(code, item=f"comparable({code.item})")
    return map_items(code, "comparable({})", code.type)


def _sum_type(one: Type, other: Type) -> Type:
    if Type.DOUBLE in (one, other):
        return Type.DOUBLE
    return Type.NUMERIC if Type.NUMERIC in (one, other) else Type.INTEGER
