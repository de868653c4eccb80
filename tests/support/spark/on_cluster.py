"""A node on a cluster and a server, in a process of its own, while parts of the cluster are killed.

Tells what it sees as lines of JSON.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from demaq_bench.demo.procurement import APPLICATION, check
from demaq_bench.workloads import RESTRICTIONS, invoices, request_message
from pyspark.sql import SparkSession

from demaq.server.node import Node
from demaq.spark import jobs
from demaq.spark.jobs import run_tasks

REQUESTS = 300
"""For each thing that is killed."""
TRIES_MAX = 10
"""So often a task may be over before what it needs is killed."""
SECONDS_MAX = 120.0
PATIENCE_SECONDS = 120.0
"""For executors that start on a machine that is busy with other tests."""


def say(**facts: object) -> None:
    print(json.dumps(facts), flush=True)


def whereabouts(data: bytes) -> bytes:
    """What a task finds, far from the driver."""
    import demaq
    from demaq.store.sql_statements import load_statements

    time.sleep(1)  # so that no executor takes both tasks
    return json.dumps([demaq.__file__, os.getcwd(), len(load_statements("sqlite", "reads"))]).encode()


class Traffic:
    """Requests through a node, some at a time."""

    def __init__(self, node: Node, session: SparkSession, workers: list[int]) -> None:
        self.node = node
        self.session = session
        self.workers = workers
        self.sent = 0
        node.load_collection("restrictions", [RESTRICTIONS])
        node.enqueue_all("invoices", list(invoices()))

    def run(self, what: str, kill: Callable[[], None] | None = None, until_lost: bool = False) -> None:
        """Let requests be answered, and kill something while tasks run, if need be again until one is lost by it."""
        spark: Any = self.node.pipeline._spark
        before = self.node.pipeline.counts.spark_rounds, spark.lost_tasks
        started = time.monotonic()
        for _ in range(TRIES_MAX):
            self._run_some(what, kill, before[1])
            if not until_lost or spark.lost_tasks > before[1]:
                break
        rounds = self.node.pipeline.counts.spark_rounds - before[0]
        seconds = round(time.monotonic() - started, 1)
        say(step=what, rounds=rounds, lost=spark.lost_tasks - before[1], seconds=seconds, why=self.node.pipeline.why)

    def _run_some(self, what: str, kill: Callable[[], None] | None, lost: int) -> None:
        numbers = range(self.sent, self.sent + REQUESTS)
        self.sent = numbers.stop
        killer = threading.Thread(target=self._kill, args=(kill, lost, numbers.stop), daemon=True)
        killer.start()
        self.node.enqueue_all("crm", [request_message(number) for number in numbers])
        started = time.monotonic()
        while self.answers() < numbers.stop or self.node.store.pending(1):
            assert time.monotonic() - started < SECONDS_MAX, f"{what}: {self.node.read_status()}"
            time.sleep(0.05)
        killer.join()

    def answers(self) -> int:
        return self.node.store.counts().get("customer", (0, 0))[0]

    def _kill(self, kill: Callable[[], None] | None, lost: int, requests: int) -> None:
        spark: Any = self.node.pipeline._spark
        tracker = self.session.sparkContext.statusTracker()
        while kill is not None and spark.lost_tasks == lost and self.answers() < requests:
            running = tracker.getActiveJobsIds()
            if running:
                kill()
            while set(running) & set(tracker.getActiveJobsIds()):
                time.sleep(0.05)
            time.sleep(0.005)

    # what there is to kill

    def end_python_workers(self) -> None:
        for executor in children(self.workers[0]):
            for daemon in children(executor):
                end(*children(daemon))

    def end_executor(self) -> None:
        end(*children(self.workers[0]))

    def end_worker(self) -> None:
        end(self.workers[0])

    def end_all(self) -> None:
        """An executor may outlive its worker, and serves the node on."""
        end(*self.workers, *executors_of(self.session.sparkContext.getConf().get("spark.driver.port")))


def children(pid: int) -> list[int]:
    try:
        return [
            int(child)
            for task in Path(f"/proc/{pid}/task").iterdir()
            for child in (task / "children").read_text().split()
        ]
    except OSError:
        return []


def executors_of(driver_port: str | None) -> list[int]:
    """All executors of one driver: their command lines say which it is."""
    found: list[int] = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            command = (process / "cmdline").read_text()
            if "CoarseGrainedExecutorBackend" in command and f":{driver_port}\0" in command:
                found.append(int(process.name))
    return found


def end(*pids: int) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def main(url: str, address: str, options: dict[str, str], workers: list[int]) -> None:
    jobs.IDLE_SECONDS_MAX = PATIENCE_SECONDS
    node = Node(APPLICATION, address, pipeline="spark", master=url, spark_options=options)
    session = SparkSession.getActiveSession()
    assert session is not None
    answers = run_tasks(session, [b"", b""], whereabouts)
    say(step="whereabouts", answers=[json.loads(answer) for answer in answers])
    node.start()
    traffic = Traffic(node, session, workers)
    traffic.run("undisturbed")
    traffic.run("python worker", traffic.end_python_workers, until_lost=True)
    traffic.run("executor", traffic.end_executor, until_lost=True)
    traffic.run("worker", traffic.end_worker)
    jobs.IDLE_SECONDS_MAX = jobs.LOOK_SECONDS = 1.0
    traffic.end_all()
    traffic.run("cluster")
    kinds, problems = check(node.store, traffic.sent)
    say(step="checked", answers=sum(kinds.values()), sent=traffic.sent, problems=problems, folder=str(node.folder))
    node.stop()
    say(step="closed", imported_from_archive=any(path.endswith(".zip") and "demaq" in path for path in sys.path))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], json.loads(sys.argv[3]), json.loads(sys.argv[4]))
