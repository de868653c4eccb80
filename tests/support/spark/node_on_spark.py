"""A node on Spark in a process of its own. Tells what it sees as lines of JSON, then waits to be killed or stopped."""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from pathlib import Path
from typing import Any

from demaq.server.node import Node
from tests.support.spark.listening import with_descendants

APPLICATION = """
declare function local:forever($n) { if ($n < 0) then $n else local:forever($n + 1) };
create queue in create queue out create queue errors
create property key as xs:string fixed queue in value string(/m/@key)
create slicing member on key
create rule answer for in if (/m) then do enqueue <n>{string(/m)}</n> into out
create rule endless for in errorqueue errors if (/m/@endless) then do enqueue <n>{local:forever(1)}</n> into out
create rule every for member if (count(qs:slice()) < 0) then do enqueue <never/> into out
"""


def say(**facts: Any) -> None:
    print(json.dumps(facts), flush=True)


def main(folder: Path, seconds: float) -> None:
    (folder / "app.dmq").write_text(APPLICATION)
    lines: list[str] = []
    node = Node(
        folder / "app.dmq",
        folder / "store",
        pipeline="spark",
        master="local[2]",
        rule_timeout_seconds=seconds,
        tell=lines.append,
    )
    node.start()
    from pyspark import SparkContext

    context = SparkContext._active_spark_context
    assert context is not None
    for number in range(20):
        node.enqueue("in", f"<m key='a'>{number}</m>")
    wait_for(node, 20)
    while not any([executor.tasks for executor in node.pipeline.executors]):  # Spark tells a little later
        time.sleep(0.05)
    say(
        step="running",
        master=context.master,
        status=node.read_status(),
        lines=lines,
        pids=with_descendants(os.getpid()),
    )
    node.enqueue("in", "<m key='b' endless=''>20</m>")
    node.enqueue("in", "<m key='c'>21</m>")
    wait_for(node, 21)
    say(step="endless", status=node.read_status(), pids=with_descendants(os.getpid()))
    if seconds < 10:
        wait_for(node, 22)
        [error] = [message.body for message in node.store.stored("errors", 0, 10)]
        say(step="error", error=error, out=[message.body for message in node.store.stored("out", 0, 100)])
        while node.pipeline.tasks < 3:
            time.sleep(0.05)
        node.enqueue("in", "<m key='d'>22</m>")
        wait_for(node, 23)
        began = time.monotonic()
        node.stop()
        say(step="stopped", seconds=time.monotonic() - began, left=with_descendants(os.getpid())[1:])
    sys.stdin.read()


def wait_for(node: Node, steps: int) -> None:
    end = time.monotonic() + 120
    while node.steps < steps:
        assert time.monotonic() < end, node.read_status()
        time.sleep(0.01)


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]), float(sys.argv[2]))
    except BaseException:
        traceback.print_exc()
        os._exit(1)  # threads that wait for an endless rule would keep it for as long
