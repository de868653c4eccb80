"""Log an outage once, however many messages and threads meet it: a line when it begins, and one when it is over."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

OVER_AFTER_SECONDS = 5.0
"""So long nothing must have failed: what is tried again meets a fault more often than this while one lasts."""


class OutageLog:
    """May be called from any thread."""

    def __init__(self, log: logging.Logger, clock: Callable[[], float] = time.monotonic) -> None:
        self._log = log
        self._clock = clock
        self._lock = threading.Lock()
        self._began: float | None = None
        self._last = 0.0
        self._failures = 0

    @property
    def is_open(self) -> bool:
        """Whether something has failed, and it is not known yet that this is over."""
        return self._began is not None

    def note_failure(self, error: Exception) -> None:
        """Something failed for reasons of the system, and will be tried again."""
        with self._lock:
            self._last = self._clock()
            self._failures += 1
            if self._began is not None:
                return
            self._began = self._last
        self._log.warning("%s; trying again until it works", error)

    def note_success(self) -> None:
        """Something worked. That ends an outage unless something else has just failed."""
        with self._lock:
            if self._began is None or self._clock() - self._last < OVER_AFTER_SECONDS:
                return
            seconds, failures = self._last - self._began, self._failures
            self._began, self._failures = None, 0
        self._log.warning("it works again, after %.0f s and %d failures", seconds, failures)
