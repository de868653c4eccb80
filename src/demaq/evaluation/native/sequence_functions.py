"""Sequences of any items."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from demaq.evaluation.native.fallback import NeedsSaxon

T = TypeVar("T")

_POSITION_MAX = 2**31 - 1
"""Of a greater position to insert at, Saxon takes 32 bits."""
RANGE_MAX = 100_000
"""Longer ranges are left to Saxon, which makes no lists of them."""


def subsequence(items: list[T], start: int, length: int | None = None) -> list[T]:
    if length is None:
        return items[max(start - 1, 0) :]
    return items[max(start - 1, 0) : max(start - 1 + length, 0)]


def without(items: list[T], position: int) -> list[T]:
    return items[: position - 1] + items[position:] if 1 <= position <= len(items) else items


def inserted(items: list[T], position: int, others: list[T]) -> list[T]:
    if abs(position) > _POSITION_MAX:
        raise NeedsSaxon("a position of more than 32 bits")
    place = max(position - 1, 0)
    return items[:place] + others + items[place:]


def expect_items(items: list[T]) -> list[T]:
    if not items:
        raise NeedsSaxon("no items")
    return items


def expected(item: T, is_instance: bool) -> T:
    """Return an item that must be an instance of a type."""
    if not is_instance:
        raise NeedsSaxon("an item of another type")
    return item


def integers(first: int, last: int) -> list[int]:
    if last - first > RANGE_MAX:
        raise NeedsSaxon("a long range")
    return list(range(first, last + 1))


def range_of(first: Sequence[int], last: Sequence[int]) -> list[int]:
    """Return a range; none if one of its bounds is missing."""
    if len(first) > 1 or len(last) > 1:
        raise NeedsSaxon("more than one bound")
    return integers(first[0], last[0]) if first and last else []
