"""A worker that becomes too large is ended from outside, also while nothing in it can run."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import demaq

GROW = """
import re, subprocess, sys
from demaq.spark.memory_limit import MemoryLimit
watch, limit, bytes_taken, is_stuck = MemoryLimit(), eval(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "True"
for _ in range(2):
    with watch.limit(limit):
        print(watch._watcher and watch._watcher.pid, flush=True)
        taken = b"x" * bytes_taken
        if is_stuck:
            re.match("(a+)+$", "a" * 60 + "b")  # Python's lock is held
    more = b"x" * 3 * bytes_taken  # outside of tasks anything goes
"""


def outcome_of(limit: int | None, bytes_taken: int, is_stuck: bool) -> tuple[int, list[str]]:
    package = str(Path(demaq.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", GROW, str(limit), str(bytes_taken), str(is_stuck)],
        env={**os.environ, "PYTHONPATH": package},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stderr == ""
    return done.returncode, done.stdout.split()


def test_a_process_that_grows_too_much_is_ended_though_no_thread_of_it_can_run() -> None:
    code, watchers = outcome_of(30_000_000, 80_000_000, is_stuck=True)
    assert code == -9
    assert len(watchers) == 1


@pytest.mark.parametrize(("limit", "has_watcher"), [(60_000_000, True), (None, False)])
def test_a_process_within_its_limit_continues_and_its_watcher_ends_with_it(
    limit: int | None, has_watcher: bool
) -> None:
    code, watchers = outcome_of(limit, 20_000_000, is_stuck=False)
    assert code == 0
    assert len(watchers) == 2
    assert len(set(watchers)) == 1, "one for all tasks"
    assert (watchers[0] != "None") == has_watcher
    end = time.monotonic() + 30
    while has_watcher and Path(f"/proc/{watchers[0]}").exists() and time.monotonic() < end:
        time.sleep(0.01)
    assert not has_watcher or not Path(f"/proc/{watchers[0]}").exists()
