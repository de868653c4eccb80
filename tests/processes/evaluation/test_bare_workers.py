"""Workers that are launched before their program is known are used first, and end with the process that launched them."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

from demaq.evaluation.workers import bare_worker
from demaq.evaluation.workers.process import ProcessEvaluator
from demaq.store.sqlite import SqliteStore

ENDED_SECONDS_MAX = 60.0


def test_a_worker_that_was_launched_ahead_gets_the_program(tmp_path: Path) -> None:
    SqliteStore(tmp_path / "store").close()
    bare_worker.launch_ahead(1)
    launched = bare_worker._launched[0].process.pid
    with closing(ProcessEvaluator({"a.dmq": "create queue a"}, tmp_path / "store")) as first:
        first.start()
        assert first.pid == launched
        with closing(first.twin()) as second:
            second.start()
            assert second.pid not in (None, launched)


def test_one_that_gets_no_program_ends_with_the_process_that_launched_it() -> None:
    program = (
        "from demaq.evaluation.workers import bare_worker as b; b.launch_ahead(1); print(b._launched[0].process.pid)"
    )
    done = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True, check=True)
    until = time.monotonic() + ENDED_SECONDS_MAX
    while _runs(int(done.stdout)):
        assert time.monotonic() < until, "it goes on"
        time.sleep(0.05)


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
