"""A task without Spark: a process that serves a node as a task does.

Ends with 0 if the node has no more requests, with 3 if the node is lost or refuses it.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

import demaq
from demaq.spark.task_channel import TaskAddress
from demaq.spark.task_worker import serve_node

LOST = 3


def start_task(address: TaskAddress) -> subprocess.Popen[bytes]:
    """Start a process that serves the node at an address."""
    paths = [str(Path(demaq.__file__).parents[1]), str(Path(__file__).parents[3])]
    process = subprocess.Popen(
        [sys.executable, "-P", __file__],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        stdin=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdin is not None
    process.stdin.write(pickle.dumps(address))
    process.stdin.close()
    return process


if __name__ == "__main__":
    try:
        serve_node(pickle.load(sys.stdin.buffer))
    except (OSError, EOFError):
        os._exit(LOST)
