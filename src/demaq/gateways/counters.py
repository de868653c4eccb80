"""Counters of gateways. They belong to the event loop, without locks; other threads read copies."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from itertools import accumulate

BOUNDS_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class Durations:
    """How long things took: how many up to each bound, and all of them together."""

    def __init__(self) -> None:
        self._counts = [0] * (len(BOUNDS_SECONDS) + 1)
        self.seconds = 0.0

    def add(self, seconds: float) -> None:
        self._counts[bisect_left(BOUNDS_SECONDS, seconds)] += 1
        self.seconds += seconds

    def up_to(self) -> list[tuple[str, float]]:
        """Return for each bound, as text, how many took no longer; at the end `+Inf` with all of them."""
        names = [*[str(bound) for bound in BOUNDS_SECONDS], "+Inf"]
        return [(name, float(count)) for name, count in zip(names, accumulate(list(self._counts)), strict=True)]


class ResultCounts:
    """The results of requests, by status, or of attempts to send."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()
        """How many, by queue and result."""
        self.durations: defaultdict[str, Durations] = defaultdict(Durations)
        """How long they took, by queue."""

    def add(self, queue: str, result: str, seconds: float) -> None:
        self.counts[queue, result] += 1
        self.durations[queue].add(seconds)
