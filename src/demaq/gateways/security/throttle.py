"""Delay attempts after repeated failures.

The first failures cost nothing: people mistype. Each further one doubles the time to wait, up to a bound, and after a
while without any all is forgotten. What is remembered is bounded too: those whose last failure is longest ago go first.
"""

from __future__ import annotations

import ipaddress
import time
from collections import OrderedDict
from collections.abc import Callable

from demaq.backoff import Backoff

FREE_FAILURES = 3
BACKOFF = Backoff(seconds_first=1.0, seconds_max=60.0)
FORGET_SECONDS = 900.0
REMEMBERED_MAX = 10_000
IPV6_PREFIX = 64
"""So much of an IPv6 address is one customer's: the rest they choose as they like."""


class Throttle:
    """Counts recent failures by name, and computes how long each has to wait."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failures: OrderedDict[str, tuple[int, float]] = OrderedDict()  # count and when the last one was

    def note_failure(self, name: str) -> float:
        """Count a failure and return for how many seconds the next attempt should wait."""
        count = self._count(name) + 1
        self._failures[name] = (count, self._clock())
        self._failures.move_to_end(name)
        while len(self._failures) > REMEMBERED_MAX:
            self._failures.popitem(last=False)
        return _pause(count)

    def remaining_seconds(self, name: str) -> float:
        """Return for how many more seconds an attempt comes too early."""
        count = self._count(name)
        return max(0.0, self._failures[name][1] + _pause(count) - self._clock()) if count else 0.0

    def __len__(self) -> int:
        return len(self._failures)

    def _count(self, name: str) -> int:
        count, last = self._failures.get(name, (0, 0.0))
        if count and self._clock() - last > FORGET_SECONDS:
            del self._failures[name]
            return 0
        return count


def network_of(address: str) -> str:
    """Return what counts as one address: an IPv4 address, or the network of an IPv6 address."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv4Address):
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((parsed, IPV6_PREFIX), strict=False))


def _pause(count: int) -> float:
    return BACKOFF.delay_seconds(count - FREE_FAILURES)
