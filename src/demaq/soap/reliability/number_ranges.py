"""Sets of message numbers as ranges: what an acknowledgement lists.

All operations are linear in the number of ranges, never in the numbers they span, so a range up to 2^63 costs nothing.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Self


@dataclass(frozen=True, slots=True)
class NumberRanges:
    """Ranges of numbers from 1 on, ascending, neither overlapping nor adjacent."""

    ranges: tuple[tuple[int, int], ...] = ()
    """Each with its first and its last number."""

    @classmethod
    def of(cls, ranges: Iterable[tuple[int, int]]) -> Self:
        """Return the union of ranges in any order."""
        merged: list[tuple[int, int]] = []
        for low, high in sorted(ranges):
            assert 1 <= low <= high, "ranges from outside are checked where they are read"
            if merged and low <= merged[-1][1] + 1:
                merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
            else:
                merged.append((low, high))
        return cls(tuple(merged))

    @classmethod
    def up_to(cls, last: int) -> Self:
        """Return all numbers up to one; none for 0."""
        return cls(((1, last),) if last > 0 else ())

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the ranges that `str` has written."""
        pairs = [part.partition("-") for part in text.split(",") if part]
        return cls.of([(int(low), int(high or low)) for low, _, high in pairs])

    def __str__(self) -> str:
        """Return a text such as `1-3,5`."""
        return ",".join([str(low) if low == high else f"{low}-{high}" for low, high in self.ranges])

    def __bool__(self) -> bool:
        return bool(self.ranges)

    def __contains__(self, number: int) -> bool:
        at = bisect_right(self.ranges, number, key=_low) - 1
        return at >= 0 and number <= self.ranges[at][1]

    def __iter__(self) -> Iterator[int]:
        """Yield the numbers. Only for ranges of what is stored here, never for those of others."""
        for low, high in self.ranges:
            yield from range(low, high + 1)

    @property
    def highest(self) -> int:
        """Return the highest number, or 0 if there is none."""
        return self.ranges[-1][1] if self.ranges else 0

    @property
    def count(self) -> int:
        """Return how many numbers there are."""
        return sum([high - low + 1 for low, high in self.ranges])

    @property
    def first_gap(self) -> int:
        """Return the lowest number that is missing."""
        return self.ranges[0][1] + 1 if self.ranges and self.ranges[0][0] == 1 else 1

    def add(self, number: int) -> Self:
        """Return the ranges with one more number."""
        return self.merge(type(self)(((number, number),)))

    def merge(self, other: NumberRanges) -> Self:
        """Return the union."""
        return type(self).of([*self.ranges, *other.ranges])

    def remove(self, other: NumberRanges) -> Self:
        """Return the ranges without the numbers of others."""
        kept: list[tuple[int, int]] = []
        removed = list(reversed(other.ranges))
        for low, high in self.ranges:
            while removed and removed[-1][1] < low:
                removed.pop()
            start = low
            for gap_low, gap_high in reversed(removed):
                if gap_low > high:
                    break
                if start < gap_low:
                    kept.append((start, gap_low - 1))
                start = gap_high + 1
            if start <= high:
                kept.append((start, high))
        return type(self)(tuple(kept))

    def gaps(self, last: int | None = None) -> Self:
        """Return what is missing between 1 and a number, or the highest one there is."""
        return type(self).up_to(self.highest if last is None else last).remove(self)

    def take(self, at_most: int) -> list[int]:
        """Return the lowest numbers."""
        return list(islice(self, at_most))


NO_NUMBERS = NumberRanges()


def _low(pair: tuple[int, int]) -> int:
    return pair[0]
