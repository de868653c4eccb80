"""Where a node can be reached: what a killed one leaves, and what a copy of its store says."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from demaq.cli import main as cli
from demaq.control.client import STOPPED_AFTER_SECONDS, RemoteNode, running_node
from demaq.errors import StoreError
from tests.support.server.running import RunningNode


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A place for applications and stores. Sockets lie in a short folder of their own, to be looked at."""
    sockets = Path(tempfile.mkdtemp(prefix="dq-"))
    monkeypatch.setenv("TMPDIR", str(sockets))
    (tmp_path / "app.dmq").write_text("create queue a create rule r for a if (/n) then do enqueue . into a")
    yield tmp_path
    shutil.rmtree(sockets)


def sockets() -> list[str]:
    return sorted(os.listdir(os.environ["TMPDIR"]))


@pytest.mark.slow
def test_what_a_killed_node_leaves_is_removed_by_the_next_on_the_same_store(folder: Path):
    node = RunningNode(folder / "app.dmq", folder / "s")
    left = sockets()
    node.kill()
    assert sockets() == left
    assert len(left) == 1
    assert running_node(folder / "s") is None
    node = RunningNode(folder / "app.dmq", folder / "s")
    assert len(sockets()) == 1
    assert sockets() != left
    assert node.stop() == 0
    assert sockets() == []


@pytest.mark.slow
def test_a_copy_of_a_store_does_not_lead_to_the_node_of_the_original(folder: Path):
    node = RunningNode(folder / "app.dmq", folder / "s")
    shutil.copytree(folder / "s", folder / "copy")
    (folder / "s").rename(folder / "moved")
    assert running_node(folder / "copy") is None
    assert running_node(folder / "moved") is not None
    (folder / "moved").rename(folder / "s")
    copy = RunningNode(folder / "app.dmq", folder / "copy")  # must not remove the other's socket
    assert running_node(folder / "s") is not None
    assert copy.stop() == 0
    assert node.stop() == 0


def test_a_node_that_gives_no_answer_is_an_error_of_the_store(tmp_path: Path):
    with pytest.raises(StoreError, match="may have been done or not"):
        RemoteNode(str(tmp_path / "nobody")).take("a", 1)


@pytest.mark.slow
def test_every_command_that_asks_a_stopped_node_says_so_within_two_seconds(
    folder: Path, capsys: pytest.CaptureFixture[str]
):
    (folder / "app.dmq").write_text(
        "create queue a create queue box create queue out kind outgoingGateway create collection c "
        "create rule r for a if (/n) then do enqueue . into box"
    )
    (folder / "m.xml").write_text("<m/>")
    node = RunningNode(folder / "app.dmq", folder / "s", "--pipeline", "inline")
    try:
        node.remote.enqueue("out", b"<m/>", {}, None)
        os.kill(node.pid, signal.SIGSTOP)
        for words in (
            ["status"],
            ["status", "--json"],
            ["send", "a", str(folder / "m.xml")],
            ["take", "box"],
            ["gc"],
            ["collections", "load", "c", str(folder / "m.xml")],
            ["redeliver", "1"],
        ):
            began = time.monotonic()
            assert cli.run(cli.demaq, [*words, "--store", str(folder / "s")]) == 1, words
            seconds = time.monotonic() - began
            printed = capsys.readouterr()
            assert (printed.out, printed.err.count("\n")) == ("", 1)
            assert f"the node, process {node.pid}, is stopped and gives no answer" in printed.err, words
            assert seconds < 2 * STOPPED_AFTER_SECONDS, words
        os.kill(node.pid, signal.SIGCONT)
        assert cli.run(cli.demaq, ["status", "--store", str(folder / "s")]) == 0
    finally:
        os.kill(node.pid, signal.SIGCONT)
        assert node.stop() == 0
