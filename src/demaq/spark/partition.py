"""Divide messages among tasks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def partition(slices: Sequence[Iterable[tuple[str, str]]], tasks: int) -> list[list[int]]:
    """Divide the positions of messages into shares of about equal size.

    Messages with a common slice are in one share.
    """
    leader = list(range(len(slices)))

    def find_leader(position: int) -> int:
        while leader[position] != position:
            leader[position] = leader[leader[position]]
            position = leader[position]
        return position

    first: dict[tuple[str, str], int] = {}
    for position, keys in enumerate(slices):
        for key in keys:
            mine, other = find_leader(position), find_leader(first.setdefault(key, position))
            leader[max(mine, other)] = min(mine, other)
    groups: dict[int, list[int]] = {}
    for position in range(len(slices)):
        groups.setdefault(find_leader(position), []).append(position)
    shares: list[list[int]] = [[] for _ in range(min(tasks, len(groups)))]
    for group in groups.values():
        min(shares, key=len).extend(group)
    return [sorted(share) for share in shares]
