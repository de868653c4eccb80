"""A limit of how many messages a gateway takes or sends: a token bucket.

The bucket holds up to `burst` tokens and is filled at the rate. A message takes one; without
one it waits or is refused.
"""

from __future__ import annotations

import time
from collections.abc import Callable


class RateLimit:
    """Used by one thread."""

    def __init__(self, per_second: float, burst: int | None, clock: Callable[[], float] = time.monotonic) -> None:
        """Without `burst`, what is allowed in a second may come at once, and one message in any case."""
        self._per_second = per_second
        self._burst = float(burst) if burst is not None else max(1.0, per_second)
        self._clock = clock
        self._tokens = self._burst
        self._filled_at = clock()

    def wait_seconds(self) -> float:
        """Return how long the next message must wait."""
        self._fill()
        return 0.0 if self._tokens >= 1.0 else (1.0 - self._tokens) / self._per_second

    def take(self) -> float:
        """Take a token. Return 0, or how long a message must wait if there is none: then none is taken."""
        wait = self.wait_seconds()
        if not wait:
            self._tokens -= 1.0
        return wait

    def _fill(self) -> None:
        now = self._clock()
        self._tokens = min(self._burst, self._tokens + max(now - self._filled_at, 0.0) * self._per_second)
        if self._tokens > 1.0 - 1e-9:  # what is missing by rounding is no reason to wait
            self._tokens = max(self._tokens, 1.0)
        self._filled_at = now
