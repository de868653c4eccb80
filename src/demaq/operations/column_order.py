"""Order what is in the columns of a layered graph so that few edges cross.

Each column is sorted by the mean place of the neighbours in the one before it, from left to right and back again, and
the best order that was met is kept. Finding the fewest crossings is NP-hard; this comes near it.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left, insort
from collections.abc import Hashable, Mapping, Sequence
from typing import TypeVar

Item = TypeVar("Item", bound=Hashable)
SWEEPS = 24


def order_columns(columns: Sequence[Sequence[Item]], links: Sequence[tuple[Item, Item]]) -> list[list[Item]]:
    """Return the columns with their items in order. A link leads from one column to the next."""
    before: dict[Item, list[Item]] = {item: [] for column in columns for item in column}
    after: dict[Item, list[Item]] = {item: [] for column in columns for item in column}
    for source, target in links:
        after[source].append(target)
        before[target].append(source)
    current = _order_depth_first(columns, before, after)
    best, fewest = [list(column) for column in current], count_crossings(current, after)
    met: list[list[list[Item]]] = []
    for sweep in range(SWEEPS):
        if fewest == 0:
            break
        forwards = sweep % 2 == 0
        numbers = range(1, len(current)) if forwards else range(len(current) - 2, -1, -1)
        for number in numbers:
            neighbours = before if forwards else after
            _sort_by_neighbours(current[number], neighbours, current[number - 1 if forwards else number + 1])
        _swap_neighbours(current, before, after)
        crossings = count_crossings(current, after)
        if crossings < fewest:
            best, fewest = [list(column) for column in current], crossings
        if current in met[-2:-1]:
            break  # two sweeps lead back to the same order, and so will all that follow
        met.append([list(column) for column in current])
    return best


def count_crossings(columns: Sequence[Sequence[Item]], after: Mapping[Item, Sequence[Item]]) -> int:
    """Return how many pairs of links cross."""
    crossings = 0
    for column, following in itertools.pairwise(columns):
        place = {item: n for n, item in enumerate(following)}
        ends: list[int] = []
        for item in column:
            mine = sorted([place[target] for target in after[item]])
            for end in mine:
                crossings += len(ends) - _count_up_to(ends, end)
            for end in mine:
                insort(ends, end)
    return crossings


def _count_up_to(ends: Sequence[int], end: int) -> int:
    return bisect_left(ends, end + 1)


def _order_depth_first(
    columns: Sequence[Sequence[Item]], before: Mapping[Item, Sequence[Item]], after: Mapping[Item, Sequence[Item]]
) -> list[list[Item]]:
    """Return the columns in the order of a search through the graph, which puts what is connected side by side."""
    level = {item: n for n, column in enumerate(columns) for item in column}
    ordered: list[list[Item]] = [[] for _ in columns]
    seen: set[Item] = set()
    for column in columns:
        for start in column:
            stack = [start]
            while stack:
                item = stack.pop()
                if item in seen:
                    continue
                seen.add(item)
                ordered[level[item]].append(item)
                stack += reversed([*after[item], *before[item]])
    return ordered


def _sort_by_neighbours(column: list[Item], neighbours: Mapping[Item, Sequence[Item]], fixed: Sequence[Item]) -> None:
    """Sort a column by the mean places of neighbours; what has none stays where it is."""
    place = {item: n for n, item in enumerate(fixed)}
    keys = {
        item: sum([place[n] for n in neighbours[item]]) / len(neighbours[item]) for item in column if neighbours[item]
    }
    sorted_items = iter(sorted(keys, key=keys.__getitem__))
    column[:] = [next(sorted_items) if item in keys else item for item in column]


def _swap_neighbours(
    columns: Sequence[list[Item]], before: Mapping[Item, Sequence[Item]], after: Mapping[Item, Sequence[Item]]
) -> None:
    """Swap two items that stand one above the other wherever fewer links cross then."""
    for number, column in enumerate(columns):
        sides = []
        if number > 0:
            sides.append((before, {item: n for n, item in enumerate(columns[number - 1])}))
        if number + 1 < len(columns):
            sides.append((after, {item: n for n, item in enumerate(columns[number + 1])}))
        ends = {item: [sorted([place[n] for n in links[item]]) for links, place in sides] for item in column}
        for n in range(len(column) - 1):
            upper, lower = ends[column[n]], ends[column[n + 1]]
            gain = sum([_crossings_of(a, b) - _crossings_of(b, a) for a, b in zip(upper, lower, strict=True)])
            if gain > 0:
                column[n], column[n + 1] = column[n + 1], column[n]


def _crossings_of(upper: Sequence[int], lower: Sequence[int]) -> int:
    """Return how many links cross of two items, by the sorted places of their neighbours."""
    if not upper or not lower or upper[-1] <= lower[0]:
        return 0
    return sum([len(upper) - _count_up_to(upper, end) for end in lower])
