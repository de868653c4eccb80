"""A node answers its operators also after a moment in which the system has let nothing through."""

from __future__ import annotations

import errno
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from demaq.control.client import RemoteNode, running_node
from demaq.errors import StoreError
from demaq.server import control_server
from demaq.server.control_server import ControlServer
from tests.support.gateways.nodes import running


class FailingSocket:
    """Accepts no connection the first time."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self.faults = [OSError(errno.EMFILE, "Too many open files")]

    def accept(self) -> tuple[socket.socket, str]:
        if self.faults:
            raise self.faults.pop()
        return self._listener.accept()

    def shutdown(self, how: int) -> None:
        self._listener.shutdown(how)

    def close(self) -> None:
        self._listener.close()


@pytest.fixture
def control(tmp_path: Path) -> Iterator[ControlServer]:
    with running(tmp_path, "create queue box") as found:
        control = ControlServer(found.node)
        yield control
        control.close()


def ask(folder: Path) -> RemoteNode:
    found = running_node(folder)
    assert found is not None
    return found


def test_it_answers_after_a_moment_without_room_for_a_connection(tmp_path: Path, control: ControlServer):
    failing = FailingSocket(control._socket)
    control._socket = failing  # type: ignore[assignment]
    assert ask(tmp_path / "store").status()["processed"] == 0  # after that the other one accepts
    assert ask(tmp_path / "store").status()["processed"] == 0
    assert not failing.faults


def test_it_answers_after_a_moment_without_room_for_a_thread(
    tmp_path: Path, control: ControlServer, monkeypatch: pytest.MonkeyPatch
):
    node = ask(tmp_path / "store")
    assert node.status()["processed"] == 0  # the connection by which it was found has been accepted before

    def refuse(*args: object, **options: object) -> threading.Thread:
        monkeypatch.undo()
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(control_server, "threading", SimpleNamespace(Thread=refuse))
    with pytest.raises(StoreError):
        node.status()
    assert node.status()["processed"] == 0
