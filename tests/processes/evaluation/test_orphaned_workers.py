"""A worker that is busy ends with its caller, though nothing but a signal reaches it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

import demaq
from demaq.evaluation.workers.socket_channel import SocketChannel

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux ends a process by SIGIO")

WORKER = """
import socket, sys
from demaq.evaluation.workers.socket_channel import SocketChannel
channel = SocketChannel(socket.socket(fileno=int(sys.argv[1])))
for is_on in eval(sys.argv[2]):
    channel.end_with_peer(is_on)
channel.send("busy")
while is_on:
    pass
try:
    channel.recv()
except EOFError:
    channel.close()
    sys.exit(7)
"""
NODE = """
import sys
from demaq import Node
node = Node(sys.argv[1], sys.argv[2], rule_timeout_seconds=600)
node.start()
node.enqueue("in", "<m/>")
print(*[pid for pid in node.evaluator_pids.values() if pid], flush=True)
while not node.read_status()["apart"]["messages"]:
    pass
print(*[pid for pid in node.evaluator_pids.values() if pid], flush=True)
sys.stdin.read()
"""
ENDLESS = """
declare function local:forever($n) { if ($n < 0) then $n else local:forever($n + 1) };
create queue in create queue out
create rule endless for in if (/m) then do enqueue <n>{local:forever(1)}</n> into out
"""
SECONDS_MAX = 60.0


@pytest.mark.parametrize(("switches", "ends_by"), [("[True]", -signal.SIGIO), ("[True, False]", 7), ("[False]", 7)])
def test_a_process_that_computes_ends_with_the_other_side(switches: str, ends_by: int) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        process = subprocess.Popen(
            [sys.executable, "-c", WORKER, str(theirs.fileno()), switches], pass_fds=[theirs.fileno()]
        )
        theirs.close()
        channel = SocketChannel(ours)
        try:
            assert channel.recv() == "busy"
            channel.close()
            assert process.wait(SECONDS_MAX) == ends_by
        finally:
            process.kill()
            process.wait()


def test_a_killed_node_leaves_no_worker_that_is_busy(tmp_path: Path) -> None:
    (tmp_path / "app.dmq").write_text(ENDLESS)
    with subprocess.Popen(
        [sys.executable, "-c", NODE, str(tmp_path / "app.dmq"), str(tmp_path / "store")],
        env={**os.environ, "PYTHONPATH": str(Path(demaq.__file__).parents[1])},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as node:
        assert node.stdout is not None
        pids = {int(pid) for _ in range(2) for pid in node.stdout.readline().split()}
        time.sleep(1.0)  # the one for slow messages is busy, too
        node.kill()
    assert pids
    end = time.monotonic() + SECONDS_MAX
    while left := [pid for pid in pids if Path(f"/proc/{pid}").exists()]:
        assert time.monotonic() < end, left
        time.sleep(0.05)
