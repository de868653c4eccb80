"""Have native answers checked while a node runs: seldom enough to cost less than a hundredth of the time."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

LOOK_EVERY_SECONDS = 0.25
REST = 100
"""After a check there is none for so many times as long as it took."""

_log = logging.getLogger("demaq.node")


class SelfCheckThread:
    """Calls `check` again and again until it is closed."""

    def __init__(self, check: Callable[[], None]) -> None:
        self._check = check
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="demaq-self-check", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Let no other check begin, without waiting for one that has."""
        self._closing.set()

    def close(self) -> None:
        self.stop()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        rest = LOOK_EVERY_SECONDS
        while not self._closing.wait(rest):
            began = time.monotonic()
            try:
                self._check()
            except Exception as error:  # an evaluator that cannot start fails the next round, which reports it
                _log.warning("native rules could not be checked: %s", error)
            rest = max(LOOK_EVERY_SECONDS, REST * (time.monotonic() - began))
