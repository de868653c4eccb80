"""Compare atomic values whose types are known at run time only, and keys to find equal ones and to sort by."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence, Set
from decimal import Decimal
from typing import Any

from demaq.evaluation.native.arithmetic import promote, to_double
from demaq.evaluation.native.atomic_values import (
    DURATION_TYPES,
    MOMENT_TYPES,
    NUMERIC_TYPES,
    STRING_TYPES,
    TYPE_NAMES,
    AnyUri,
    DayTimes,
    Single,
    Untyped,
    YearMonths,
)
from demaq.evaluation.native.casts import cast, compared_uri
from demaq.evaluation.native.date_arithmetic import order_durations, order_moments
from demaq.evaluation.native.fallback import NeedsSaxon
from demaq.evaluation.native.number_texts import double, is_negative_zero

_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_ORDERS = frozenset(_OPERATORS) - {"==", "!="}
_EXACT_MAX = 2**53
"""Every integer up to here is a double."""
_NO_MONTHS, _NO_TIME = YearMonths(0), DayTimes()
"""They are equal (XPath Functions 3.1, 8.2.2), unlike all other durations of two types."""


def any_pair(some: Sequence[Any], others: Sequence[Any], sign: str) -> bool:
    """Return the general comparison of two sequences (XQuery 3.1, 3.7.2)."""
    if sign in _ORDERS and bool(some) is not bool(others):
        _expect_numbers(some or others)
    return any([_general(one, other, sign) for one in some for other in others])


def _expect_numbers(values: Sequence[Any]) -> None:
    """Raise NeedsSaxon if a value is no number: Saxon may look for the greatest one before it knows of no other."""
    for value in values:
        if type(value) is Untyped:
            double(value)
        elif type(value) not in NUMERIC_TYPES:
            raise NeedsSaxon("a value that is no number, compared with nothing")


def _general(one: Any, other: Any, sign: str) -> bool:
    if type(one) is Untyped:
        one = _like(one, other)
    elif type(other) is Untyped:
        other = _like(other, one)
    return compare_values(one, other, sign)


def _like(untyped: Untyped, other: Any) -> Any:
    """Return an untyped value cast for a comparison with another one."""
    kind = type(other)
    if kind in NUMERIC_TYPES:
        if isinstance(other, float) and is_negative_zero(other):
            raise NeedsSaxon("no ordinary number")
        return double(untyped)
    if kind is AnyUri:
        return compared_uri(untyped)
    return untyped if kind is Untyped or kind is str else cast(untyped, TYPE_NAMES[kind])


def compare_values(one: Any, other: Any, sign: str) -> bool:
    """Return the value comparison of two values, in which an untyped one is a string. Raises NeedsSaxon."""
    compared = _OPERATORS[sign]
    kind, other_kind = type(one), type(other)
    if kind in STRING_TYPES and other_kind in STRING_TYPES:
        return compared(str(one), str(other))
    if kind in NUMERIC_TYPES and other_kind in NUMERIC_TYPES:
        one, other, _ = promote(one, other)
        return compared(one, other)
    if kind is bool and other_kind is bool:
        return compared(one, other)
    if kind in MOMENT_TYPES and kind is other_kind:
        return compared(order_moments(one, other), 0)
    if kind in DURATION_TYPES and kind is other_kind:
        return compared(order_durations(one, other), 0)
    raise NeedsSaxon("values that cannot be compared")


# --- keys


def equality_keys(values: Iterable[Any]) -> list[Any]:
    """Return a hashable key for each value; two are equal in distinct-values, group by or switch if their keys are.

    Untyped values are strings there. Raises NeedsSaxon where equality depends on the function that asks: doubles
    among decimals, and moments with and without a time zone.
    """
    found = [_equality_key(value) for value in values]
    _refuse_mixed(found)
    return found


def _equality_key(value: Any) -> Any:
    kind = type(value)
    if kind in STRING_TYPES:
        return "string", str(value)
    if kind in NUMERIC_TYPES:
        if value != value:
            return "number", "NaN", True
        if kind is Single:
            raise NeedsSaxon("a float among others")
        # An integer up to 2**53 and its double are equal everywhere.
        is_safe = value == int(value) and abs(value) <= _EXACT_MAX if value - value == 0 else False
        return "number", value, None if is_safe else kind is float
    if kind in MOMENT_TYPES:
        return TYPE_NAMES[kind], value, value.tzinfo is None
    if value in (_NO_MONTHS, _NO_TIME):
        return "duration", 0
    return TYPE_NAMES[kind], value


def _refuse_mixed(keys: Sequence[Any]) -> None:
    forms: dict[str, bool] = {}
    for key in keys:
        if len(key) > 2 and key[2] is not None and forms.setdefault(key[0], key[2]) is not key[2]:
            raise NeedsSaxon("values whose equality depends on the function that asks")


def distinct(values: Sequence[Any]) -> list[Any]:
    """Return each value once, the first of equal ones."""
    found: dict[Any, Any] = {}
    for value, key in zip(values, equality_keys(values), strict=True):
        found.setdefault(key, value)
    return list(found.values())


def positions_of(values: Sequence[Any], searched: Any) -> list[int]:
    """Return the positions of equal values; NaN is equal to none."""
    if searched != searched:
        return []
    *keys, wanted = equality_keys([*values, searched])
    return [position for position, key in enumerate(keys, 1) if key == wanted]


def are_deep_equal(some: Sequence[Any], others: Sequence[Any]) -> bool:
    """Return whether two sequences of atomic values are deep-equal."""
    keys = equality_keys([*some, *others])
    return len(some) == len(others) and keys[: len(some)] == keys[len(some) :]


_PLAIN_KEYS = frozenset({str, Untyped, Decimal})
"""Types of which Python orders the values of each as Saxon does."""


def are_plain(kinds: Set[type]) -> bool:
    """Return whether Python orders all values of these types as Saxon does. None is the value that is missing."""
    return len(kinds) == 1 and kinds <= _PLAIN_KEYS


def sort_keys(values: Sequence[Any], empty_is_greatest: bool = False) -> list[Any]:
    """Return a key for each value of an `order by` or of `sort`, of which None stands for no value.

    The keys are compared with each other by Python. Raises NeedsSaxon if the values cannot be compared.
    """
    there = [value for value in values if value is not None]
    kinds = {_family(value) for value in there}
    if len(kinds) > 1:
        raise NeedsSaxon("values that cannot be compared")
    empty = (1,) if empty_is_greatest else (-1,)
    [kind] = kinds or {""}
    found: list[Any] = [empty if value is None else (0, _sort_key(value, kind)) for value in values]
    if kind not in ("string", "number", "boolean", "dayTimeDuration", "yearMonthDuration"):
        _refuse_mixed([("", 0, value.tzinfo is None) for value in there])
    if kind == "number" and {float, Decimal} <= {type(value) for value in there}:
        raise NeedsSaxon("doubles among decimals")
    return found


def _family(value: Any) -> str:
    kind = type(value)
    return "string" if kind in STRING_TYPES else "number" if kind in NUMERIC_TYPES else TYPE_NAMES[kind]


def _sort_key(value: Any, family: str) -> Any:
    if family == "number":
        if value != value or type(value) is Single or (type(value) is int and abs(value) > _EXACT_MAX):
            raise NeedsSaxon("a number whose order depends on others")
        return to_double(value) + 0.0 if type(value) is float else value
    if family == "yearMonthDuration":
        return value.months
    return str(value) if family == "string" else value


# --- effective boolean values


def is_true(values: Sequence[Any]) -> bool:
    """Return the effective boolean value of a sequence of atomic values (XQuery 3.1, 2.4.3)."""
    if not values:
        return False
    [value] = values if len(values) == 1 else [None]
    kind = type(value)
    if kind in STRING_TYPES or kind is bool:
        return bool(value)
    if kind in NUMERIC_TYPES:
        return bool(value == value and value)
    raise NeedsSaxon("no effective boolean value")
