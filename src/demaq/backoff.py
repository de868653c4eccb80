"""Exponential back-off: how long to wait before the next attempt after some failures in a row."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

DOUBLINGS_MAX = 60
"""Beyond that any bound is reached. An outage may last for days, and larger powers of two overflow a float."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """The delay doubles with every failure in a row, from `seconds_first` up to `seconds_max`."""

    seconds_first: float
    seconds_max: float
    jitter: float = 0.0
    """A delay is shortened by a random share of up to this much, so that what failed at once is not retried at once."""

    def delay_seconds(self, failures: int, chance: Callable[[], float] = random.random) -> float:
        """Return how long to wait after this many failures in a row: 0 after none.

        `chance` returns a number from 0 up to, but not including, 1.
        """
        if failures <= 0:
            return 0.0
        delay = min(self.seconds_first * 2.0 ** min(failures - 1, DOUBLINGS_MAX), self.seconds_max)
        return delay * (1 - self.jitter * chance()) if self.jitter else delay
