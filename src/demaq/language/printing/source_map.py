"""Source maps: the source location of each position in printed text."""

from __future__ import annotations

from bisect import bisect_right

from demaq.source import SourceLocation


class SourceMap:
    """Filled from the beginning of the printed text to its end; positions are lines and columns from 1."""

    def __init__(self) -> None:
        self._positions: list[tuple[int, int]] = []
        self._places: list[SourceLocation] = []

    def add(self, line: int, column: int, place: SourceLocation) -> None:
        self._positions.append((line, column))
        self._places.append(place)

    def place(self, line: int, column: int) -> SourceLocation | None:
        """Return the location of the innermost construct at the position, else of the nearest one before it."""
        index = bisect_right(self._positions, (line, column))
        return self._places[index - 1] if index else None

    def __len__(self) -> int:
        return len(self._places)
