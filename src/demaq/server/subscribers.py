"""Call back for messages that rules or timers have put into queues, after their commit."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from demaq.store.protocol import Committed, Step, StoredMessage, as_stored

Listener = Callable[[StoredMessage], None]

_log = logging.getLogger("demaq.node")


class Subscribers:
    """The listeners of a node. Messages are noted when they are committed, and the thread of the node calls."""

    def __init__(self) -> None:
        self._listeners: dict[str, list[Listener]] = {}
        self._news: list[StoredMessage] = []
        """Messages that listeners have not been called with yet."""

    def __bool__(self) -> bool:
        return bool(self._listeners)

    def add(self, queue: str, listener: Listener) -> None:
        self._listeners.setdefault(queue, []).append(listener)

    def note(self, steps: Sequence[Step], committed: Sequence[Committed]) -> None:
        for step, done in zip(steps, committed, strict=True):
            for new, seq in zip(step.created, done.created, strict=True):
                if new.queue in self._listeners:
                    self._news.append(as_stored(new, seq))

    def call(self) -> None:
        """Call with what was noted. A listener that fails is logged, and the others are called."""
        news, self._news = self._news, []
        for message in news:
            for listener in self._listeners.get(message.queue, ()):
                try:
                    listener(message)
                except Exception:
                    _log.exception("a subscriber to queue %s failed on message %s", message.queue, message.seq)
