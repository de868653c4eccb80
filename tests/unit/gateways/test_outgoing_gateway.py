"""Which messages of an outgoing gateway are due: none is forgotten, whatever happens at the same time."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from demaq.compiler.planner import make_plan
from demaq.errors import StoreError
from demaq.gateways.connections import Connections
from demaq.gateways.outbox.destination import DestinationResolver
from demaq.gateways.outbox.outgoing_gateway import OutgoingGateway
from demaq.gateways.settings import OutgoingSettings
from demaq.language.loader import load_program
from demaq.store.memory_store import MemoryStore
from demaq.store.protocol import NewMessage, Postponed, ToSend
from tests.support.store.contract import MORNING, attempt, new

NOW = MORNING + timedelta(days=1)


@pytest.mark.parametrize("is_noted_first", [True, False])
def test_a_message_that_is_due_again_while_the_store_is_read_is_not_forgotten(tmp_path: Path, is_noted_first: bool):
    (tmp_path / "app.dmq").write_text('create queue out kind outgoingGateway endpoint "http://a.invalid/"')
    plan = make_plan(load_program([tmp_path / "app.dmq"]))
    store = MemoryStore()
    gateway = OutgoingGateway("out", OutgoingSettings(), DestinationResolver(plan, {}, Connections()), store)
    store.append([new("out", undelivered=True, priority=None)])
    assert gateway.wants_reading(NOW)
    gateway.add(gateway.read(lambda: NOW), NOW)
    begun = gateway.begin_next()
    assert begun is not None

    # Storing that it is to be tried again takes longer than the pause: it is due already.
    store.postpone([Postponed(message=1, due=MORNING, attempt=attempt(1, 1, "again"))])
    gateway.has_news = True
    if is_noted_first:
        gateway.postponed(1, MORNING)
    assert gateway.wants_reading(NOW)
    read = gateway.read(lambda: NOW)
    assert (read.found, read.next_due) == ([], None), "it was known to be on its way"
    if not is_noted_first:
        gateway.postponed(1, MORNING)
    gateway.add(read, NOW)
    gateway.done(begun[0])

    assert gateway.pause_seconds(NOW) == 0
    assert gateway.wants_reading(NOW)
    assert [found.seq for found in gateway.read(lambda: NOW).found] == [1]


def make_gateway(tmp_path: Path, store: MemoryStore) -> OutgoingGateway:
    (tmp_path / "app.dmq").write_text('create queue out kind outgoingGateway endpoint "http://a.invalid/"')
    plan = make_plan(load_program([tmp_path / "app.dmq"]))
    return OutgoingGateway("out", OutgoingSettings(), DestinationResolver(plan, {}, Connections()), store)


def make_sendable(seconds: int) -> NewMessage:
    created = MORNING + timedelta(seconds=seconds)
    return replace(new("out", undelivered=True, priority=None), created=created, slices=(("s", "k"),))


def test_news_that_could_not_be_read_is_read_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def fail(*asked: object) -> list[ToSend]:
        raise StoreError("the disk has failed")

    store = MemoryStore()
    gateway = make_gateway(tmp_path, store)
    assert gateway.wants_reading(NOW)
    gateway.add(gateway.read(lambda: NOW), NOW)
    store.append([make_sendable(1)])
    gateway.has_news = True
    assert gateway.wants_reading(NOW)
    with monkeypatch.context() as failing:
        failing.setattr(store, "to_send", fail)
        with pytest.raises(StoreError):
            gateway.read(lambda: NOW)
    assert gateway.wants_reading(NOW)
    assert [found.seq for found in gateway.read(lambda: NOW).found] == [1]
    assert not gateway.wants_reading(NOW)


def test_messages_of_a_slice_go_in_the_order_of_their_seqs_whenever_they_were_evaluated(tmp_path: Path):
    store = MemoryStore()
    gateway = make_gateway(tmp_path, store)
    store.append([make_sendable(2), make_sendable(1)])
    assert [found.seq for found in store.to_send("out", NOW, 10)] == [2, 1]

    assert gateway.wants_reading(NOW)
    gateway.add(gateway.read(lambda: NOW), NOW)
    begun = gateway.begin_next()
    assert begun is not None
    assert begun[0].seq == 1
    assert gateway.begin_next() is None, "the other one waits for it"


def test_a_message_that_is_stored_while_the_store_is_read_does_not_pass_earlier_ones(tmp_path: Path):
    store = MemoryStore()
    gateway = make_gateway(tmp_path, store)
    store.append([make_sendable(1)])

    def store_more() -> datetime:
        now = MORNING + timedelta(seconds=2)
        store.append([make_sendable(3), make_sendable(1)])
        return now

    assert gateway.wants_reading(NOW)
    read = gateway.read(store_more)
    assert [found.seq for found in read.found] == [1], "the second is not due at that time, and the third is"
    assert not read.are_all
