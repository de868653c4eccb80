"""Aggregates of values whose types are known at run time only: sum, avg, min, max."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from demaq.evaluation.native.arithmetic import add_numbers, decimal_add, divide_numbers, to_double
from demaq.evaluation.native.atomic_values import (
    DURATION_TYPES,
    MOMENT_TYPES,
    NUMERIC_TYPES,
    STRING_TYPES,
    Single,
    YearMonths,
)
from demaq.evaluation.native.date_arithmetic import add_durations, divide_duration, order_moments
from demaq.evaluation.native.fallback import NeedsSaxon
from demaq.evaluation.native.number_texts import is_negative_zero
from demaq.evaluation.native.operations import to_operand

_ZERO = Decimal(0)


def sum_of(values: Sequence[Any], zero: Any = 0) -> Any:
    """Return the sum of numbers or of durations, added one by one, or what the sum of none is."""
    if not values:
        return zero
    operands = [to_operand(value) for value in values]
    kinds = {type(value) for value in operands}
    if kinds <= NUMERIC_TYPES:
        return functools.reduce(add_numbers, operands)
    if len(kinds) == 1 and kinds <= DURATION_TYPES:
        return functools.reduce(add_durations, operands)
    raise NeedsSaxon("a sum of such values")


def decimal_total(values: Sequence[int | Decimal]) -> Decimal:
    """Return the sum of decimals."""
    return functools.reduce(decimal_add, values, _ZERO)


def average(values: Sequence[Any]) -> list[Any]:
    """Return the average, if there are values."""
    if not values:
        return []
    total = sum_of(values)
    return [(divide_duration if type(total) in DURATION_TYPES else divide_numbers)(total, len(values))]


def greatest(values: Sequence[Any]) -> list[Any]:
    """Return the greatest value, if there are values."""
    return _extreme(values, 1)


def least(values: Sequence[Any]) -> list[Any]:
    """Return the least value, if there are values."""
    return _extreme(values, -1)


def _extreme(values: Sequence[Any], sign: int) -> list[Any]:
    if not values:
        return []
    operands = [to_operand(value) for value in values]
    kinds = {type(value) for value in operands}
    chosen = max if sign > 0 else min
    if kinds <= NUMERIC_TYPES:
        return [chosen(_alike(operands, kinds))]
    if len(kinds) > 1:
        raise NeedsSaxon("values of several types")
    [kind] = kinds
    if kind in STRING_TYPES or kind is bool:
        return [chosen(operands)]
    if kind is YearMonths:
        return [YearMonths(chosen([value.months for value in operands]))]
    if kind not in MOMENT_TYPES:
        return [chosen(operands)]
    found = chosen(operands, key=functools.cmp_to_key(order_moments))
    if any([order_moments(value, found) == 0 and value.tzinfo != found.tzinfo for value in operands]):
        raise NeedsSaxon("one moment in two time zones")
    return [found]


def _alike(values: list[Any], kinds: set[type]) -> list[Any]:
    """Return numbers that Python orders as Saxon does."""
    if Single in kinds and len(kinds) > 1:
        raise NeedsSaxon("floats and other numbers")
    if float in kinds:
        values = [to_double(value) for value in values]
    if any([value != value or (isinstance(value, float) and is_negative_zero(value)) for value in values]):
        raise NeedsSaxon("no ordinary number")
    return values
