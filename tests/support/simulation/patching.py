"""Let all of Demaq run in a simulation: its modules get stand-ins for threads, time, processes, disks and Spark."""

from __future__ import annotations

import random
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from demaq.engine.arrivals import Arrivals
from demaq.evaluation.workers import bare_worker, child, worker
from demaq.server import gateways, node_evaluators
from demaq.spark import pipeline
from demaq.store import sql_store
from demaq.store.sqlite_database import Database
from demaq.xml_name_count import NameCount
from tests.support.simulation.event_loop import EventLoops
from tests.support.simulation.faulty_store import Journal, make_builder, make_connect, make_pass, make_postpone
from tests.support.simulation.primitives import Clock, SimulatedExecutor, Synchronisation
from tests.support.simulation.scheduler import Scheduler
from tests.support.simulation.simulated_spark import SparkCluster
from tests.support.simulation.worker_processes import SimulatedWorker, WorkerProcesses, compile_once, load_once

PREEMPTED = (
    "demaq/batching.py",
    "demaq/outage_log.py",
    "demaq/engine/engine.py",
    "demaq/engine/round.py",
    "demaq/engine/slow_messages.py",
    "demaq/evaluation/native/ledger.py",
    "demaq/evaluation/workers/child.py",
    "demaq/evaluation/workers/pool.py",
    "demaq/evaluation/workers/process.py",
    "demaq/evaluation/workers/worker_connection.py",
    "demaq/evaluation/workers/worker_slot.py",
    "demaq/gateways/outbox/attempt_notes.py",
    "demaq/gateways/outbox/due_reader.py",
    "demaq/gateways/outbox/outbox.py",
    "demaq/gateways/outbox/outgoing_gateway.py",
    "demaq/gateways/outbox/text_loader.py",
    "demaq/server/gateways.py",
    "demaq/server/node.py",
    "demaq/server/node_operations.py",
    "demaq/server/node_thread.py",
    "demaq/server/subscribers.py",
    "demaq/spark/pipeline.py",
    "demaq/store/sql_store.py",
)
"""Files in which a thread may lose its turn at any line."""
KEPT = ("demaq.xml_parsers",)
"""Modules that keep the real threads: theirs are never seen by another one."""
START_MESSAGES = 3
"""So many messages make the pipeline start Spark."""


class NoSelfCheck:
    """Stands for the thread that compares native answers with Saxon's."""

    def __init__(self, check: object) -> None:
        pass

    def start(self) -> None:
        pass

    stop = close = start


@contextmanager
def simulated(
    scheduler: Scheduler, processes: WorkerProcesses, journal: Journal, cluster: SparkCluster, evaluators: int
) -> Iterator[None]:
    """Let Demaq run in a simulation until the end of the block."""
    with ExitStack() as patches:

        def replace(where: Any, name: str, value: object) -> None:
            patches.enter_context(patch.object(where, name, value))

        stand_ins = [
            (threading, Synchronisation(scheduler)),
            (time, Clock(scheduler)),
            (ThreadPoolExecutor, partial(SimulatedExecutor, scheduler)),
        ]
        for name, module in list(sys.modules.items()):
            if name.split(".")[0] == "demaq" and name not in KEPT:
                for attribute, value in list(vars(module).items()):
                    for real, stand_in in stand_ins:
                        if value is real:
                            replace(module, attribute, stand_in)
        replace(gateways, "asyncio", EventLoops(scheduler))
        replace(bare_worker, "socket", processes.socket)
        replace(bare_worker, "subprocess", processes.subprocess)
        replace(bare_worker, "signal", _NoSignals())
        replace(child, "SocketChannel", processes.connection)
        replace(child, "resident_bytes_of", processes.resident_bytes)
        replace(child, "cpu_seconds_of", lambda pid: None)
        replace(worker, "signal", _NoSignals())
        replace(worker, "SocketChannel", processes.connection)
        replace(worker, "socket", processes.socket)
        replace(worker, "Worker", SimulatedWorker)
        replace(worker, "load_program_texts", load_once)
        replace(worker, "compile_program", compile_once)
        replace(worker, "tune_gc", lambda objects: None)
        replace(sql_store, "CommitBuilder", make_builder(journal))
        replace(Arrivals, "_pass", make_pass(journal))
        replace(sql_store.SqlStore, "postpone", make_postpone(journal))
        replace(Database, "_connect", make_connect(journal))
        replace(node_evaluators, "SelfCheckThread", NoSelfCheck)
        replace(node_evaluators, "start_spark", cluster.start)
        replace(node_evaluators, "EvaluatorTasks", cluster.tasks)
        replace(node_evaluators, "evaluators_here", lambda: evaluators)
        replace(node_evaluators, "slow_lanes_here", lambda: max(1, evaluators - 1))
        replace(pipeline, "START_MESSAGES", START_MESSAGES)
        # Compiled programs live longer than a run: after enough texts of earlier runs their counts would begin to draw.
        replace(NameCount, "look_at", lambda names, text, may_declare=True: None)
        before = random.getstate()
        random.seed(scheduler.chance.random())  # back-off has jitter
        try:
            yield
        finally:
            random.setstate(before)


class _NoSignals(SimpleNamespace):
    """Stands for the module `signal` in threads, which must not set handlers."""

    SIGINT = SIGTERM = SIGHUP = SIG_IGN = SIG_BLOCK = SIG_SETMASK = 0

    def signal(self, number: int, handler: object) -> None:
        pass

    def alarm(self, seconds: int) -> None:
        pass

    def pthread_sigmask(self, how: int, mask: object) -> None:
        pass
