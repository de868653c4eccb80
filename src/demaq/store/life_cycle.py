"""The life cycle of a stored message, as a table.

A message is in one state at a time, which its fields say; a step of the store leads to the next one:

| state    | fields                                         | meaning                                          |
| -------- | ---------------------------------------------- | ------------------------------------------------ |
| WAITING  | not processed                                  | waits for rules, a client, its time or a gateway |
| SENDING  | processed, undelivered                         | waits for its delivery                           |
| RETAINED | processed, delivered if it must be, in a slice | is kept for the rules of its slices              |
| RETIRED  | retired                                        | invisible to rules, and removed at any time      |
"""

from __future__ import annotations

from enum import Enum, auto

from demaq.store.protocol import StoredMessage


class LifeState(Enum):
    WAITING = auto()
    SENDING = auto()
    RETAINED = auto()
    RETIRED = auto()


class LifeEvent(Enum):
    """What a step does to a message."""

    PROCESSED = auto()
    """By rules, by a client that takes it, or as a timer that fires."""
    DELIVERED = auto()
    """Or given up."""
    RELEASED = auto()
    """A reset has ended its lifetime in a slice; it may be in others."""


NEXT: dict[tuple[LifeState, LifeEvent], frozenset[LifeState]] = {
    (LifeState.WAITING, LifeEvent.PROCESSED): frozenset({LifeState.SENDING, LifeState.RETAINED, LifeState.RETIRED}),
    (LifeState.WAITING, LifeEvent.DELIVERED): frozenset({LifeState.WAITING}),
    (LifeState.WAITING, LifeEvent.RELEASED): frozenset({LifeState.WAITING}),
    (LifeState.SENDING, LifeEvent.DELIVERED): frozenset({LifeState.RETAINED, LifeState.RETIRED}),
    (LifeState.SENDING, LifeEvent.RELEASED): frozenset({LifeState.SENDING}),
    (LifeState.RETAINED, LifeEvent.RELEASED): frozenset({LifeState.RETAINED, LifeState.RETIRED}),
}
"""Every event that a state allows, with the states that may follow: the first in the order above that applies.

No other event is possible, and without an event no state changes. A retired message stays so until it is removed.
"""


def life_state(message: StoredMessage) -> LifeState:
    """Return the state of a message that is still stored."""
    if message.retired is not None:
        return LifeState.RETIRED
    if message.processed is None:
        return LifeState.WAITING
    return LifeState.SENDING if message.undelivered else LifeState.RETAINED
