"""A search that follows messages shows each once, when it comes into the state that is asked for."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from demaq.operations import watched_messages
from demaq.operations.search import MessageSelection, search
from demaq.operations.watched_messages import WatchedMessages
from demaq.store import MemoryStore
from demaq.store.protocol import NewMessage, Step

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def add(store: MemoryStore, count: int) -> None:
    store.append(
        [NewMessage(queue="a", body="<m/>", properties={}, created=NOW, slices=(("s", "k"),), priority=0)] * count
    )


def look(store: MemoryStore, watched: WatchedMessages, start: int = 0) -> list[int]:
    """Return what is shown now."""
    page = search(store, watched.selection, start=start)
    return [each.head.seq for each in [*watched.look_again(store), *watched.take(page.found)]]


def test_a_message_is_shown_when_it_is_done_though_it_waited_when_it_was_seen():
    store, watched = MemoryStore(), WatchedMessages(MessageSelection(states=frozenset({"done"})))
    add(store, 3)
    assert look(store, watched) == []
    store.commit([Step(processed=2)])
    assert look(store, watched, start=9) == [2]
    assert look(store, watched, start=9) == [], "each once"
    store.commit([Step(processed=1)])
    store.commit([Step(processed=3)])
    assert look(store, watched, start=9) == [1, 3]


def test_without_a_state_each_is_shown_when_it_comes_and_not_looked_at_again():
    store, watched = MemoryStore(), WatchedMessages(MessageSelection())
    add(store, 2)
    assert look(store, watched) == [1, 2]
    store.commit([Step(processed=1)])
    assert look(store, watched, start=9) == []


def test_only_the_newest_are_looked_at_again(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(watched_messages, "WATCHED_MAX", 2)
    store, watched = MemoryStore(), WatchedMessages(MessageSelection(states=frozenset({"done"})))
    add(store, 3)
    assert look(store, watched) == []
    store.commit([Step(processed=seq) for seq in (1, 2, 3)])
    assert look(store, watched, start=9) == [2, 3]
