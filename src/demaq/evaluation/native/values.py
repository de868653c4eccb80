"""Atomic values in translated expressions. What cannot be computed exactly is left to Saxon: `NeedsSaxon`."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn, TypeVar

from demaq.evaluation.native.arithmetic import to_double
from demaq.evaluation.native.fallback import NeedsSaxon as NeedsSaxon
from demaq.evaluation.native.number_texts import double_text, find_double, is_negative_zero

T = TypeVar("T")

_SPACE = " \t\r\n"
_SPACES = re.compile(f"[{_SPACE}]+")
_EXACT_MAX = 2**53
"""Every integer up to here is a double."""

# --- values ---


def fail() -> NoReturn:
    raise NeedsSaxon("an error, which Saxon reports")


def at_most_one(items: Sequence[T]) -> Sequence[T]:
    if len(items) > 1:
        raise NeedsSaxon("more than one item")
    return items


def only(items: Sequence[T]) -> T:
    if len(items) != 1:
        raise NeedsSaxon("not exactly one item")
    return items[0]


def one_or_none(items: Sequence[T]) -> T | None:
    """Return the item of a sequence of at most one."""
    return items[0] if items else None


def at_least_one(items: Sequence[T]) -> Sequence[T]:
    if not items:
        raise NeedsSaxon("no item")
    return items


def one_text(texts: Sequence[str]) -> str:
    if len(texts) > 1:
        raise NeedsSaxon("more than one item")
    return texts[0] if texts else ""


def normalized(text: str) -> str:
    return _SPACES.sub(" ", text.strip(_SPACE))


def is_true_number(value: float) -> bool:
    return value == value and value != 0  # NaN is false, and not itself


def comparable(value: float) -> float:
    """Return a number that is compared with an untyped one or one of another type: then Saxon has -0 less than 0."""
    if isinstance(value, int):
        if abs(value) > _EXACT_MAX:
            raise NeedsSaxon("an integer that no double may be equal to")
    elif is_negative_zero(value):
        raise NeedsSaxon("no ordinary number")
    return value


def certain_double(value: float) -> float:
    """Return a sum that is an operand together with a decimal. Raises NeedsSaxon for an integer."""
    if isinstance(value, int):
        raise NeedsSaxon("an integer where a double was expected")
    return value


def max_double(values: Sequence[float]) -> float:
    return max(_ordinary(values))


def min_double(values: Sequence[float]) -> float:
    return min(_ordinary(values))


def _ordinary(values: Sequence[float]) -> Sequence[float]:
    """Return numbers for which Python and Saxon have the same order."""
    if any([math.isnan(value) or is_negative_zero(value) for value in values]):
        raise NeedsSaxon("no ordinary number")
    return values


def total(values: Sequence[float]) -> float:
    """Return the sum, added one by one: Python's own sum corrects rounding errors. The sum of none is an integer."""
    if not values:
        return 0
    found = values[0]  # the sum of one is that one, also of -0
    for value in values[1:]:
        found += value
    return found


def any_equal(some: Sequence[str], others: Sequence[str]) -> bool:
    return not set(some).isdisjoint(others)


def any_unequal(some: Sequence[str], others: Sequence[str]) -> bool:
    return len({*some, *others}) > 1 if some and others else False


def entries(values: Iterable[str]) -> list[str]:
    """Return the index entries of values: each as a string, and also as a number if it is one."""
    found: dict[str, None] = {}
    for value in values:
        found["s" + value] = None
        number = find_double(value)
        if number is not None:
            found[number_entry(number)] = None
    return list(found)


def number_entry(value: Any) -> str:
    """Return the index entry of a number."""
    number = to_double(value)
    if not math.isfinite(number):
        raise NeedsSaxon("no ordinary number")
    return "n" + double_text(number + 0.0)
