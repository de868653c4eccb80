"""Place what is in the columns of a layered graph, in a given order, opposite its neighbours.

In turn each column is moved to where the squares of the distances to its neighbours are least, while its items keep
their order and their room. That is isotonic regression, solved by merging items that press against each other ("pool
adjacent violators"). Long edges have more weight, so that they become straight.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TypeVar

Item = TypeVar("Item", bound=Hashable)
SWEEPS = 32
PASSING_WEIGHT = 8
"""Of a link between two places where an edge passes, compared with one between two boxes."""


def place_columns(
    columns: Sequence[Sequence[Item]], links: Sequence[tuple[Item, Item]], heights: Mapping[Item, float]
) -> dict[Item, float]:
    """Return for each item the height of its middle, from 0 on."""
    neighbours: tuple[dict[Item, list[tuple[Item, float]]], dict[Item, list[tuple[Item, float]]]] = ({}, {})
    for source, target in links:
        weight = 1 + (PASSING_WEIGHT - 1) / 2 * ((not isinstance(source, str)) + (not isinstance(target, str)))
        neighbours[0].setdefault(target, []).append((source, weight))
        neighbours[1].setdefault(source, []).append((target, weight))
    rows: dict[Item, float] = {}
    for column in columns:
        top = 0.0
        for item in column:
            rows[item] = top + heights[item] / 2
            top += heights[item]
    for sweep in range(SWEEPS):
        sides = (neighbours[sweep % 2],) if sweep < SWEEPS // 2 else neighbours
        for column in columns if sweep % 2 == 0 else reversed(columns):
            _move_column(column, sides, heights, rows)
    least = min([rows[item] - heights[item] / 2 for item in rows])
    return {item: row - least for item, row in rows.items()}


def _move_column(
    column: Sequence[Item],
    sides: Sequence[Mapping[Item, Sequence[tuple[Item, float]]]],
    heights: Mapping[Item, float],
    rows: dict[Item, float],
) -> None:
    above = 0.0
    offsets: list[float] = []
    blocks: list[tuple[float, float, int]] = []  # mean of the wished places, weight, number of items
    for item in column:
        offset = above + heights[item] / 2
        above += heights[item]
        offsets.append(offset)
        linked = [link for side in sides for link in side.get(item, ())]
        weight = sum([weight for _, weight in linked])
        wished = sum([rows[other] * w for other, w in linked]) / weight if linked else rows[item]
        blocks.append((wished - offset, weight or 0.01, 1))
        while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
            (mean, mass, size), (other_mean, other_mass, other_size) = blocks.pop(), blocks.pop()
            total = mass + other_mass
            blocks.append(((mean * mass + other_mean * other_mass) / total, total, size + other_size))
    position = 0
    for mean, _, size in blocks:
        for n in range(position, position + size):
            rows[column[n]] = mean + offsets[n]
        position += size
