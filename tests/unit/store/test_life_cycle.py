"""What stores do to messages is what the table of their life cycle says, whatever the steps are."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from demaq.store import MemoryStore, SqliteStore, Store
from demaq.store.life_cycle import NEXT, LifeEvent, LifeState, life_state
from demaq.store.protocol import NewMessage, Step
from tests.support.store.contract import MORNING, attempt, new

KEYS = ("a", "b")
STEPS = 400
RECENT = 20
"""A step is of one of so many messages: older ones have nothing left to happen to them."""


def draw_message(chance: random.Random) -> NewMessage:
    slices = tuple([(slicing, chance.choice(KEYS)) for slicing in ("s", "t") if chance.random() < 0.6])
    is_sent = chance.random() < 0.5
    return replace(new("out" if is_sent else "in", undelivered=is_sent, priority=0), slices=slices)


def draw_step(chance: random.Random, store: Store, seqs: list[int]) -> Step | None:
    """Return a step that a node could commit, or None if there is none for the message that was chosen."""
    [message] = store.messages([chance.choice(seqs[-RECENT:])])
    resets = tuple([(slicing, key) for slicing in ("s", "t") for key in KEYS if chance.random() < 0.05])
    state = life_state(message)
    if state is LifeState.WAITING and chance.random() < 0.6:
        return Step(processed=message.seq, resets=resets, created=(draw_message(chance),))
    if message.undelivered:
        return Step(delivered=message.seq, attempt=attempt(message.seq, 1, "sent"))
    return None


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_every_change_of_a_message_is_in_the_table(kind: str, tmp_path: Path, chance: random.Random):
    store: Store = MemoryStore(now=lambda: MORNING) if kind == "memory" else SqliteStore(tmp_path, now=lambda: MORNING)
    seqs = store.append([draw_message(chance) for _ in range(10)])
    seen: Counter[tuple[LifeState, LifeEvent, LifeState]] = Counter()
    for _ in range(STEPS):
        step = draw_step(chance, store, seqs)
        if step is None:
            continue
        before = {message.seq: message for message in store.messages(seqs)}
        [committed] = store.commit([step])
        for message in store.messages(seqs):
            old = before[message.seq]
            events = [
                *([LifeEvent.PROCESSED] if step.processed == message.seq else []),
                *([LifeEvent.DELIVERED] if step.delivered == message.seq else []),
                *([LifeEvent.RELEASED] if len(message.slices) < len(old.slices) else []),
            ]
            states = {life_state(old)}
            for event in events:
                states = {following for state in states for following in NEXT.get((state, event), frozenset({state}))}
            assert life_state(message) in states, f"{life_state(old)} by {events} to {life_state(message)}"
            assert (life_state(message) is LifeState.RETIRED) == (
                message.processed is not None and not message.undelivered and not message.slices
            )
            for event in events:
                seen[life_state(old), event, life_state(message)] += 1
        seqs += committed.created
    store.close()

    assert seen[LifeState.WAITING, LifeEvent.PROCESSED, LifeState.SENDING]
    assert seen[LifeState.WAITING, LifeEvent.PROCESSED, LifeState.RETAINED]
    assert seen[LifeState.WAITING, LifeEvent.PROCESSED, LifeState.RETIRED]
    assert seen[LifeState.RETAINED, LifeEvent.RELEASED, LifeState.RETIRED]
    assert seen[LifeState.SENDING, LifeEvent.DELIVERED, LifeState.RETAINED]
    assert seen[LifeState.WAITING, LifeEvent.RELEASED, LifeState.WAITING]
