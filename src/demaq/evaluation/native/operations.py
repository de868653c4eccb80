"""Arithmetic on values whose types are known at run time only (XQuery 3.1, 3.5)."""

from __future__ import annotations

from typing import Any

from demaq.evaluation.native import arithmetic, date_arithmetic
from demaq.evaluation.native.atomic_values import DURATION_TYPES, MOMENT_TYPES, NUMERIC_TYPES, Untyped
from demaq.evaluation.native.fallback import NeedsSaxon
from demaq.evaluation.native.number_texts import double


def add(one: Any, other: Any) -> Any:
    one, other = _operands(one, other)
    if type(one) in NUMERIC_TYPES:
        return arithmetic.add_numbers(one, other)
    if type(one) in DURATION_TYPES and type(other) in MOMENT_TYPES:
        one, other = other, one
    if type(one) in MOMENT_TYPES and type(other) in DURATION_TYPES:
        return date_arithmetic.add_to_moment(one, other)
    _require_durations(one, other)
    return date_arithmetic.add_durations(one, other)


def subtract(one: Any, other: Any) -> Any:
    one, other = _operands(one, other)
    if type(one) in NUMERIC_TYPES:
        return arithmetic.subtract_numbers(one, other)
    if type(one) in MOMENT_TYPES:
        if type(other) in DURATION_TYPES:
            return date_arithmetic.subtract_from_moment(one, other)
        if type(one) is type(other):
            return date_arithmetic.subtract_moments(one, other)
    _require_durations(one, other)
    return date_arithmetic.subtract_durations(one, other)


def multiply(one: Any, other: Any) -> Any:
    one, other = _operands(one, other)
    if type(one) in DURATION_TYPES and type(other) in NUMERIC_TYPES:
        return date_arithmetic.multiply_duration(one, other)
    if type(one) in NUMERIC_TYPES and type(other) in DURATION_TYPES:
        return date_arithmetic.multiply_duration(other, one)
    return arithmetic.multiply_numbers(one, other)


def divide(one: Any, other: Any) -> Any:
    one, other = _operands(one, other)
    if type(one) in DURATION_TYPES:
        if type(other) in NUMERIC_TYPES:
            return date_arithmetic.divide_duration(one, other)
        _require_durations(one, other)
        return date_arithmetic.divide_durations(one, other)
    return arithmetic.divide_numbers(one, other)


def idivide(one: Any, other: Any) -> int:
    return arithmetic.idivide_numbers(*_operands(one, other))


def modulo(one: Any, other: Any) -> Any:
    return arithmetic.modulo_numbers(*_operands(one, other))


def _operands(one: Any, other: Any) -> tuple[Any, Any]:
    """Return the operands, untyped ones as doubles."""
    return to_operand(one), to_operand(other)


def to_operand(value: Any) -> Any:
    """Return an operand of arithmetic: an untyped value is a double."""
    return double(value) if type(value) is Untyped else value


def expect_operand(value: Any) -> Any:
    """Return an operand of arithmetic. Raises NeedsSaxon if it is none, whatever the other one is, or nothing."""
    found = to_operand(value)
    if type(found) not in NUMERIC_TYPES and type(found) not in DURATION_TYPES and type(found) not in MOMENT_TYPES:
        raise NeedsSaxon("an operand of such a type")
    return found


def _require_durations(one: Any, other: Any) -> None:
    if type(one) not in DURATION_TYPES or type(other) not in DURATION_TYPES:
        raise NeedsSaxon("operands of such types")
