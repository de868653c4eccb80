"""The conversation of a message: complete, each message below the one that caused it, bounded, and across stores."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import pytest

from demaq.errors import OperatorError
from demaq.operations.node_names import GlobalName, find_received, read_request_queue, read_sender_name
from demaq.operations.trace import Trace, TracedStore, trace_conversation
from demaq.store.memory_store import MemoryStore
from demaq.store.protocol import Attempt, NewMessage, Step, Timer
from demaq.store.request_names import make_request
from tests.support.drawing import draw_until

BEGIN = datetime(2026, 5, 1, tzinfo=UTC)


def new(queue: str = "q", **more: object) -> NewMessage:
    return NewMessage(**{"queue": queue, "body": "<m/>", "properties": {}, "created": BEGIN, "priority": 0, **more})  # type: ignore[arg-type]


def process(store: MemoryStore, seq: int, created: list[NewMessage], *, elide: bool = False) -> tuple[int, ...]:
    message = store.message(seq)
    assert message is not None
    origin = message.origin
    made = tuple([new(each.queue, rule=each.rule, trigger=seq, origin=origin, timer=each.timer) for each in created])
    return store.commit([Step(processed=seq, created=made)], elide=elide)[0].created


def draw_conversations(chance: random.Random) -> tuple[MemoryStore, dict[int, int | None]]:
    """Return a store with some conversations and the true cause of each message, also of those that are gone."""
    store = MemoryStore(now=lambda: BEGIN)
    causes: dict[int, int | None] = dict.fromkeys(store.append([new() for _ in range(chance.randint(1, 3))]))
    open_messages = list(causes)
    while open_messages and len(causes) < 60:
        seq = open_messages.pop(chance.randrange(len(open_messages)))
        made = [new(rule=f"r{n}") for n in range(chance.choice((0, 1, 1, 2, 3)))]
        for created in process(store, seq, made, elide=chance.random() < 0.3):
            causes[created] = seq
            open_messages.append(created)
    return store, causes


def trace(store: MemoryStore, seq: int, **bounds: int) -> Trace:
    return trace_conversation([TracedStore("s", store, None)], seq, **bounds)


def test_every_message_of_a_conversation_is_below_its_cause(chance: random.Random):
    met = {"gaps": 0, "bounded": 0}
    for _ in draw_until(lambda: min(met.values()) > 3, 60, "TRACES"):
        store, causes = draw_conversations(chance)
        asked = chance.choice(list(causes))
        message = store.message(asked)
        if message is None:
            continue
        found = trace(store, asked, depth_max=1000, nodes_max=1000)

        members = {m.seq for m in store.stored(None, 0, 10_000) if m.origin == message.origin}
        shown = {node.seq: node for node in found.nodes if node.state != "unstored"}
        assert set(shown) == members
        assert len({node.seq for node in found.nodes}) == len(found.nodes)
        assert found.left_out == 0
        assert [node.seq for node in found.nodes if node.is_asked] == [asked]
        assert found.nodes[0].seq == message.origin
        for position, node in enumerate(found.nodes):
            if node.parent is None:
                assert (position, node.depth, node.link) == (0, 0, "outside")
                continue
            parent = found.nodes[node.parent]
            assert node.parent < position
            assert node.depth == parent.depth + 1
            if node.link == "unknown":
                met["gaps"] += 1
                assert node.state == "unstored"
                assert parent.seq == message.origin
            else:
                assert parent.seq == causes[node.seq]

        most = chance.randint(1, 12)
        part = trace(store, asked, depth_max=chance.randint(1, 6), nodes_max=most)
        assert asked in {node.seq for node in part.nodes}
        assert {node.seq for node in part.nodes} <= {node.seq for node in found.nodes}
        assert part.left_out + len(part.nodes) >= len(found.nodes)
        assert (part.left_out == 0) == (len(part.nodes) == len(found.nodes))
        met["bounded"] += part.left_out > 0
    assert min(met.values()) > 3


def test_a_long_chain_is_shown_from_its_first_message_to_the_nearest_ones():
    store = MemoryStore(now=lambda: BEGIN)
    (seq,) = store.append([new()])
    for _ in range(300):
        (seq,) = process(store, seq, [new(rule="again")])

    found = trace(store, seq, depth_max=20)

    assert found.nodes[0].seq == 1
    bridge = next(node for node in found.nodes if node.skipped)
    assert (bridge.link, bridge.depth, bridge.skipped) == ("unknown", 1, 290)
    assert next(node.seq for node in found.nodes if node.is_asked) == seq
    assert found.left_out > 200


def test_a_wide_conversation_says_how_much_is_left_out():
    store = MemoryStore(now=lambda: BEGIN)
    (first,) = store.append([new()])
    created = process(store, first, [new(rule="r") for _ in range(500)])

    found = trace(store, created[-1], nodes_max=10)

    assert len(found.nodes) <= 11
    assert any(node.is_asked for node in found.nodes)
    assert found.nodes[0].left_out == found.left_out == 501 - len(found.nodes)


def test_timers_attempts_and_messages_that_are_gone_are_shown():
    store = MemoryStore(now=lambda: BEGIN)
    (first,) = store.append([new()])
    due = Timer(due=BEGIN + timedelta(hours=1), target="back")
    (echo,) = process(store, first, [new("later", rule="wait", timer=due)], elide=True)
    back = new("back", trigger=echo, origin=first)
    (came,) = store.commit([Step(fired=echo, created=(back,))])[0].created
    store.commit(
        [
            Step(
                processed=came,
                created=(new("out", rule="send", trigger=came, origin=first, undelivered=True),),
            )
        ]
    )
    sent = store.caused_by(came)[0]
    attempt = Attempt(message=sent, queue="out", number=1, at=BEGIN, seconds=0.1, destination="http://x", result="sent")
    store.commit([Step(delivered=sent, attempt=attempt)])

    found = trace(store, sent)

    shown = [(node.seq, node.link, node.state) for node in found.nodes]
    assert shown[:3] == [(first, "outside", "unstored"), (echo, "rule", "processed"), (came, "timer", "processed")]
    assert found.nodes[1].timer == due
    assert found.nodes[3].attempts == (attempt,)


@pytest.mark.parametrize("sender", ["", "token:shop", "user:a%3Ab"])
@pytest.mark.parametrize("transport", ["node", "mail"])
def test_a_message_from_another_node_is_found_by_its_name(sender: str, transport: str):
    here, there = MemoryStore(now=lambda: BEGIN), MemoryStore(now=lambda: BEGIN)
    epoch = here.epochs().epoch_name(17)
    said = f"{epoch}/17" if transport == "node" else f"<17@{epoch}.demaq.invalid>"
    decoys = [said.replace("17", "1"), said.replace("17", "171"), said.replace("17", "18")]
    for number, name in enumerate([*decoys, said]):
        whole = f"{transport}:parcels:{sender}:{name}"
        there.append([new("parcels", request=make_request(whole, f"{number}") if sender else f"{whole}:abc{number}")])
    there.append([new("other", request=f"{transport}:other:{sender}:{said}")])

    wanted = GlobalName(epoch, 17)
    assert find_received(there, ["parcels"], wanted) == [4]
    assert find_received(there, ["nothing"], wanted) == []
    assert read_sender_name(there.request_of(4)) == wanted
    assert read_request_queue(there.request_of(4)) == "parcels"


def test_other_requests_name_no_message_of_a_node():
    assert read_sender_name(None) is None
    assert read_sender_name("http:orders::key-17") is None
    assert read_sender_name(f"node:orders::{'g' * 32}/17") is None


def test_of_a_message_that_never_was_nothing_is_known():
    store = MemoryStore(now=lambda: BEGIN)
    store.append([new()])
    with pytest.raises(OperatorError, match="nothing is known of message 7"):
        trace(store, 7)
