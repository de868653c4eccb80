"""Objects over a socket arrive whole and in order, however the system cuts them up."""

from __future__ import annotations

import random
import socket
import threading
from collections.abc import Iterator, Sequence

import pytest

from demaq.evaluation.workers.socket_channel import SocketChannel


@pytest.fixture
def sockets() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


@pytest.fixture
def pair(sockets: tuple[socket.socket, socket.socket]) -> tuple[SocketChannel, SocketChannel]:
    return SocketChannel(sockets[0]), SocketChannel(sockets[1])


def send_all(channel: SocketChannel, values: Sequence[object]) -> None:
    for value in values:
        channel.send(value)


def test_objects_of_any_size_arrive_in_order(pair: tuple[SocketChannel, SocketChannel], chance: random.Random):
    here, there = pair
    sent = [bytes(chance.choice((0, 1, 100, 70_000, 3_000_000))) for _ in range(20)]
    assert max([len(each) for each in sent]) > 100
    sender = threading.Thread(target=send_all, args=[here, list(enumerate(sent))])
    sender.start()
    found = []
    for _ in sent:
        assert there.poll(10.0)
        found.append(there.recv())
    sender.join()
    assert found == list(enumerate(sent))
    assert not there.poll(0.0)


def test_an_object_that_was_read_with_the_one_before_is_there(pair: tuple[SocketChannel, SocketChannel]):
    here, there = pair
    here.send("one")
    here.send("two")
    assert there.recv() == "one"
    here.close()
    assert there.poll(0.0)
    assert there.recv() == "two"
    with pytest.raises(EOFError):
        there.recv()


def test_others_may_ask_whether_anything_came_while_one_waits(pair: tuple[SocketChannel, SocketChannel]):
    here, there = pair
    waiting = threading.Thread(target=there.poll, args=[10.0])
    waiting.start()
    asked = [there.is_silent() for _ in range(200)]
    assert all(asked)
    here.send("one")
    waiting.join()
    assert not there.is_silent()
    there.recv()
    here.close()
    assert not there.is_silent()
    there.close()
    with pytest.raises(OSError, match="closed"):
        there.is_silent()


def test_half_an_object_is_not_one(sockets: tuple[socket.socket, socket.socket]):
    ours, theirs = sockets
    there = SocketChannel(theirs)
    ours.sendall(b"\0\0\0\0\0\0\0\5he")
    ours.close()
    with pytest.raises(EOFError):
        there.recv()


def test_a_closed_channel_is_an_error(pair: tuple[SocketChannel, SocketChannel]):
    here, _ = pair
    here.close()
    with pytest.raises(OSError, match="closed"):
        here.poll(0.0)
    with pytest.raises(OSError):  # noqa: PT011
        here.send(1)
