"""Order and group tuples of variables, in FLWOR expressions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from demaq.evaluation.native.comparisons import equality_keys, sort_keys
from demaq.evaluation.native.fallback import NeedsSaxon

Row = tuple[Any, ...]
Keys = tuple[Sequence[Any], ...]
"""Lists of at most one value each."""


def order_by(rows: list[tuple[Row, Keys]], how: Sequence[tuple[bool, bool]]) -> list[Row]:
    """Return tuples in the order of their keys.

    `how` has for each key whether it is descending, and whether no value is the greatest.
    """
    if len(rows) > 1:
        for number in range(len(how) - 1, -1, -1):  # sorting is stable
            is_descending, empty_is_greatest = how[number]
            ranks = sort_keys([keys[number] for _, keys in rows], empty_is_greatest)
            places = sorted(range(len(rows)), key=ranks.__getitem__, reverse=is_descending)
            rows = [rows[place] for place in places]
    return [row for row, _ in rows]


def group_by(rows: list[tuple[Keys, Row]], is_ordered: bool) -> list[Row]:
    """Return a tuple for each group: its keys, and the values of all its tuples in lists.

    Raises NeedsSaxon if there are several groups and they are not ordered later.
    """
    if not rows:
        return []
    columns = zip(*[keys for keys, _ in rows], strict=True)
    groups: dict[Row, tuple[Keys, list[Row]]] = {}
    for found, (keys, row) in zip(zip(*[_comparable(column) for column in columns], strict=True), rows, strict=True):
        groups.setdefault(found, (keys, []))[1].append(row)
    if len(groups) > 1 and not is_ordered:
        raise NeedsSaxon("groups in no particular order")
    made: list[Row] = []
    for keys, members in groups.values():
        joined = [[item for items in column for item in items] for column in zip(*members, strict=True)]
        made.append((*keys, *joined))
    return made


def _comparable(column: Sequence[Sequence[Any]]) -> list[Any]:
    """Return a key for each list of at most one value."""
    found = iter(equality_keys([values[0] for values in column if values]))
    return [next(found) if values else None for values in column]


def is_case(operand: Sequence[Any], value: Sequence[Any]) -> bool:
    """Return whether the operand of a `switch` matches a value; both are lists of at most one value."""
    if not operand or not value:
        return not operand and not value
    one, other = equality_keys([operand[0], value[0]])
    return bool(one == other)


def sorted_items(items: list[Any], values: list[Any]) -> list[Any]:
    """Return items in the order of their values."""
    ranks = sort_keys([(value,) for value in values])
    return [items[place] for place in sorted(range(len(items)), key=ranks.__getitem__)]
