"""Which messages may go: one of a slice at a time, in order, and any that is after no other."""

from __future__ import annotations

import random
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from demaq.gateways.outbox.waiting import Due, Waiting
from demaq.language.endpoints import parse_destination
from demaq.store.protocol import StoredMessage, as_stored
from tests.support.store.contract import new

HOSTS = ("http://a.invalid/", "http://b.invalid/")
A, B = ("http://a.invalid:80", "http://b.invalid:80")
messages = st.lists(
    st.tuples(st.sampled_from(HOSTS), st.lists(st.sampled_from("xyz"), max_size=3, unique=True), st.booleans()),
    max_size=30,
)


def make_due(seq: int, address: str, keys: list[str], has_text: bool = False) -> Due:
    slices = tuple([("s", key) for key in keys])
    text = make_text(seq) if has_text else None
    return Due(seq=seq, attempts=0, to=parse_destination(address), slices=slices, message=text)


def make_text(seq: int) -> StoredMessage:
    return replace(as_stored(new("out", undelivered=True), seq), body="x" * (seq + 1))


@given(messages, st.integers())
def test_whatever_ends_when_all_go_and_each_slice_in_order(sent: list[tuple[str, list[str], bool]], seed: int):
    chance = random.Random(seed)
    waiting = Waiting()
    to_come = [make_due(seq, *message) for seq, message in enumerate(sent)]
    loading: list[Due] = []
    flying: list[Due] = []
    gone: list[int] = []
    while to_come or flying or len(waiting):
        lanes = waiting.open_lanes()
        unloaded = [name for name, _ in waiting.lanes_without_texts()]
        steps = ["come"] * bool(to_come) + ["go"] * bool(lanes) + ["end"] * bool(flying)
        steps += ["load"] * bool(unloaded and not loading) + ["loaded", "not loaded"] * bool(loading)
        assert steps, "something can always be done"
        match chance.choice(steps):
            case "come":
                waiting.add(to_come.pop(0))
            case "load":
                loading = waiting.begin_loading(chance.choice(unloaded), chance.choice([1, 2, 9]))
            case "loaded":
                count = chance.randrange(len(loading)) + 1
                for due in loading[:count]:
                    waiting.loaded(due, make_text(due.seq))
                waiting.not_loaded(loading[count:])
                loading = []
            case "not loaded":
                waiting.not_loaded(loading)
                loading = []
            case "go":
                lane = chance.choice(lanes)
                found = waiting.take(lane)
                if found is None:
                    waiting.await_texts(lane)
                    continue
                assert found.message is not None
                assert not {key for other in flying for key in other.slices} & set(found.slices)
                flying.append(found)
                gone.append(found.seq)
            case "end":
                waiting.done(flying.pop(chance.randrange(len(flying))))
        texts = [due.message for due in waiting._known.values() if due.message is not None]
        assert waiting.characters == sum([len(text.body) for text in texts])
    assert sorted(gone) == list(range(len(sent)))
    assert not waiting.lanes
    for key in "xyz":
        members = [seq for seq in gone if key in sent[seq][1]]
        assert members == sorted(members)
    for host in HOSTS:
        members = [seq for seq in gone if sent[seq][:2] == (host, [])]
        assert members == sorted(members), "a lane is kept in order"


def test_a_lane_that_is_closed_keeps_its_messages():
    waiting = Waiting()
    waiting.add(make_due(1, HOSTS[0], [], has_text=True))
    waiting.close_lane(waiting.open_lanes()[0])
    waiting.add(make_due(2, HOSTS[0], [], has_text=True))
    waiting.add(make_due(3, HOSTS[1], [], has_text=True))
    assert waiting.open_lanes() == [B]
    waiting.open_lane(A)
    first, second = waiting.take(A), waiting.take(A)
    assert [first and first.seq, second and second.seq] == [1, 2]
    assert waiting.open_lanes() == [B]
    assert len(waiting) == 3


def test_a_text_that_is_not_needed_is_dropped_and_a_message_may_go_without():
    waiting = Waiting()
    waiting.add(make_due(1, HOSTS[0], [], has_text=True))
    waiting.add(make_due(2, HOSTS[0], []))
    first, second = waiting.take_unloaded(A), waiting.take_unloaded(A)
    assert first is not None
    assert second is not None
    assert (first.seq, second.seq, waiting.characters) == (1, 2, 2)
    waiting.drop_text(first)
    waiting.drop_text(second)
    assert waiting.characters == 0
    waiting.add_text(second, make_text(2))
    assert waiting.characters == 3
    waiting.done(second)
    waiting.done(first)
    assert (waiting.characters, waiting.lanes) == (0, 0)
