"""Order and group tuples of variables, in FLWOR expressions."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from demaq.evaluation.native.comparisons import are_plain, equality_keys, sort_keys
from demaq.evaluation.native.fallback import NeedsSaxon

Row = tuple[Any, ...]
Keys = tuple[Sequence[Any], ...]
"""Lists of at most one value each."""

_ITEMS = [operator.itemgetter(number) for number in range(8)]


def order_by(rows: Sequence[Row], how: Sequence[tuple[int, bool, bool, bool]]) -> Sequence[Row]:
    """Return tuples in the order of their keys, which are among their items; None stands for no value.

    `how` has the keys, from the last one to the first: the number of the item, whether it is descending, whether no
    value is the greatest, and whether it is always a text.
    """
    if len(rows) < 2:
        return rows
    for number, is_descending, empty_is_greatest, is_text in how:  # sorting is stable
        if is_text or are_plain({type(row[number]) for row in rows}):
            item = _ITEMS[number] if number < len(_ITEMS) else operator.itemgetter(number)
            try:
                rows = sorted(rows, key=item, reverse=is_descending)
                continue
            except TypeError:  # None is not compared with texts
                pass
        ranks = sort_keys([row[number] for row in rows], empty_is_greatest)
        rows = [rows[place] for place in sorted(range(len(rows)), key=ranks.__getitem__, reverse=is_descending)]
    return rows


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
    ranks = values if are_plain({type(value) for value in values}) else sort_keys(values)
    return [items[place] for place in sorted(range(len(items)), key=ranks.__getitem__)]
