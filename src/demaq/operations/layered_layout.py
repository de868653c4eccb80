"""Place the boxes of a directed graph in columns, so that edges lead from left to right: the method of Sugiyama.

    orient     edges that would close a cycle are turned round
    layer      each box right of all its predecessors, and near its neighbours
    order      the boxes of a column so that few edges cross
    place      boxes opposite their neighbours, with room between them
    route      edges through the columns between, past the boxes in them

The result depends on the graph alone, so the same application always has the same picture.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from demaq.operations.column_order import order_columns
from demaq.operations.column_places import place_columns

Point: TypeAlias = tuple[float, float]
COLUMN_GAP = 56
"""Between two columns; edges curve there."""
ROW_GAP = 14
LANE = 12
"""Room for an edge that passes a column."""
PART_GAP = 30
"""Between parts of the graph that are not connected."""
TURNED_OFFSET = 6
"""How far below the others an edge starts that leads back."""
FLAT_RATIO = 1.7
"""Parts that are not connected are put on rows, so that the picture is about so many times as wide as high."""


@dataclass(frozen=True, slots=True)
class LayoutBox:
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class LayoutEdge:
    """An edge: `is_main` if it gives the graph its direction, `offset` where it is attached, below the middle."""

    source: str
    target: str
    is_main: bool = True
    offset: float = 0


@dataclass(frozen=True, slots=True)
class GraphLayout:
    places: Mapping[str, Point]
    """The middle of each box."""
    routes: tuple[tuple[Point, ...], ...]
    """For each edge the points it goes through: straight where two are equally high, otherwise in a curve."""
    width: float
    height: float


def lay_out(boxes: Mapping[str, LayoutBox], arrows: Sequence[LayoutEdge]) -> GraphLayout:
    """Return where boxes and edges are. An edge from a box to itself has no route."""
    parts = [_lay_out_part(part, boxes, arrows) for part in _find_parts(boxes, arrows)]
    return _pack(parts, len(arrows))


# --- parts that are not connected ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _GraphPart:
    places: dict[str, Point]
    routes: dict[int, list[Point]]
    width: float
    height: float


def _find_parts(boxes: Mapping[str, LayoutBox], arrows: Sequence[LayoutEdge]) -> list[list[str]]:
    leader = {name: name for name in boxes}

    def find(name: str) -> str:
        while leader[name] != name:
            leader[name] = leader[leader[name]]
            name = leader[name]
        return name

    for arrow in arrows:
        leader[find(arrow.target)] = find(arrow.source)
    parts: dict[str, list[str]] = {}
    for name in boxes:
        parts.setdefault(find(name), []).append(name)
    return sorted(parts.values(), key=len, reverse=True)


def _pack(parts: Sequence[_GraphPart], arrows: int) -> GraphLayout:
    """Put parts next to each other on rows, from the largest to the smallest."""
    area = sum([(part.width + PART_GAP) * (part.height + PART_GAP) for part in parts])
    limit = max([(area * FLAT_RATIO) ** 0.5, *[part.width for part in parts]])
    places: dict[str, Point] = {}
    routes: list[tuple[Point, ...]] = [()] * arrows
    left = top = height = width = 0.0
    for part in parts:
        if left > 0 and left + part.width > limit:
            left, top, height = 0.0, top + height + PART_GAP, 0.0
        for name, (x, y) in part.places.items():
            places[name] = (x + left, y + top)
        for number, points in part.routes.items():
            routes[number] = tuple([(x + left, y + top) for x, y in points])
        width = max(width, left + part.width)
        left += part.width + PART_GAP
        height = max(height, part.height)
    return GraphLayout(places, tuple(routes), width, top + height)


def _lay_out_part(names: Sequence[str], boxes: Mapping[str, LayoutBox], arrows: Sequence[LayoutEdge]) -> _GraphPart:
    members = set(names)
    inside = {n: arrow for n, arrow in enumerate(arrows) if arrow.source in members and arrow.source != arrow.target}
    turned = _orient(names, inside)
    oriented = {n: _ends(arrow, n in turned) for n, arrow in inside.items()}
    layers = _assign_layers(names, list(oriented.values()), [arrow.is_main for arrow in inside.values()])
    # Boxes have their names, the places where an edge passes a column have numbers of edge and column.
    columns: list[list[str | tuple[int, int]]] = [[] for _ in range(max(layers.values()) + 1)]
    for name in names:
        columns[layers[name]].append(name)
    links: list[tuple[str | tuple[int, int], str | tuple[int, int]]] = []
    for n, (source, target) in oriented.items():
        passed = [(n, layer) for layer in range(layers[source] + 1, layers[target])]
        for place in passed:
            columns[place[1]].append(place)
        chain: list[str | tuple[int, int]] = [source, *passed, target]
        links += list(itertools.pairwise(chain))
    ordered = order_columns(columns, links)
    heights = {
        item: boxes[item].height + ROW_GAP if isinstance(item, str) else LANE for column in ordered for item in column
    }
    rows = place_columns(ordered, links, heights)
    widths = [max([boxes[item].width for item in column if isinstance(item, str)], default=0) for column in ordered]
    lefts = [sum(widths[:layer]) + COLUMN_GAP * layer for layer in range(len(widths))]
    places = {name: (lefts[layers[name]] + widths[layers[name]] / 2, rows[name]) for name in names}
    routes: dict[int, list[Point]] = {}
    for n, (source, target) in oriented.items():
        points: list[Point] = []
        drop = inside[n].offset + (TURNED_OFFSET if n in turned else 0)
        for name, side in ((source, 1), (target, -1)):
            (x, y), box, layer = places[name], boxes[name], layers[name]
            y += max(-box.height / 2 + 4, min(box.height / 2 - 4, drop))
            edge = lefts[layer] + (widths[layer] if side > 0 else 0)
            ends = [(x + side * box.width / 2, y), (edge, y)]
            if side > 0:
                points += ends
                for layer_between in range(layers[source] + 1, layers[target]):
                    row = rows[(n, layer_between)]
                    left = lefts[layer_between]
                    points += [(left, row), (left + widths[layer_between], row)]
            else:
                points += reversed(ends)
        routes[n] = points[::-1] if n in turned else points
    height = max([rows[name] + boxes[name].height / 2 for name in names] + [y for r in routes.values() for _, y in r])
    return _GraphPart(places, routes, lefts[-1] + widths[-1], height)


def _ends(arrow: LayoutEdge, is_turned: bool) -> tuple[str, str]:
    return (arrow.target, arrow.source) if is_turned else (arrow.source, arrow.target)


# --- orient and layer ------------------------------------------------------------------------------------------------


def _orient(names: Sequence[str], arrows: Mapping[int, LayoutEdge]) -> set[int]:
    """Return the edges to turn round so that there is no cycle, where possible none of the main ones."""
    leaving: dict[str, list[tuple[int, str]]] = {name: [] for name in names}
    entered: set[str] = set()
    for n, arrow in arrows.items():
        if arrow.is_main:
            leaving[arrow.source].append((n, arrow.target))
            entered.add(arrow.target)
    turned: set[int] = set()
    seen: set[str] = set()
    for start in sorted(names, key=lambda name: name in entered):  # sources first; otherwise as declared
        _turn_back_edges(start, leaving, seen, turned)
    main = [_ends(arrow, n in turned) for n, arrow in arrows.items() if arrow.is_main]
    layers = _longest_paths(names, main)
    rank = {name: (layers[name], position) for position, name in enumerate(names)}
    return turned | {n for n, a in arrows.items() if not a.is_main and rank[a.source] > rank[a.target]}


def _turn_back_edges(
    start: str, leaving: Mapping[str, Sequence[tuple[int, str]]], seen: set[str], turned: set[int]
) -> None:
    """Search depth first from a box; an edge to one that the search has not left yet closes a cycle."""
    if start in seen:
        return
    seen.add(start)
    open_now = {start}
    stack = [(start, iter(leaving[start]))]
    while stack:
        name, rest = stack[-1]
        for n, target in rest:
            if target in open_now:
                turned.add(n)
            elif target not in seen:
                seen.add(target)
                open_now.add(target)
                stack.append((target, iter(leaving[target])))
                break
        else:
            open_now.discard(name)
            stack.pop()


def _longest_paths(names: Sequence[str], edges: Sequence[tuple[str, str]]) -> dict[str, int]:
    """Return for each box the length of the longest path that leads to it."""
    missing = dict.fromkeys(names, 0)
    leaving: dict[str, list[str]] = {name: [] for name in names}
    for source, target in edges:
        leaving[source].append(target)
        missing[target] += 1
    layers = dict.fromkeys(names, 0)
    ready = [name for name in names if missing[name] == 0]
    while ready:
        name = ready.pop()
        for target in leaving[name]:
            layers[target] = max(layers[target], layers[name] + 1)
            missing[target] -= 1
            if missing[target] == 0:
                ready.append(target)
    assert not any(missing.values()), "oriented edges have no cycle"
    return layers


def _assign_layers(names: Sequence[str], edges: Sequence[tuple[str, str]], is_main: Sequence[bool]) -> dict[str, int]:
    """Return the column of each box: right of its predecessors, and moved as far as that makes edges shorter."""
    layers = _longest_paths(names, edges)
    entering: dict[str, list[tuple[str, int]]] = {name: [] for name in names}
    leaving: dict[str, list[tuple[str, int]]] = {name: [] for name in names}
    for (source, target), main in zip(edges, is_main, strict=True):
        weight = 4 if main else 1
        entering[target].append((source, weight))
        leaving[source].append((target, weight))
    order = sorted(names, key=lambda name: layers[name], reverse=True)
    for _ in range(len(names)):
        moved = False
        for name in order:
            if leaving[name] and sum([w for _, w in leaving[name]]) > sum([w for _, w in entering[name]]):
                right = min([layers[target] for target, _ in leaving[name]]) - 1
                moved = moved or right != layers[name]
                layers[name] = right
        if not moved:
            break
    least = min(layers.values())
    return {name: layer - least for name, layer in layers.items()}
