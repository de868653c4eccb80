"""What a program does with a node of its own: store many messages, wait until they are processed, read a queue."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from demaq import IncomingMessage, Node
from demaq.errors import MessageError, StoreDamaged
from demaq.server import node as node_module

STEPS = 20
PROGRAM = f"""
create queue in
create queue out kind mailbox
create queue later kind echo
create property urgency as xs:string queue in value "low" queue out value qs:message()/*/@urgency
create rule count for in
  if (number(/n) lt {STEPS}) then do enqueue <n>{{number(/n) + 1}}</n> into in
create rule finish for in
  if (number(/n) eq {STEPS}) then do enqueue <done urgency="{{qs:property('urgency')}}"/> into out
create rule remind for in
  if (/later) then do enqueue <n>0</n> into later with timeout value xs:dayTimeDuration("P1D") with target value "in"
"""


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    application = tmp_path / "application.dmq"
    application.write_text(PROGRAM)
    node = Node(application, tmp_path / "store")
    try:
        yield node
    finally:
        node.stop()


def test_a_node_is_idle_when_all_that_came_of_a_message_is_processed(node: Node) -> None:
    node.start()
    assert node.wait_until_idle(60)  # there was nothing to do
    for expected in (3, 6):
        node.enqueue_all("in", ["<n>1</n>", b"<n>5</n>", "<n>9</n>"])
        assert node.wait_until_idle(60)
        assert [message.body for message in node.read_queue("out")] == ['<done urgency="low"/>'] * expected
        assert list(node.read_queue("in")) == []


def test_timers_that_are_not_due_are_not_waited_for(node: Node) -> None:
    node.start()
    node.enqueue("in", "<later/>")

    assert node.wait_until_idle(60)

    (timer,) = node.read_queue("later")
    assert timer.timer is not None
    assert timer.timer.due - timer.created > timedelta(hours=23)


def test_a_caller_that_waits_for_too_short_gets_false(node: Node) -> None:
    node.start()
    node.enqueue("in", "<n>1</n>")
    with node._thread.turn:  # so that nothing is processed
        assert not node.wait_until_idle(0.05)
    assert node.wait_until_idle(60)


def test_messages_of_one_call_may_have_properties(node: Node) -> None:
    numbers = node.enqueue_all("in", [IncomingMessage("<n>20</n>", {"urgency": "high"}), "<n>20</n>"])
    assert [message.seq for message in node.read_queue("in")] == numbers
    node.start()
    assert node.wait_until_idle(60)

    assert sorted([message.properties["urgency"].text for message in node.read_queue("out")]) == ["high", "low"]


def test_a_message_that_is_refused_takes_the_others_of_its_call_with_it(node: Node) -> None:
    with pytest.raises(MessageError, match="fruit"):
        node.enqueue_all("in", ["<n>1</n>", IncomingMessage("<n>1</n>", {"fruit": "plum"})])

    assert list(node.read_queue("in")) == []


def test_a_queue_is_read_page_by_page(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_module, "READ_PAGE", 3)
    numbers = node.enqueue_all("out", [f"<m>{n}</m>" for n in range(7)])

    assert [message.body for message in node.read_queue("out")] == [f"<m>{n}</m>" for n in range(7)]
    assert [message.seq for message in node.read_queue("out", after=numbers[4])] == numbers[5:]
    with pytest.raises(MessageError, match="no queue nowhere"):
        node.read_queue("nowhere")


def test_a_node_that_does_not_run_is_not_waited_for(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RuntimeError, match="started before"):
        node.wait_until_idle()

    def fail() -> int:
        raise StoreDamaged("the disk is gone")

    monkeypatch.setattr(node.engine, "run_round", fail)
    node.start()
    with pytest.raises(StoreDamaged, match="the disk is gone"):
        node.wait_until_idle(60)


def test_a_subscriber_cannot_wait_for_its_own_node(node: Node) -> None:
    caught: list[str] = []

    def listen(_: object) -> None:
        try:
            node.wait_until_idle()
        except RuntimeError as error:
            caught.append(str(error))

    node.subscribe("out", listen)
    node.start()
    node.enqueue("in", f"<n>{STEPS}</n>")

    assert node.wait_until_idle(60)
    assert len(caught) == 1
