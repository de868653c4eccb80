"""Which messages may go: one of a slice at a time, in order, and any that is after no other."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from demaq.gateways.outbox.waiting import Due, Waiting
from demaq.language.endpoints import parse_destination

HOSTS = ("http://a.invalid/", "http://b.invalid/")
messages = st.lists(
    st.tuples(st.sampled_from(HOSTS), st.lists(st.sampled_from("xyz"), max_size=3, unique=True)), max_size=30
)


def due(seq: int, address: str, keys: list[str]) -> Due:
    return Due(seq=seq, attempts=0, to=parse_destination(address), slices=tuple([("s", key) for key in keys]))


@given(messages, st.integers())
def test_whatever_ends_when_all_go_and_each_slice_in_order(sent: list[tuple[str, list[str]]], seed: int):
    chance = random.Random(seed)
    waiting = Waiting()
    to_come = [due(seq, *message) for seq, message in enumerate(sent)]
    flying: list[Due] = []
    gone: list[int] = []
    while to_come or flying or len(waiting):
        lanes = waiting.open_lanes()
        steps = ["come"] * bool(to_come) + ["go"] * bool(lanes) + ["end"] * bool(flying)
        assert steps, "something can always be done"
        match chance.choice(steps):
            case "come":
                waiting.add(to_come.pop(0))
            case "go":
                found = waiting.take(chance.choice(lanes))
                assert found is not None
                assert not {key for other in flying for key in other.slices} & set(found.slices)
                flying.append(found)
                gone.append(found.seq)
            case "end":
                waiting.done(flying.pop(chance.randrange(len(flying))))
    assert sorted(gone) == list(range(len(sent)))
    for key in "xyz":
        members = [seq for seq in gone if key in sent[seq][1]]
        assert members == sorted(members)


def test_a_lane_that_is_closed_keeps_its_messages():
    waiting = Waiting()
    waiting.add(due(1, HOSTS[0], []))
    waiting.close_lane(waiting.open_lanes()[0])
    waiting.add(due(2, HOSTS[0], []))
    waiting.add(due(3, HOSTS[1], []))
    assert waiting.open_lanes() == ["http://b.invalid:80"]
    waiting.open_lane("http://a.invalid:80")
    first, second = waiting.take("http://a.invalid:80"), waiting.take("http://a.invalid:80")
    assert [first and first.seq, second and second.seq] == [1, 2]
    assert not waiting.has_lane("http://a.invalid:80")
    assert len(waiting) == 3
