"""Peers that messages are sent to: limits of concurrency and rate, and a circuit breaker."""

from __future__ import annotations

import random
from collections.abc import Callable

from demaq.backoff import Backoff
from demaq.gateways.outbox.delivery_results import DeliveryFailed

JITTER = 0.5
"""A pause is shortened by up to this share, so that what failed together does not come back together."""
RETRY_AFTER_SECONDS_MAX = 24 * 60 * 60.0
"""The longest delay that is accepted from the other side."""


class Peer:
    """One other side: a host and port, or the domain of mail addresses."""

    def __init__(
        self,
        connections: int,
        rate_per_second: float | None,
        failures_max: int,
        backoff: Backoff,
        clock: Callable[[], float],
    ) -> None:
        self._connections = connections
        self._interval = 0.0 if rate_per_second is None else 1.0 / rate_per_second
        self._failures_max = failures_max
        self._backoff = backoff
        self._clock = clock
        self._busy = 0
        self._free_at = 0.0
        """When the rate allows the next message."""
        self._failures = 0
        """How many attempts have failed since the last one that did not."""
        self._closed_until: float | None = None
        """While it is not worth trying, until when; then one message is let through to see."""
        self._closings = 0
        """How often in a row it was left alone."""
        self._is_probing = False
        self._last: DeliveryFailed | None = None

    @property
    def is_open(self) -> bool:
        """Whether messages are let through."""
        return self._closed_until is None

    @property
    def may_try(self) -> bool:
        """Whether a message may go, or one that shows whether the other side is back."""
        return self._closed_until is None or (not self._is_probing and self._clock() >= self._closed_until)

    @property
    def is_busy(self) -> bool:
        """Whether messages are on their way."""
        return self._busy > 0

    @property
    def is_idle(self) -> bool:
        """Return whether nothing about it has to be remembered."""
        return not self._busy and not self._failures and self.is_open and self._free_at <= self._clock()

    def wait_seconds(self) -> float | None:
        """Return how long the next message must wait for the rate limit; None if until another one has ended."""
        if self._busy >= self._connections:
            return None
        return max(self._free_at - self._clock(), 0.0)

    def refusal(self) -> DeliveryFailed | None:
        """Return the last failure if the circuit breaker is open; None if a message may be tried."""
        if self._closed_until is None:
            return None
        if self._clock() >= self._closed_until and not self._is_probing:
            self._is_probing = True  # one may try
            return None
        last = self._last
        assert last is not None, "something has failed"
        left = max(self._closed_until - self._clock(), 0.0)  # before that it is no use
        reason = f"not tried, because others have failed: {last.reason}"
        return DeliveryFailed(kind=last.kind, reason=reason, again=True, after_seconds=left)

    def begin(self) -> None:
        self._busy += 1
        self._free_at = max(self._free_at, self._clock()) + self._interval

    def end(self, failure: DeliveryFailed | None) -> bool:
        """Note the end of an attempt; `failure` is one of the peer, not of the message.

        Return whether this closes the circuit breaker.
        """
        self._busy -= 1
        self._is_probing = False
        if failure is None:
            is_back = self._closed_until is not None
            self._failures = 0
            self._closed_until = None
            self._closings = 0
            return is_back
        self._failures += 1
        self._last = failure
        if self._closed_until is not None or self._failures >= self._failures_max:
            self._closings += 1
            self._closed_until = self._clock() + self._backoff.delay_seconds(self._closings)
        return False


def pause_seconds(
    attempt: int, first: float, longest: float, asked: float | None, chance: Callable[[], float] = random.random
) -> float:
    """Return how long to wait after an attempt, the first of which is 1: at least as long as the peer asks for."""
    pause = Backoff(first, longest, JITTER).delay_seconds(attempt, chance)
    return pause if asked is None else max(pause, min(asked, RETRY_AFTER_SECONDS_MAX))
