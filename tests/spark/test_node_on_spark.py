"""A node whose rules are evaluated by tasks on Spark: from its start to its stop, and when it is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pytest

import demaq
from tests.support.spark import node_on_spark

pytestmark = pytest.mark.slow

SECONDS_MAX = 240.0


@contextmanager
def running(folder: Path, rule_timeout: float) -> Iterator[subprocess.Popen[str]]:
    project = [str(Path(demaq.__file__).parents[1]), str(Path(__file__).parents[2])]
    with subprocess.Popen(
        [sys.executable, node_on_spark.__file__, str(folder), str(rule_timeout)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(project)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def read(process: subprocess.Popen[str], step: str) -> dict[str, Any]:
    output: IO[str] | None = process.stdout
    assert output is not None
    said: dict[str, Any] = json.loads(output.readline() or "{}")
    assert said.pop("step", None) == step
    return said


def test_from_start_to_stop(tmp_path: Path) -> None:
    with running(tmp_path, rule_timeout=2.0) as process:
        found = read(process, "running")
        assert found["master"].startswith("local[5,"), "two slots besides three tasks"
        assert found["status"]["tasks"] >= 1
        [executor] = found["status"]["executors"]
        assert (executor["id"], executor["cores"]) == ("driver", 5)
        assert executor["host"]
        assert 1 <= executor["tasks"] <= 3
        assert found["status"]["why"].endswith("tasks on Spark evaluate rules")
        assert found["status"]["messages"]["spark"] > 0
        assert found["lines"][-1].endswith("of its tasks evaluate rules")
        read(process, "endless")
        found = read(process, "error")
        assert "<rule>endless</rule>" in found["error"]
        assert "it did not end within 2 s" in found["error"]
        assert sorted(found["out"]) == sorted([f"<n>{number}</n>" for number in range(22)])
        found = read(process, "stopped")
        assert found["left"] == []
        assert found["seconds"] < 60


def test_a_killed_node_leaves_no_task_even_if_one_is_busy(tmp_path: Path) -> None:
    with running(tmp_path, rule_timeout=600.0) as process:
        read(process, "running")
        pids = read(process, "endless")["pids"]
        assert len(pids) > 5
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        end = time.monotonic() + SECONDS_MAX
        while left := [pid for pid in pids if Path(f"/proc/{pid}").exists()]:
            assert time.monotonic() < end, [Path(f"/proc/{pid}/cmdline").read_text() for pid in left]
            time.sleep(0.1)
