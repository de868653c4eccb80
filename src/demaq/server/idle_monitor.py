"""Tell callers when a node has nothing left to process, without a look at the store for each of them.

A turn of the node that found nothing to do answers all callers that asked before it began: what such a caller had
stored was there for the turn to see.
"""

from __future__ import annotations

import threading


class IdleMonitor:
    """Shared by the thread of a node, which calls `begin_turn` and `end_turn`, and by callers that wait."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._asked = 0
        self._seen = 0
        """How many had asked when the current turn began."""
        self._answered = 0
        """So many, the first that asked, have their answer."""
        self._is_over = False

    def ask(self) -> int:
        """Return a ticket. The caller wakes the node after that."""
        with self._changed:
            self._asked += 1
            return self._asked

    def wait(self, ticket: int, seconds: float | None) -> bool:
        """Wait until the node was idle after a ticket was given. Return whether it was.

        It was not if the time has passed before, or the node has ended.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._answered >= ticket or self._is_over, seconds)
            return self._answered >= ticket

    def begin_turn(self) -> None:
        """A caller that asks from now on may have stored something that this turn does not see."""
        self._seen = self._asked

    def end_turn(self, is_idle: bool) -> None:
        if is_idle and self._seen > self._answered:
            with self._changed:
                self._answered = self._seen
                self._changed.notify_all()

    def close(self) -> None:
        """The node has ended: no caller waits any longer."""
        with self._changed:
            self._is_over = True
            self._changed.notify_all()
