"""A history of commits with everything a store keeps, and what it must hold after each: the same in every store."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

from demaq.store import MemoryStore, Store
from demaq.store.protocol import NewMessage, SequenceChanges, Step, Timer
from tests.support.store.contract import MORNING, Clock, new
from tests.support.store.sequence_contract import held, sequence

ALL = 1_000_000
ACTS_MAX = 1_000
SLICINGS = ("order", "customer")
KEYS = ("1", "2", "3")
GARBAGE_STEP = 2
Act = Callable[[Store], None]
"""Something that is done to a store in one transaction."""


def acts(seed: int, count: int) -> list[Act]:
    """What to do, one after the other. Each act asks the store only for what is the same in every store."""
    chance = random.Random(seed)
    made: list[Act] = []
    for number in range(count):
        if number % 3 == 0:
            messages = [_message(chance, f"{number}-{n}") for n in range(chance.randint(1, 3))]
            made.append(partial(_append, messages=messages, changes=_changes(chance, number)))
        elif number % 8 == 7:
            made.append(_collect)
        else:
            resets = tuple([(name, chance.choice(KEYS)) for name in SLICINGS if chance.random() < 0.5])
            created = [_message(chance, f"{number}-{n}") for n in range(chance.randint(1, 3))]
            made.append(partial(_process, resets=resets, created=created, changes=_changes(chance, number)))
    return made


def states(history: list[Act], clock: Clock) -> list[Any]:
    """What a store must hold before the first act and after each: as the plain store in memory says."""
    store = MemoryStore(now=clock)
    found = [state(store)]
    for act in history:
        act(store)
        found.append(state(store))
    return found


def state(store: Store) -> Any:
    slices = {name: store.slice_keys(name, None, ALL) for name in SLICINGS}
    sequences = store.sequences()
    waiting = [each for known in sequences for each in store.sequence_messages("in", known.name)]
    replays = store.known_replays([f"key {number}" for number in range(ACTS_MAX)], MORNING)
    return (
        store.snapshot(),
        store.stored(None, 0, ALL),
        store.counts(),
        store.next_due(),
        slices,
        sequences,
        waiting,
        replays,
    )


def _message(chance: random.Random, name: str) -> NewMessage:
    is_timer = chance.random() < 0.2
    return new(
        queue="later" if is_timer else chance.choice(["orders", "answers"]),
        body=f"<order>{name}{'x' * chance.choice([0, 300, 5000, 9000])}</order>",
        priority=None if is_timer else chance.randint(0, 1),
        slices=tuple([(slicing, chance.choice(KEYS)) for slicing in SLICINGS if chance.random() < 0.6]),
        entries=(("orders/name", name), ("orders/kind", chance.choice("ab"))),
        timer=Timer(due=MORNING + timedelta(hours=chance.randint(0, 9)), target="orders") if is_timer else None,
        request=name if chance.random() < 0.3 else None,
    )


def _changes(chance: random.Random, number: int) -> SequenceChanges | None:
    """Changes of incoming sequences: a copy of a store, which begins an epoch, has no outgoing ones."""
    if chance.random() < 0.3:
        return None
    names = [name for name in ("a", "b", "c") if chance.random() < 0.5]
    places = [(name, chance.randint(1, 5)) for name in names]
    return SequenceChanges(
        sequences=tuple([sequence(name, content=f"[{number}]") for name in names]),
        added=tuple([held(at, name, f"<held>{'x' * chance.choice([0, 300, 9000])}</held>") for name, at in places]),
        removed=tuple([("in", name, at % 5 + 1) for name, at in places]),
        replay_keys={f"key {number}": MORNING + timedelta(days=2)} if chance.random() < 0.5 else {},
    )


def _append(store: Store, messages: list[NewMessage], changes: SequenceChanges | None) -> None:
    store.append(messages, changes)


def _collect(store: Store) -> None:
    store.collect_garbage(MORNING + timedelta(days=1), GARBAGE_STEP)


def _process(
    store: Store, resets: tuple[tuple[str, str], ...], created: list[NewMessage], changes: SequenceChanges | None
) -> None:
    """Two steps in one commit: the next message, and a timer that ends or the message after it."""
    pending = store.pending(2)
    timers = store.due_timers(MORNING + timedelta(hours=5), 1)
    steps = [Step(processed=message.seq, resets=resets, created=tuple(created)) for message in pending[:1]]
    steps += [Step(fired=timer.seq) for timer in timers]
    steps += [Step(processed=message.seq) for message in pending[1:] if not timers]
    store.commit(steps, changes=changes)
