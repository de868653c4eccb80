"""Which messages of an outgoing gateway are due: none is forgotten, whatever happens at the same time."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demaq.compiler.planner import make_plan
from demaq.errors import StoreError
from demaq.gateways.connections import Connections
from demaq.gateways.outbox import due_reader
from demaq.gateways.outbox.delivery_results import DeliveryFailed
from demaq.gateways.outbox.destination import DestinationResolver
from demaq.gateways.outbox.due_reader import Page, PageFound
from demaq.gateways.outbox.outgoing_gateway import SENDING_MANY, SENDING_MAX, Begun, OutgoingGateway
from demaq.gateways.settings import OutgoingSettings
from demaq.language.loader import load_program_texts
from demaq.messages import PropertyValue
from demaq.store.memory_store import MemoryStore
from demaq.store.protocol import NewMessage, Postponed, SliceKey, Step, StoredMessage, ToSend, Unsent
from tests.support.store.contract import MORNING, attempt, new

NOW = MORNING + timedelta(days=1)
APPLICATION = 'create queue out kind outgoingGateway endpoint "http://a.invalid/"'
PLAN = make_plan(load_program_texts({"app.dmq": APPLICATION}))


def make_gateway(store: MemoryStore, connections: int = 8) -> OutgoingGateway:
    addressing = DestinationResolver(PLAN, {}, Connections())
    return OutgoingGateway("out", OutgoingSettings(connections=connections), addressing, store)


def make_sendable(seconds: int = 0, peer: str | None = None, slices: tuple[SliceKey, ...] = ()) -> NewMessage:
    properties = {} if peer is None else {"Recipient": PropertyValue.string(f"http://{peer}.invalid/")}
    message = new("out", undelivered=True, priority=None, properties=properties, slices=slices)
    return replace(message, created=MORNING + timedelta(seconds=seconds))


def read_texts(store: MemoryStore) -> Callable[..., dict[int, StoredMessage]]:
    return lambda numbers: {message.seq: message for message in store.messages(numbers)}


def begin_reading(gateway: OutgoingGateway, store: MemoryStore, now: datetime = NOW) -> tuple[Page, PageFound]:
    page = gateway.reader.plan(now)
    assert page is not None
    return page, gateway.reader.read(page, lambda: now, read_texts(store))


def read(gateway: OutgoingGateway, store: MemoryStore, now: datetime = NOW) -> list[int]:
    """Read pages as long as there are some. Return what was found."""
    found: list[int] = []
    while (page := gateway.reader.plan(now)) is not None:
        got = gateway.reader.read(page, lambda: now, read_texts(store))
        gateway.reader.take(page, got)
        found += [each.seq for each in [*got.found, *got.again]]
    return found


def load(gateway: OutgoingGateway, store: MemoryStore) -> int:
    wanted = gateway.wanted_texts(99, lambda characters: 99)
    texts = read_texts(store)([due.seq for due in wanted])
    for due in wanted:
        gateway.waiting.loaded(due, texts[due.seq])
    return len(wanted)


def begin_all(gateway: OutgoingGateway) -> list[Begun]:
    begun = []
    while (one := gateway.begin_next()) is not None:
        begun.append(one)
    return begun


def end(gateway: OutgoingGateway, begun: Begun) -> None:
    assert begun.peer is not None
    gateway.end(begun.due, begun.peer, None)


@pytest.mark.parametrize("is_noted_first", [True, False])
def test_a_message_that_is_due_again_while_the_store_is_read_is_not_forgotten(is_noted_first: bool):
    store = MemoryStore()
    gateway = make_gateway(store)
    store.append([make_sendable()])
    assert read(gateway, store) == [1]
    [begun] = begin_all(gateway)
    end(gateway, begun)
    gateway.reader.note_news()

    # Storing that it is to be tried again takes longer than the pause: it is due already.
    store.postpone([Postponed(message=1, due=MORNING, attempt=attempt(1, 1, "again"))])
    page, found = begin_reading(gateway, store)
    if is_noted_first:
        gateway.done(begun.due)
        gateway.postponed(MORNING)
    gateway.reader.take(page, found)
    assert len(gateway.waiting) == (0 if is_noted_first else 1), "what was read of it is of before"
    if not is_noted_first:
        gateway.done(begun.due)
        gateway.postponed(MORNING)

    assert gateway.pause_seconds(NOW) == 0
    assert read(gateway, store) == [1]
    assert 1 in gateway.waiting


def test_a_message_that_was_delivered_while_the_store_is_read_is_not_sent_again():
    store = MemoryStore()
    gateway = make_gateway(store)
    store.append([make_sendable()])
    assert read(gateway, store) == [1]
    [begun] = begin_all(gateway)
    end(gateway, begun)
    gateway.reader.look_again()
    page, found = begin_reading(gateway, store)
    assert [each.seq for each in found.found] == [1]
    store.commit([Step(processed=1, delivered=1)])
    gateway.done(begun.due)
    gateway.reader.take(page, found)
    assert len(gateway.waiting) == 0
    assert read(gateway, store) == []


def test_news_that_could_not_be_read_is_read_later(monkeypatch: pytest.MonkeyPatch):
    def fail(*asked: object) -> list[ToSend]:
        raise StoreError("the disk has failed")

    store = MemoryStore()
    gateway = make_gateway(store)
    assert read(gateway, store) == []
    store.append([make_sendable()])
    gateway.reader.note_news()
    page = gateway.reader.plan(NOW)
    assert page is not None
    with monkeypatch.context() as failing:
        failing.setattr(store, "to_send", fail)
        with pytest.raises(StoreError):
            gateway.reader.read(page, lambda: NOW, read_texts(store))
    gateway.reader.fail(page)
    assert read(gateway, store) == [1]
    assert gateway.reader.plan(NOW) is None


def test_messages_of_a_slice_go_in_the_order_of_their_seqs_whenever_they_were_evaluated():
    store = MemoryStore()
    gateway = make_gateway(store)
    slices = (("s", "k"),)
    store.append([make_sendable(2, slices=slices), make_sendable(1, slices=slices)])
    assert read(gateway, store) == [1, 2]
    begun = begin_all(gateway)
    assert [one.due.seq for one in begun] == [1], "the other one waits for it"
    end(gateway, begun[0])
    assert gateway.done(begun[0].due)
    load(gateway, store)
    assert [one.due.seq for one in begin_all(gateway)] == [2]


def test_a_message_that_is_stored_while_the_store_is_read_does_not_pass_earlier_ones():
    store = MemoryStore()
    gateway = make_gateway(store)
    store.append([make_sendable(1)])
    times = iter([MORNING + timedelta(seconds=2), NOW, NOW, NOW])

    def store_more() -> datetime:
        if len(store.unsent(None, None, 9)) == 1:
            store.append([make_sendable(3), make_sendable(1)])
        return next(times)

    page = gateway.reader.plan(NOW)
    assert page is not None
    found = gateway.reader.read(page, store_more, read_texts(store))
    assert [each.seq for each in found.found] == [1, 3], "the second is not due at that time"
    gateway.reader.take(page, found)
    assert gateway.pause_seconds(NOW) == 0
    assert 2 in read(gateway, store)
    assert sorted(gateway.waiting._known) == [1, 2, 3]


def test_what_is_on_its_way_again_is_not_hastened():
    """Its pause would be noted before or after what becomes of it."""
    store = MemoryStore()
    gateway = make_gateway(store)
    store.append([make_sendable()] * 2)
    assert read(gateway, store) == [1, 2]
    first, second = begin_all(gateway)
    for seq in (1, 2, 3):
        gateway.note_put_off("http://a.invalid:80", seq, 1, None)
    failed = DeliveryFailed(kind="timeout", reason="no answer")
    assert first.peer is not None
    for _ in range(gateway.settings.breaker_failures):
        first.peer.begin()
        first.peer.end(failed)
    end(gateway, second)
    assert gateway.hasten(NOW) == [Postponed(message=3, due=NOW)]
    assert gateway.hasten(NOW) == []


def test_few_messages_come_with_their_texts_and_many_without():
    store = MemoryStore()
    gateway = make_gateway(store)
    store.append([make_sendable()] * due_reader.TEXTS_MAX)
    read(gateway, store)
    assert load(gateway, store) == 0
    store.append([make_sendable()] * (due_reader.TEXTS_MAX + 1))
    gateway.reader.note_news()
    read(gateway, store)
    assert load(gateway, store) == due_reader.TEXTS_MAX + 1


def test_peers_that_use_many_connections_leave_one_for_each_of_the_others():
    store = MemoryStore()
    gateway = make_gateway(store, connections=100)
    for peer in ("a", "b", "c"):
        store.append([make_sendable(peer=peer)] * 100)
    store.append([make_sendable(peer=f"p{number}") for number in range(SENDING_MAX)])
    read(gateway, store)
    begun: list[Begun] = []
    while load(gateway, store):
        begun += begin_all(gateway)
    sent = Counter([one.due.lane for one in begun])
    assert sum(sent.values()) == SENDING_MAX
    assert sum([count for count in sent.values() if count > 1]) <= SENDING_MANY
    assert len(sent) >= SENDING_MAX - SENDING_MANY


SLOW = "slow"
PEERS = ("a", "b", SLOW)
KNOWN_MAX, LANE_KNOWN_MAX, READ_MAX = 40, 4, 3


class Model:
    """A gateway, driven at random. The slow peer keeps what it gets until `is_slow` is False."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.store = MemoryStore()
        self.gateway = make_gateway(self.store, connections=2)
        self.now = MORNING
        self.is_slow = True
        self.flying: list[Begun] = []
        self.page: tuple[Page, PageFound] | None = None
        self.sent: Counter[int] = Counter()
        self.expected: Counter[int] = Counter()
        self.order: dict[int, list[int]] = {}
        self.retried: set[int] = set()
        self.peers: dict[int, str] = {}
        self.slices: dict[int, int] = {}
        self.counts: Counter[str] = Counter()

    def come(self) -> None:
        for _ in range(self.chance.choice([1, 2, 5, 12])):
            peer = self.chance.choice(PEERS)
            key = self.chance.choice([None, None, None, 0, 1]) if len(self.slices) < 10 else None
            slices = () if key is None else (("s", str(key)),)
            [seq] = self.store.append([make_sendable(0, peer, slices)])
            self.expected[seq] = 1
            self.peers[seq] = peer
            if key is not None:
                self.slices[seq] = key
        self.gateway.reader.note_news()

    def read(self) -> None:
        """Plan and read a page, or take the one that was read: anything may happen between the two."""
        reader = self.gateway.reader
        if self.page is None:
            page = reader.plan(self.now)
            if page is not None:
                self.now += timedelta(seconds=self.chance.choice([0, 0, 2]))
                self.page = page, reader.read(page, lambda: self.now, read_texts(self.store))
                self.counts["refilled"] += bool(page.lanes)
            return
        page, found = self.page
        self.page = None
        if self.chance.random() < 0.1:
            reader.fail(page)
        else:
            reader.take(page, found)

    def go(self) -> None:
        load(self.gateway, self.store)
        for begun in begin_all(self.gateway):
            seq = begun.due.seq
            assert seq not in [other.due.seq for other in self.flying]
            self.flying.append(begun)
            if seq in self.slices and not self.sent[seq] and seq not in self.retried:
                self.order.setdefault(self.slices[seq], []).append(seq)

    def end(self) -> None:
        quick = [one for one in self.flying if not self.is_slow or self.peers[one.due.seq] != SLOW]
        if not quick:
            return
        begun = self.chance.choice(quick)
        self.flying.remove(begun)
        end(self.gateway, begun)
        seq = begun.due.seq
        if self.chance.random() < 0.2:
            due = self.now + timedelta(seconds=self.chance.choice([-1, 0, 1, 60]))
            self.store.postpone([Postponed(message=seq, due=due, attempt=attempt(seq, 1, "again"))])
            self.gateway.done(begun.due)
            self.gateway.postponed(due)
            self.retried.add(seq)
            self.counts["postponed"] += 1
            return
        self.store.commit([Step(delivered=seq)])
        self.sent[seq] += 1
        self.gateway.done(begun.due)

    def redeliver(self) -> None:
        done = [seq for seq in self.sent if self.sent[seq] == self.expected[seq] and self.peers[seq] != SLOW]
        if done:
            seq = self.chance.choice(done)
            self.store.send_again([seq], self.now)
            self.expected[seq] += 1
            self.retried.add(seq)
            self.gateway.reader.look_again()
            self.counts["redelivered"] += 1

    def pass_time(self) -> None:
        self.now += timedelta(seconds=self.chance.choice([0, 1, 30, 90]))

    def check(self) -> None:
        waiting = self.gateway.waiting
        assert len(waiting) <= KNOWN_MAX
        unsliced = Counter([due.lane for due in waiting._known.values() if not due.slices])
        assert all([count <= LANE_KNOWN_MAX for count in unsliced.values()])
        self.counts["skipped"] += bool(self.gateway.reader._skipped)

    def settle(self) -> None:
        """Let all happen that can."""
        for _ in range(1_000):
            self.now += timedelta(minutes=2)
            for act in (self.read, self.read, self.go, self.end, self.end, self.end):
                act()
                self.check()
            if not any([self.peers[each.message] != SLOW for each in self.left()]) and self.is_slow:
                return
            if not self.left():
                return
        raise AssertionError(f"left: {self.left()}")

    def left(self) -> list[Unsent]:
        """Return what is to be sent, but not what waits for messages of the same slice to the slow peer."""
        held = {self.slices[seq] for seq in self.slices if self.peers[seq] == SLOW} if self.is_slow else set()
        return [each for each in self.store.unsent(None, None, 999) if self.slices.get(each.message) not in held]


def test_a_slow_peer_does_not_slow_others_and_all_goes_once_in_order(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(due_reader, "KNOWN_MAX", KNOWN_MAX)
    monkeypatch.setattr(due_reader, "LANE_KNOWN_MAX", LANE_KNOWN_MAX)
    monkeypatch.setattr(due_reader, "READ_MAX", READ_MAX)
    monkeypatch.setattr(due_reader, "READ_SHARE_MAX", 1e9)
    counts: Counter[str] = Counter()

    @given(st.integers())
    def run(seed: int) -> None:
        model = Model(random.Random(seed))
        acts = [model.come, model.read, model.read, model.read, model.go, model.go, model.end, model.end]
        acts += [model.pass_time, model.redeliver]
        for _ in range(model.chance.choice([20, 100])):
            model.chance.choice(acts)()
            model.check()
        model.settle()
        model.counts["slow left"] += bool(model.store.unsent(None, None, 1))
        model.is_slow = False
        model.settle()
        assert model.sent == model.expected
        for order in model.order.values():
            assert order == sorted(order)
        counts.update(model.counts)

    run()
    assert all([counts[name] for name in ("skipped", "refilled", "postponed", "redelivered", "slow left")]), counts
