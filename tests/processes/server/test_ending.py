"""However often a node is asked to end, and by whatever: nothing is left but what it has stored."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

import demaq
from demaq.control.client import running_node
from demaq.store.sqlite import SqliteStore
from tests.support.gateways.nodes import wait_until

pytestmark = pytest.mark.slow
APPLICATION = """
create queue a
create queue b
create rule r for a if (/m) then do enqueue <n>{count(for $i in 1 to 20000 return $i * 2)}</n> into b
"""
MESSAGES = 200
SECONDS_MAX = 60.0
ENDINGS: dict[str, Sequence[signal.Signals]] = {
    "SIGTERM twice": (signal.SIGTERM, signal.SIGTERM),
    "Ctrl-C while it ends": (signal.SIGTERM, signal.SIGINT, signal.SIGINT, signal.SIGTERM),
    "the terminal is closed": (signal.SIGHUP,),
    "the terminal is closed while it ends": (signal.SIGINT, signal.SIGHUP, signal.SIGHUP),
}


@pytest.mark.parametrize("ending", list(ENDINGS))
def test_a_node_that_is_asked_to_end_again_and_again_leaves_nothing(tmp_path: Path, ending: str):
    (tmp_path / "app.dmq").write_text(APPLICATION)
    sockets = tmp_path / "sockets"
    sockets.mkdir()
    reader, writer = os.pipe()
    node = subprocess.Popen(
        [sys.executable, "-m", "demaq.cli", "run", "app.dmq", "--store", "s", "--keep", "1d", "--http", "127.0.0.1:0"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(demaq.__file__).parents[1]), "TMPDIR": str(sockets)},
        stderr=writer,
        start_new_session=True,
    )
    os.close(writer)
    try:
        wait_until(lambda: running_node(tmp_path / "s") is not None or node.poll() is not None)
        remote = running_node(tmp_path / "s")
        assert remote is not None
        for number in range(MESSAGES):
            remote.enqueue("a", f"<m>{number}</m>".encode(), {}, f"request {number}")
        if "terminal" in ending:
            os.close(reader)  # no process reads from it any more: writing fails
            reader = -1
        group = _group(node.pid)
        assert len(group) > 1, "evaluators"
        for number in ENDINGS[ending]:
            os.killpg(node.pid, number)  # as a terminal does it: to the whole group
            time.sleep(0.1)
        assert node.wait(SECONDS_MAX) == 0
        wait_until(lambda: not _group(node.pid))
        assert not list(sockets.iterdir())
        assert not (tmp_path / "s" / "node.json").exists()
    finally:
        if reader >= 0:
            os.close(reader)
        for pid in _group(node.pid):
            os.kill(pid, signal.SIGKILL)
        node.wait()
    store = SqliteStore(tmp_path / "s")
    try:
        stored = store.stored("a", 0, 2 * MESSAGES)
        made = store.stored("b", 0, 2 * MESSAGES)
    finally:
        store.close()
    assert [message.body for message in stored] == [f"<m>{number}</m>" for number in range(MESSAGES)]
    assert len({message.trigger for message in made}) == len(made), "none is processed twice"
    assert {message.trigger for message in made} == {each.seq for each in stored if each.processed is not None}


def _group(leader: int) -> list[int]:
    """The processes of a group that are still there."""
    found = subprocess.run(["ps", "-eo", "pid=,pgid=,stat="], capture_output=True, text=True, check=True).stdout
    rows = [line.split() for line in found.splitlines()]
    return [int(pid) for pid, group, state in rows if int(group) == leader and not state.startswith("Z")]
