"""Ctrl-C while a node starts, which reaches all its processes, leaves no traceback; and none is lost at any moment."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

MODULE = """
import runpy, sys
print("up", flush=True)  # Python itself has started
runpy.run_module("demaq.cli", run_name="__main__", alter_sys=True)
"""


@pytest.mark.parametrize("seconds", [0.3, pytest.param(1.0, marks=pytest.mark.slow)])
def test_ctrl_c_while_a_node_starts_leaves_no_traceback(seconds: float, tmp_path: Path) -> None:
    (tmp_path / "app.dmq").write_text(
        "create queue a create queue b create rule r for a if (/m) then do enqueue . into b"
    )
    command = [sys.executable, "-P", "-c", MODULE, "run", "app.dmq", "--store", "store", "--pipeline", "inline"]
    process = subprocess.Popen(
        command, cwd=tmp_path, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "up\n"
        time.sleep(seconds)
        os.killpg(process.pid, signal.SIGINT)
        _, said = process.communicate(timeout=60)
    finally:
        process.kill()
    assert "Traceback" not in said
    assert "KeyboardInterrupt" not in said
    assert process.returncode in (0, 130, -signal.SIGINT)


WAITING = """
import os, random, signal, threading, time
from demaq.cli.run import Signals

signals = Signals()

def interrupt():
    for number in range(300):
        time.sleep(random.random() / 1000)
        os.kill(os.getpid(), signal.SIGINT)
        while signals.count <= number:
            time.sleep(0.0001)

threading.Thread(target=interrupt, daemon=True).start()
while signals.count < 300:
    signals.wait(0.0001)
print(signals.count)
"""


def test_a_signal_at_any_moment_of_a_wait_ends_the_wait() -> None:
    done = subprocess.run([sys.executable, "-P", "-c", WAITING], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "300\n", "")
