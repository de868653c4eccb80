"""Many messages wait: a slow peer does not slow another, memory is bounded, results are committed together, and a node
that is killed loses nothing."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from demaq.engine.delivery import Ended
from demaq.gateways.outbox import due_reader, text_loader
from demaq.gateways.outbox.waiting import Due, Waiting
from demaq.gateways.security.recipients import Recipients
from demaq.gateways.settings import OutgoingSettings, Settings
from demaq.messages import PropertyValue
from demaq.server.gateways import Gateways
from demaq.server.node import Node
from demaq.store.protocol import NewMessage, Store, StoredMessage
from demaq.store.sqlite import SqliteStore
from tests.support.gateways.nodes import wait_until
from tests.support.gateways.peers import Answer, Got, OtherSide, other_side
from tests.support.gateways.processes import GatewayNode, free_ports, killed_at_the_end

APPLICATION = """
create queue start
create queue out kind outgoingGateway endpoint "ADDRESS/"
create rule send for start if (/send) then do enqueue <m/> into out
"""
CONNECTIONS = 2
SETTINGS = Settings(
    outgoing_default=OutgoingSettings(connections=CONNECTIONS, recipients=Recipients.of(["127.0.0.1:*"]))
)
ACCEPTED: Answer = (202, {}, b"")


class Gate:
    """Answers no request before it is opened."""

    def __init__(self) -> None:
        self._opened = threading.Event()
        self.answered = 0

    def open(self) -> None:
        self._opened.set()

    def __call__(self, got: Got) -> Answer:
        self._opened.wait()
        self.answered += 1
        return ACCEPTED


def make_messages(count: int, peer: OtherSide, body: str = "<m/>") -> list[NewMessage]:
    return [
        NewMessage(
            queue="out",
            body=body,
            properties={"Recipient": PropertyValue.string(f"{peer.address}/{number}")},
            created=datetime.now(UTC),
            priority=None,
            undelivered=True,
        )
        for number in range(count)
    ]


@contextmanager
def started(folder: Path, *messages: Sequence[NewMessage]) -> Iterator[Node]:
    """A node whose outbox has messages before it starts."""
    (folder / "app.dmq").write_text(APPLICATION.replace("ADDRESS", "http://127.0.0.1:9"))
    node = Node(folder / "app.dmq", folder / "store", keep=timedelta(days=1))
    for some in messages:
        node.store.append(some)
    gateways = Gateways(node, SETTINGS)
    gateways.start()
    node.start()
    try:
        yield node
    finally:
        gateways.stop_receiving()
        node.stop()


def count_left(store: Store) -> int:
    return store.sendings().get("out", (0,))[0]


def test_messages_to_a_peer_that_does_not_answer_hold_up_no_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """More of them wait than are known at once, and all before the others."""
    monkeypatch.setattr(due_reader, "KNOWN_MAX", 100)
    monkeypatch.setattr(due_reader, "LANE_KNOWN_MAX", 20)
    monkeypatch.setattr(due_reader, "READ_MAX", 10)
    gate = Gate()
    with ExitStack() as stack:
        slow, quick = stack.enter_context(other_side(gate)), stack.enter_context(other_side())
        stack.callback(gate.open)
        waiting = make_messages(300, slow)
        with started(tmp_path, waiting, make_messages(60, quick)) as node:
            wait_until(lambda: len(quick.got) == 60)
            assert gate.answered == 0
            assert len(slow.got) == CONNECTIONS
            wait_until(lambda: count_left(node.store) == 300)

            gate.open()
            wait_until(lambda: count_left(node.store) == 0)
            assert Counter([got.path for got in slow.got]) == Counter([f"/{number}" for number in range(300)])
            assert len(quick.got) == 60


def test_large_messages_to_a_peer_that_does_not_answer_leave_room_for_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(text_loader, "CHARACTERS_MAX", 40_000)
    monkeypatch.setattr(text_loader, "LANE_CHARACTERS_MAX", 30_000)
    monkeypatch.setattr(text_loader, "RESERVE_CHARACTERS_MAX", 80_000)
    gate = Gate()
    with ExitStack() as stack:
        slow, quick = stack.enter_context(other_side(gate)), stack.enter_context(other_side())
        stack.callback(gate.open)
        large = f"<m>{'x' * 50_000}</m>"
        with started(tmp_path, make_messages(50, slow, large), make_messages(50, quick, large)) as node:
            wait_until(lambda: len(quick.got) == 50)
            assert gate.answered == 0
            gate.open()
            wait_until(lambda: count_left(node.store) == 0)


def test_what_is_known_of_many_messages_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(due_reader, "KNOWN_MAX", 100)
    monkeypatch.setattr(due_reader, "LANE_KNOWN_MAX", 40)
    monkeypatch.setattr(due_reader, "READ_MAX", 25)
    monkeypatch.setattr(text_loader, "CHARACTERS_MAX", 50_000)
    monkeypatch.setattr(text_loader, "LANE_CHARACTERS_MAX", 20_000)
    known, characters = [0], [0]
    add, add_text = Waiting.add, Waiting.add_text

    def add_and_count(waiting: Waiting, due: Due) -> None:
        add(waiting, due)
        known.append(len(waiting))

    def add_text_and_count(waiting: Waiting, due: Due, message: StoredMessage) -> None:
        add_text(waiting, due, message)
        characters.append(waiting.characters)

    monkeypatch.setattr(Waiting, "add", add_and_count)
    monkeypatch.setattr(Waiting, "add_text", add_text_and_count)
    body = f"<m>{'x' * 1_000}</m>"
    with other_side() as one, other_side() as other:
        messages = make_messages(400, one, body), make_messages(400, other, body)
        with started(tmp_path, *messages) as node:
            wait_until(lambda: count_left(node.store) == 0)
    assert len(one.got) == len(other.got) == 400
    assert 40 < max(known) <= 80
    batch = 32 * len(body)
    assert 20_000 < max(characters) < 40_000 + 2 * batch


def test_results_that_come_while_others_are_committed_are_the_next_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    batches: list[int] = []
    all_sent = threading.Event()
    with other_side() as peer:
        (tmp_path / "app.dmq").write_text(APPLICATION.replace("ADDRESS", peer.address))
        node = Node(tmp_path / "app.dmq", tmp_path / "store", keep=timedelta(days=1))
        node.store.append(make_messages(90, peer))
        deliver = node.engine.deliver

        def deliver_late(ended: Sequence[Ended], *others: Any) -> None:
            batches.append(len(ended))
            all_sent.wait()
            deliver(ended, *others)

        monkeypatch.setattr(node.engine, "deliver", deliver_late)
        gateways = Gateways(node, SETTINGS)
        gateways.start()
        node.start()
        try:
            # Texts are loaded in the thread that commits, so only those go that are loaded by then.
            wait_until(lambda: len(peer.got) >= 32)
            all_sent.set()
            wait_until(lambda: count_left(node.store) == 0)
            assert [(each.number, each.result) for each in node.store.attempts("out", None, 100)] == [(1, "sent")] * 90
        finally:
            gateways.stop_receiving()
            node.stop()
    assert sum(batches) == 90
    assert max(batches) >= 20
    assert len(batches) <= 30


def test_a_node_that_is_killed_while_it_sends_loses_nothing_and_repeats_only_what_is_in_doubt(tmp_path: Path):
    """What was noted is not sent again; what may have arrived and was not noted has the same name again."""
    count, kills = 1_500, 3
    with other_side() as peer:
        (tmp_path / "app.dmq").write_text(APPLICATION.replace("ADDRESS", peer.address))
        with closing(SqliteStore(tmp_path / "store")) as store:
            message = NewMessage(
                queue="out",
                body="<m/>",
                properties={},
                created=datetime.now(UTC),
                priority=None,
                undelivered=True,
            )
            store.append([message] * count)
        node = GatewayNode(tmp_path, tmp_path / "app.dmq", free_ports(1)[0])
        with killed_at_the_end(node):
            in_doubt: set[str] = set()
            for kill in range(kills):
                node.start()
                wait_for_requests(peer, (kill + 1) * count // 5)
                node.kill()
                wait_until_silent(peer)
                noted = {f"{each.message}" for each in read_attempts(tmp_path / "store", count)}
                names = {got.headers["idempotency-key"] for got in peer.got}
                in_doubt |= {name for name in names if name.rpartition("/")[2] not in noted}
            node.start()
            wait_until(lambda: not read_left(tmp_path / "store"))
    sent = Counter([got.headers["idempotency-key"] for got in peer.got])
    assert len(sent) == count
    assert in_doubt
    assert {name for name, times in sent.items() if times > 1} <= in_doubt
    assert all([times <= 1 + kills for times in sent.values()])


def wait_until_silent(peer: OtherSide) -> None:
    """What a killed node has sent may still be on its way."""
    before = -1
    while before != len(peer.got):
        before = len(peer.got)
        time.sleep(0.3)


def wait_for_requests(peer: OtherSide, count: int) -> None:
    wait_until(lambda: len(peer.got) >= count)


def read_attempts(folder: Path, limit: int) -> list[Any]:
    with closing(SqliteStore.open_readonly(folder)) as store:
        return [each for each in store.attempts("out", None, limit) if each.result == "sent"]


def read_left(folder: Path) -> int:
    with closing(SqliteStore.open_readonly(folder)) as store:
        return count_left(store)
