"""Searches: what they find is what the conditions say, whatever the size of their pieces, and they look at no more than
they may."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any
from unittest.mock import patch

from demaq.messages import PropertyValue
from demaq.operations import search as searching
from demaq.operations.purge import plan_purge
from demaq.operations.search import MessageSelection, search, search_all
from demaq.store import MemoryStore, Store
from demaq.store.protocol import NewMessage, Step

MORNING = datetime(2026, 3, 1, 9, 0, tzinfo=UTC)
QUEUES, KEYS = ("a", "b", "c"), ("x", "y")


def fill(store: Store, drawn: Random, count: int) -> None:
    """Messages of all kinds, some processed."""
    messages = []
    for number in range(count):
        key = drawn.choice(KEYS)
        messages.append(
            NewMessage(
                queue=drawn.choice(QUEUES),
                body=f"<m n='{number}'>{drawn.choice(['tea', 'coffee'])}{'.' * drawn.choice([1, 1, 500])}</m>",
                properties={"k": PropertyValue.string(key)},
                created=MORNING + timedelta(minutes=drawn.randrange(10)),
                priority=drawn.choice([None, 0]),
                rule=drawn.choice([None, "r"]),
                slices=drawn.choice([(), (("s", key),)]),
            )
        )
    store.append(messages)
    for seq in drawn.sample(range(1, count + 1), count // 2):
        store.commit([Step(processed=seq, unmatched=drawn.random() < 0.5)])


def draw_selection(drawn: Random) -> MessageSelection:
    return MessageSelection(
        seqs=drawn.choice([(), (), tuple(drawn.sample(range(1, 90), 20))]),
        queues=tuple(drawn.sample(QUEUES, drawn.randrange(3))),
        states=frozenset(drawn.sample(["waits", "new", "done", "kept", "unmatched"], drawn.choice([0, 0, 1, 2]))),
        since=drawn.choice([None, None, MORNING + timedelta(minutes=3)]),
        until=drawn.choice([None, None, MORNING + timedelta(minutes=7)]),
        slice=drawn.choice([None, None, ("s", drawn.choice(KEYS))]),
        properties=drawn.choice([(), (("k", drawn.choice(KEYS)),)]),
        texts=drawn.choice([(), ("tea",)]),
        rule=drawn.choice([None, None, "r"]),
    )


def expected_seqs(store: Store, selection: MessageSelection) -> list[int]:
    """The same by looking at every message."""
    found = []
    for message in store.stored(None, 0, 10_000):
        [head] = store.heads([message.seq])
        states = {head.state, *(["unmatched"] if head.unmatched else [])}
        if (
            (not selection.seqs or message.seq in selection.seqs)
            and (not selection.queues or message.queue in selection.queues)
            and (not selection.states or states & selection.states)
            and (selection.since is None or message.created >= selection.since)
            and (selection.until is None or message.created < selection.until)
            and (selection.slice is None or selection.slice in message.slices)
            and all(message.properties[name].text == value for name, value in selection.properties)
            and all(text in message.body for text in selection.texts)
            and selection.rule in (None, message.rule)
        ):
            found.append(message.seq)
    return found


def test_a_search_in_any_pages_finds_what_the_conditions_say(chance: Random):
    store = MemoryStore()
    fill(store, chance, 90)
    found_some = found_none = 0
    for _ in range(60):
        selection = draw_selection(chance)
        expected = expected_seqs(store, selection)
        found_some += bool(expected)
        found_none += not expected
        backwards = chance.random() < 0.5
        limit, rows, texts = chance.randrange(1, 30), chance.randrange(1, 100), chance.randrange(1, 50)
        pieces: dict[str, Any] = {"ROWS_PER_PIECE": chance.randrange(1, 40), "HEADS_PER_PIECE": chance.randrange(1, 40)}
        pieces["TEXTS_MAX"] = chance.randrange(1, 20)
        seqs: list[int] = []
        start = None
        with patch.multiple(searching, **pieces):
            while True:
                page = search(
                    store, selection, start=start, limit=limit, backwards=backwards, rows_max=rows, texts_max=texts
                )
                assert len(page.found) <= limit
                assert page.texts <= texts
                assert selection.seqs or page.scanned <= rows
                seqs += [each.head.seq for each in page.found]
                if page.next_start is None:
                    break
                start = page.next_start
        assert seqs == (expected[::-1] if backwards else expected), selection
    assert found_some
    assert found_none


def test_all_pages_end_at_a_number_and_a_plan_counts_them(chance: Random):
    store = MemoryStore()
    fill(store, chance, 90)
    for _ in range(20):
        selection, last = draw_selection(chance), chance.randrange(1, 100)
        done: list[int] = []
        pages = search_all(store, selection, last=last, advance=done.append)
        found = [each.head.seq for page in pages for each in page.found]
        assert found == [seq for seq in expected_seqs(store, selection) if seq <= last]
        assert sum(done) == last
        if not selection.is_empty:
            assert plan_purge(store, selection).messages == len(expected_seqs(store, selection))
