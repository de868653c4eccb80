"""A node inside a program: its evaluators are real processes, its senders threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from demaq import Node
from demaq.errors import MessageError, StoreError
from demaq.store.protocol import Committed, Step, StoredMessage

WAIT_SECONDS_MAX = 60.0


@contextmanager
def running(program: str, folder: Path, **settings: float) -> Iterator[Node]:
    application = folder / "application.dmq"
    application.write_text(program)
    node = Node(application, folder / "store", **settings)  # type: ignore[arg-type]
    node.start()
    try:
        yield node
    finally:
        node.stop()


def wait_until(holds: Callable[[], bool]) -> None:
    until = time.monotonic() + WAIT_SECONDS_MAX
    while not holds():
        assert time.monotonic() < until, "it did not happen"
        time.sleep(0.01)


def bodies(node: Node, queue: str) -> list[str]:
    return [message.body for message in node.store.queue(queue, node.store.snapshot())]


def test_many_senders_at_once_lose_nothing_and_double_nothing(tmp_path: Path) -> None:
    program = """
    create queue in create queue totals
    create property k as xs:integer queue in value //k
    create slicing s on k
    create rule some for s if (count(qs:slice()) ge 5) then
      (do enqueue <total k="{qs:slicekey()}">{sum(qs:slice()//v)}</total> into totals, do reset)
    """
    with running(program, tmp_path) as node:

        def send(sender: int) -> None:
            for n in range(100):
                node.enqueue("in", f"<m><k>{n % 4}</k><v>{sender}</v></m>")

        senders = [threading.Thread(target=send, args=[n]) for n in range(4)]
        for thread in senders:
            thread.start()
        for thread in senders:
            thread.join()
        wait_until(lambda: not node.store.pending(1))
        totals = bodies(node, "totals")
        left = sum(
            value(message.body) for key in "0123" for message in node.store.slice("s", key, node.store.snapshot())
        )
    assert 0 < len(totals) <= 400 // 5
    # Every message has counted in exactly one total, or still waits for one.
    assert sum(int(body.split(">")[1].split("<")[0]) for body in totals) + left == 100 * (0 + 1 + 2 + 3)


def value(body: str) -> int:
    return int(body.partition("<v>")[2].partition("<")[0])


NEVER_ENDS = """
declare function local:forever($n) { if ($n < 0) then $n else local:forever($n + 1) };
create queue in create queue other
create rule forever for in if (//forever) then do enqueue <n>{local:forever(1)}</n> into other
"""


@pytest.mark.slow
def test_senders_do_not_wait_for_slow_rules(tmp_path: Path) -> None:
    with running(NEVER_ENDS, tmp_path, rule_timeout_seconds=8) as node:
        node.enqueue("in", "<m><forever/></m>")
        time.sleep(0.2)  # let it begin
        numbers = [node.enqueue("other", f"<m>{n}</m>") for n in range(5)]
        assert len(bodies(node, "other")) == len(set(numbers)) == 5
        assert [message.seq for message in node.take("other", 2)] == numbers[:2]
        assert [message.queue for message in node.store.pending(10)] == ["in"]  # the rule is still at it


COPY = "create queue in create queue out create rule copy for in if (true()) then do enqueue . into out"


def test_subscribers_are_called_in_order_and_may_send_and_may_fail(tmp_path: Path) -> None:
    heard: list[str] = []

    with running(COPY, tmp_path) as node:

        def listen(message: StoredMessage) -> None:
            heard.append(message.body)
            if message.body == "<a/>":
                node.enqueue("in", "<c/>")
                raise RuntimeError("not my day")

        node.subscribe("out", listen)
        node.enqueue("in", "<a/>")
        node.enqueue("in", "<b/>")
        wait_until(lambda: len(heard) == 3)
    assert heard == ["<a/>", "<b/>", "<c/>"]


def test_a_message_that_must_be_refused_is_refused(tmp_path: Path) -> None:
    with running(COPY, tmp_path) as node:
        with pytest.raises(MessageError, match="no queue nowhere"):
            node.enqueue("nowhere", "<a/>")
        with pytest.raises(MessageError):
            node.enqueue("in", "<a>")


def test_a_node_waits_while_its_store_cannot_write_and_continues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running(COPY, tmp_path) as node:
        commit = node.store.commit
        broken = True

        def sometimes(steps: Sequence[Step], elide: bool, *_: object) -> list[Committed]:
            if broken:
                raise StoreError("there is no room left")
            return commit(steps, elide)

        monkeypatch.setattr(node.store, "commit", sometimes)
        monkeypatch.setattr(node.engine, "policy", replace(node.engine.policy, fuse=False))
        node.enqueue("in", "<a/>")
        wait_until(lambda: node.fault == "there is no room left")
        broken = False
        wait_until(lambda: bodies(node, "out") == ["<a/>"])
        wait_until(lambda: node.fault is None)


def test_draining_processes_what_waits_and_a_new_node_continues(tmp_path: Path) -> None:
    application = tmp_path / "application.dmq"
    application.write_text(COPY)
    node = Node(application, tmp_path / "store")
    for n in range(300):
        node.enqueue("in", f"<m>{n}</m>")
    node.start()
    node.stop(drain=True)
    with running(COPY, tmp_path) as again:
        assert bodies(again, "out") == [f"<m>{n}</m>" for n in range(300)]
