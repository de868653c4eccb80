"""Choose some of the conversations that begin, so that all of their messages are kept although others are not.

The first message of such a conversation gets a property, which all that it leads to inherits: messages of rules,
timers, replies and errors. So nothing has to be decided, looked up or counted for messages that are not the first ones.
The chosen ones of each queue are equally far apart, from the first message on.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace

from demaq.engine.intake import IncomingMessage
from demaq.messages import PropertyValue
from demaq.quantities import SampleRate
from demaq.store.protocol import NewMessage
from demaq.system_properties import ERROR_LEVEL, SAMPLED

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
        if not _begins_conversation(incoming) or not self._is_next_chosen(queue):
            return incoming
        return incoming._replace(inherited={**incoming.inherited, **_MARK})

    def choose_all(self, queue: str, incoming: Sequence[IncomingMessage]) -> list[IncomingMessage]:
        return [self.choose(queue, each) for each in incoming]

    def choose_again(self, sent: Sequence[tuple[str, IncomingMessage]]) -> None:
        """Messages that were chosen among have not come so far: they are going to be chosen among once more."""
        with self._lock:
            for queue, incoming in sent:
                if _begins_conversation(incoming):
                    self._counts[queue] -= 1

    def choose_checked(self, messages: Sequence[NewMessage]) -> list[NewMessage]:
        """Return messages that were checked elsewhere, with those marked that are chosen. Errors begin nothing."""
        return [
            replace(each, properties={**each.properties, **_MARK})
            if each.trigger is None
            and not each.properties.keys() & {SAMPLED, ERROR_LEVEL}
            and self._is_next_chosen(each.queue)
            else each
            for each in messages
        ]

    def _is_next_chosen(self, queue: str) -> bool:
        with self._lock:
            count = self._counts.get(queue, 0)
            self._counts[queue] = count + 1
        return count * self._rate.chosen % self._rate.of < self._rate.chosen


def _begins_conversation(incoming: IncomingMessage) -> bool:
    return incoming.trigger is None and SAMPLED not in incoming.inherited
