"""What gateways count while they work. Counting costs less than a microsecond and takes no lock: each belongs to the
event loop, and others read copies."""

from __future__ import annotations

from bisect import bisect_left
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


class Requests:
    """How requests were answered."""

    def __init__(self) -> None:
        self.counts: dict[tuple[str, int], int] = {}
        """How many, by queue and status."""
        self.durations: dict[str, Durations] = {}
        """How long their senders waited, by queue."""

    def add(self, queue: str, status: int, seconds: float) -> None:
        self.counts[queue, status] = self.counts.get((queue, status), 0) + 1
        if queue not in self.durations:
            self.durations[queue] = Durations()
        self.durations[queue].add(seconds)
