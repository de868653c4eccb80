"""Strongly connected components of a graph, by Tarjan's algorithm without recursion."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import TypeVar

N = TypeVar("N", bound=Hashable)


def find_strong_components(onward: Mapping[N, Sequence[N]]) -> dict[N, int]:
    """Return a number for every node; two nodes have the same number if each can be reached from the other."""
    component: dict[N, int] = {}
    index: dict[N, int] = {}
    lowest: dict[N, int] = {}
    path: list[N] = []
    for start in onward:
        if start in index:
            continue
        index[start] = lowest[start] = len(index)
        path.append(start)
        work: list[tuple[N, Iterator[N]]] = [(start, iter(onward[start]))]
        while work:
            node, rest = work[-1]
            following = next(rest, None)
            if following is None:
                work.pop()
                if work:
                    lowest[work[-1][0]] = min(lowest[work[-1][0]], lowest[node])
                if lowest[node] == index[node]:
                    _close(node, path, component)
            elif following not in index:
                index[following] = lowest[following] = len(index)
                path.append(following)
                work.append((following, iter(onward[following])))
            elif following not in component:
                lowest[node] = min(lowest[node], index[following])
    return component


def _close(node: N, path: list[N], component: dict[N, int]) -> None:
    """Assign the component of a node to everything found since."""
    number = len(component)
    while True:
        member = path.pop()
        component[member] = number
        if member == node:
            return
