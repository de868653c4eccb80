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
from demaq_bench.offer_requests import RESTRICTIONS, invoices, request_message
from pyspark.sql import SparkSession

from demaq.server.node import Node
from demaq.spark import evaluator_tasks
from demaq.spark.jobs import run_tasks

REQUESTS = 300
"""For each thing that is killed."""
TASKS = 3
"""Of a node on two workers with two cores each."""
TRIES_MAX = 10
"""So often what is killed may have had no task."""
SECONDS_MAX = 120.0
PATIENCE_SECONDS = 120.0
"""For executors that start on a machine that is busy with other tests."""


def say(**facts: object) -> None:
    print(json.dumps(facts), flush=True)


def whereabouts(data: bytes) -> bytes:
    """What a task finds, far from the driver."""
    import demaq
    from demaq.store.sql_statements import load_statements

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

    def run(self, what: str, kill: Callable[[], None] | None = None) -> None:
        """Let requests be answered, and kill something meanwhile until the node has lost a task by it."""
        rounds, lost = self.node.pipeline.counts.spark_rounds, 0
        started = time.monotonic()
        for _ in range(TRIES_MAX):
            before = self.tasks()
            self._run_some(what, kill)
            lost = len(before - self.tasks())
            if kill is None or lost:
                break
        if kill is not None:
            self._wait(lambda: self.node.pipeline.tasks == TASKS, what)
            self._run_some(what, None)
        rounds = self.node.pipeline.counts.spark_rounds - rounds
        seconds = round(time.monotonic() - started, 1)
        say(step=what, rounds=rounds, lost=lost, seconds=seconds, why=self.node.pipeline.why)

    def tasks(self) -> set[object]:
        """The tasks that the node knows."""
        spark: Any = self.node.pipeline._spark
        return set(spark._listener._workers)

    def _run_some(self, what: str, kill: Callable[[], None] | None) -> None:
        numbers = range(self.sent, self.sent + REQUESTS)
        self.sent = numbers.stop
        killer = threading.Timer(0.1, kill or (lambda: None))
        killer.start()
        for number in numbers:  # one by one, so that they are not over before something is killed
            self.node.enqueue("crm", request_message(number))
        self._wait(lambda: self.answers() == numbers.stop and not self.node.store.pending(1), what)
        killer.join()

    def _wait(self, condition: Callable[[], bool], what: str) -> None:
        started = time.monotonic()
        while not condition():
            assert time.monotonic() - started < SECONDS_MAX, f"{what}: {self.node.read_status()}"
            time.sleep(0.05)

    def answers(self) -> int:
        return self.node.store.counts().get("customer", (0, 0))[0]

    # what there is to kill

    def python_workers(self, worker: int) -> list[int]:
        """The Python workers of all executors of a worker."""
        daemons = [daemon for executor in children(worker) for daemon in children(executor)]
        return [process for daemon in daemons for process in children(daemon)]

    def end_python_workers(self) -> None:
        end(*self.python_workers(self.workers[0]))

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
    evaluator_tasks.IDLE_SECONDS_MAX = PATIENCE_SECONDS
    node = Node(APPLICATION, address, pipeline="spark", master=url, spark_options=options)
    session = SparkSession.getActiveSession()
    assert session is not None
    traffic = Traffic(node, session, workers)
    traffic._wait(lambda: node.pipeline.tasks == TASKS, "start")
    spread = [len(traffic.python_workers(worker)) for worker in workers]
    (answer,) = run_tasks(session, [b""], whereabouts)  # on the core that has no task
    say(step="whereabouts", answer=json.loads(answer), spread=spread)
    node.start()
    traffic.run("undisturbed")
    traffic.run("python worker", traffic.end_python_workers)
    traffic.run("executor", traffic.end_executor)
    traffic.end_worker()
    traffic.run("worker")
    evaluator_tasks.IDLE_SECONDS_MAX = 1.0
    traffic.end_all()
    traffic._wait(lambda: node.pipeline.fault is not None, "cluster")
    traffic.run("cluster")
    kinds, problems = check(node.store, traffic.sent)
    say(step="checked", answers=sum(kinds.values()), sent=traffic.sent, problems=problems, folder=str(node.folder))
    node.stop()
    say(step="closed", imported_from_archive=any(path.endswith(".zip") and "demaq" in path for path in sys.path))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], json.loads(sys.argv[3]), json.loads(sys.argv[4]))
