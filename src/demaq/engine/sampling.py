"""Choose some of the conversations that begin, so that all of their messages are kept although others are not.

The first message of such a conversation gets a property, which all that it leads to inherits: messages of rules,
timers, replies and errors. So nothing has to be decided, looked up or counted for messages that are not the first ones.
The chosen ones of each queue are equally far apart, from the first message on.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

from demaq.engine.intake import IncomingMessage
from demaq.messages import PropertyValue
from demaq.quantities import SampleRate
from demaq.system_properties import SAMPLED

_MARK = {SAMPLED: PropertyValue("boolean", "true", "true")}


class Sampler:
    """Chooses among messages from outside. May be called from any thread."""

    def __init__(self, rate: SampleRate) -> None:
        assert 0 < rate.chosen <= rate.of
        self._rate = rate
        self._counts: dict[str, int] = {}
        self._lock = threading.Lock()

    def choose(self, queue: str, incoming: IncomingMessage) -> IncomingMessage:
        """Return the message, marked if it is chosen. One that another message caused belongs to that one."""
        if incoming.trigger is not None or SAMPLED in incoming.inherited:
            return incoming
        with self._lock:
            count = self._counts.get(queue, 0)
            self._counts[queue] = count + 1
        if count * self._rate.chosen % self._rate.of >= self._rate.chosen:
            return incoming
        return incoming._replace(inherited={**incoming.inherited, **_MARK})

    def choose_all(self, queue: str, incoming: Sequence[IncomingMessage]) -> list[IncomingMessage]:
        return [self.choose(queue, each) for each in incoming]
