"""A whole node under one seed: its threads, worker processes, pipeline and outbox, clients, faults and restarts."""

from __future__ import annotations

import contextlib
import logging
import os
import random
import tempfile
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar
from unittest.mock import patch

from demaq.errors import MessageError, OperatorError
from demaq.evaluation.saxon.saxon_evaluator import SaxonEvaluator
from demaq.gateways.settings import OutgoingSettings, Settings
from demaq.outage_log import OutageLog
from demaq.server.gateways import Gateways
from demaq.server.node import Node
from demaq.store import SqliteStore
from tests.support.simulation.applications import Simulated
from tests.support.simulation.clients import Clients, Unknown
from tests.support.simulation.faulty_store import Entry, Journal, StoreFaults
from tests.support.simulation.node_applications import choose
from tests.support.simulation.node_history import NodeHistory
from tests.support.simulation.observation import count_work, fail_on_errors
from tests.support.simulation.patching import PREEMPTED, simulated
from tests.support.simulation.receiver import Receiver, ReceiverFaults
from tests.support.simulation.scheduler import Scheduler, SimulationFailed
from tests.support.simulation.simulated_spark import SparkCluster, SparkFaults
from tests.support.simulation.worker_processes import (
    RULE_TIMEOUT_SECONDS,
    Fate,
    WorkerProcesses,
    compile_once,
    load_once,
)
from tests.support.store.consistency import assert_consistent

T = TypeVar("T")

START = datetime(2026, 1, 1, tzinfo=UTC)
HOPS_MAX = 6
SETTLE_SECONDS_MAX = 20.0
"""Without faults all is done after so long; a wake-up that was lost would be noticed by a node after 30 or 60 s."""
PROBE_SECONDS_MAX = 12.0
"""The same for few messages that come to an idle node; processes may have to start."""
STOP_SECONDS_MAX = 120.0
NAME = "application.dmq"
OUTGOING = OutgoingSettings(
    connections=2,
    attempts=12,
    retry_first_seconds=0.2,
    retry_seconds_max=2.0,
    timeout_seconds=1.0,
    breaker_failures=3,
    breaker_pause_seconds=2.0,
)


class SimulatedNode:
    """One run. `counts` says what happened in it."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.seed = seed
        self._chance = chance = random.Random(seed)
        self.application: Simulated = choose(seed, chance)
        self._folder = folder
        self._scheduler = scheduler = Scheduler(chance, PREEMPTED)
        self._worker_faults = Fate()
        self._store_faults = StoreFaults()
        self._receiver_faults = ReceiverFaults()
        self._spark_faults = SparkFaults()
        self._journal = Journal(scheduler, self._store_faults)
        self._processes = WorkerProcesses(scheduler, self._worker_faults)
        self._cluster = SparkCluster(scheduler, self._spark_faults)
        self._compiled = compile_once(load_once({NAME: self.application.text}))
        self._history = NodeHistory(SaxonEvaluator(self._compiled), self._journal, START, HOPS_MAX)
        self._clock_offset = 0.0
        self._nodes = 0
        self._node: Node | None = None
        self._gateways: Gateways | None = None
        self._group: object = None
        self.counts: Counter[str] = Counter()
        self._evaluators = chance.choice((1, 2, 3))
        self._pipeline: Any = chance.choice(("inline", "auto", "auto", "spark"))
        self._evaluator: Any = chance.choice(("auto", "auto", "saxon"))
        self._keep = chance.choice((timedelta(0), timedelta(0), timedelta(seconds=30)))
        self._round_size = chance.choice((2, 3, 5, 50))
        mailboxes = [
            name
            for name, queue in self._compiled.plan.program.queues.items()
            if queue.kind in ("basic", "incomingGateway") and not self._compiled.plan.queues[name].rules
        ]
        calls = self._history.calls
        self._clients = Clients(scheduler, self.application, mailboxes, self._call, calls, self.counts)

    @property
    def trace(self) -> str:
        """A digest of every decision and commit of the run."""
        return self._scheduler.trace

    def run(self) -> None:
        """Run it, and check what happened. Raises AssertionError."""
        scheduler = self._scheduler
        try:
            with (
                simulated(scheduler, self._processes, self._journal, self._cluster, self._evaluators),
                count_work(self.counts),
                fail_on_errors(scheduler),
            ):
                scheduler.run(self._live)
                self._processes.kept.clear()
            self._history.check_calls()
            self._history.check_deliveries()
            with contextlib.closing(SqliteStore(self._folder / "store")) as store:
                assert_consistent(store)
        except AssertionError as error:
            raise SimulationFailed(f"seed {self.seed}, application {self.application.name}: {error}") from error
        finally:
            self._processes.kept.clear()
        self._count()

    # the run

    def _live(self) -> None:
        chance = self._chance
        (self._folder / NAME).write_text(self.application.text)
        self._open()
        for _ in range(chance.choice((1, 2, 2, 3))):
            self._break_things()
            self._clients.busy = chance.choice((1, 2, 3, 4))
            for number in range(self._clients.busy):
                self._scheduler.start(self._clients.send_and_take, f"client-{number}", None)
            while self._clients.busy:
                self._scheduler.sleep(chance.choice((0.01, 0.1, 0.5, 1.0)))
                self._disturb()
            self._repair_things()
            self._settle(SETTLE_SECONDS_MAX)
            for _ in range(chance.choice((0, 3, 8))):
                self._probe()
        self._stop(drain=chance.random() < 0.7)
        self._check()

    def _break_things(self) -> None:
        """Draw which kinds of faults there are for a while, and how often."""
        chance = self._chance

        def share(often: float) -> float:
            return chance.choice((0.0, 0.0, 0.1, 0.5, 1.0)) * often

        worker, store, other, spark = (
            self._worker_faults,
            self._store_faults,
            self._receiver_faults,
            self._spark_faults,
        )
        worker.dies, worker.hangs, worker.grows = share(0.3), share(0.2), share(0.1)
        worker.fails_to_start, worker.store_fails, worker.is_replaced = share(0.2), share(0.1), share(0.2)
        store.full, store.busy, store.lost, store.unread = share(0.2), share(0.1), share(0.2), share(0.01)
        other.unreachable, other.unavailable, other.refused = share(0.5), share(0.5), share(0.1)
        other.silent, other.forgotten = share(0.3), share(0.5)
        spark.jobs, spark.tasks, spark.starts = share(0.3), share(0.3), share(0.5)

    def _repair_things(self) -> None:
        for faults in (self._worker_faults, self._store_faults, self._receiver_faults, self._spark_faults):
            faults.calm()

    def _disturb(self) -> None:
        chance = self._chance
        what = chance.choice(("nothing", "nothing", "advance", "collect", "status", "crash", "stop", "calm", "break"))
        self._scheduler.note(what)
        if what == "advance":
            self._clock_offset += chance.choice((0.5, 2.0, 5.0, 3600.0))
        elif what == "collect":
            self._try(lambda node: node.collect_garbage())
        elif what == "status":
            self._try(lambda node: node.read_status())
        elif what == "crash" and chance.random() < 0.5:
            self._crash()
            self._open()
        elif what == "stop" and chance.random() < 0.5:
            self._stop(drain=chance.random() < 0.5)
            self._check()
            self._open()
        elif what == "calm":
            self._repair_things()
        elif what == "break":
            self._break_things()

    def _try(self, act: Callable[[Node], object]) -> None:
        with contextlib.suppress(OperatorError, Unknown):
            self._call(act)

    # life of a node

    def _open(self) -> None:
        """Start a node, as an operator who tries again until that works."""
        self._group = self._scheduler.group = object()
        self._nodes += 1
        self._journal.entries.append(Entry("restarted"))
        while True:
            try:
                node = self._scheduled(self._make)
                break
            except OperatorError:
                self._scheduler.sleep(1.0)
        self._node = node

    def _make(self) -> Node:
        scheduler, number = self._scheduler, self._nodes
        node = Node(
            self._folder / NAME,
            self._folder / "store",
            keep=self._keep,
            rule_timeout_seconds=RULE_TIMEOUT_SECONDS,
            clock=self._clock,
            hops_max=HOPS_MAX,
            pipeline=self._pipeline,
            evaluator=self._evaluator,
            check_every=0,
        )
        node._thread.outages = OutageLog(logging.getLogger("demaq.node"), lambda: scheduler.now)
        node.engine.round_messages_least = 1
        node.engine.round_messages_max = node.engine._round_messages = self._round_size
        receiver = Receiver(
            scheduler, self._receiver_faults, lambda: len(self._journal.entries), number, self._history.attempts
        )
        with patch.object(Gateways, "_http_sender", lambda gateways: receiver):
            gateways = Gateways(node, Settings(outgoing_default=OUTGOING))
            try:
                gateways.start()
            except OperatorError:  # as `demaq run` does, so that the store is free for the next attempt
                self.counts["gateways not started"] += 1
                node.stop()
                raise
        node.start()
        self._gateways = gateways
        return node

    def _clock(self) -> datetime:
        return START + timedelta(seconds=self._scheduler.now - 1000.0 + self._clock_offset)

    def _stop(self, drain: bool) -> None:
        node, gateways = self._node, self._gateways
        assert node is not None
        assert gateways is not None
        self._count_rounds(node)
        self.counts["stops"] += 1
        self.counts["stops with drain"] += drain

        def stop(node: Node) -> None:
            gateways.stop_receiving()
            node.stop(drain)

        began = self._scheduler.now
        self._call(stop)
        if self._scheduler.now - began > STOP_SECONDS_MAX:
            raise SimulationFailed(f"stopping has taken {self._scheduler.now - began:.0f} s")
        self._node = None
        group = self._group
        if not self._scheduler.wait(lambda: not self._scheduler.tasks_of(group), SETTLE_SECONDS_MAX):
            raise SimulationFailed(
                f"left after the stop: {self._scheduler.tasks_of(group)}\n{self._scheduler.stacks()}"
            )

    def _crash(self) -> None:
        """As kill -9: all threads and worker processes are gone, and what was not committed."""
        node = self._node
        assert node is not None
        self._node = None
        self._count_rounds(node)
        self.counts["crashes"] += 1
        self.counts["crashes in flight"] += any(
            [attempt.ended is None and attempt.node == self._nodes for attempt in self._history.attempts]
        ) or bool(node.engine._begun)
        self._journal.is_dead = True
        self._scheduler.vanish(self._scheduler.tasks_of(self._group))
        database: Any = node.store._database
        if database._connection is not None:
            database._connection.close()
        if database._mark is not None:
            os.close(database._mark._file)
        store: Any = node.store
        store._lock.release()
        self._journal.is_dead = False
        self._check()

    def _check(self) -> None:
        def check() -> None:
            self._processes.kept.clear()
            self._journal.is_examined = True
            with contextlib.closing(SqliteStore.open_readonly(self._folder / "store")) as store:
                self._history.follow(store)
            self._journal.is_examined = False

        self._scheduler.in_main(check)

    def _probe(self) -> None:
        """Let few messages come at nearly the same time, and nothing after them: a lost wake-up delays them."""
        self._clients.busy = 2
        for number in range(2):
            self._scheduler.start(self._clients.send_one, f"probe-{number}", None)
        self._scheduler.wait(lambda: not self._clients.busy)
        self._settle(PROBE_SECONDS_MAX)

    def _settle(self, seconds: float) -> None:
        """Wait until all that can be done now is done, at most so long."""
        until = self._scheduler.now + seconds

        def is_idle(node: Node) -> bool:
            due = node.store.next_due()
            is_quiet = not node.engine.backlog() and not node.store.sendings()
            return is_quiet and (due is None or due > self._clock())

        while not self._call(is_idle):
            if self._scheduler.now > until:
                found = self._call(lambda node: f"{node.store.pending(10)} {node.store.sendings()} {node.fault}")
                raise SimulationFailed(f"nothing happens: {found}\n{self._scheduler.stacks()}")
            self._scheduler.sleep(0.25)

    # calls into the node

    def _call(self, act: Callable[[Node], T]) -> T:
        """Call the node in a thread of its process. Raises Unknown if the node is killed meanwhile."""
        self._scheduler.wait(lambda: self._node is not None)
        node = self._node
        assert node is not None
        return self._scheduled(lambda: act(node))

    def _scheduled(self, act: Callable[[], T]) -> T:
        results: list[T] = []
        errors: list[Exception] = []

        def run() -> None:
            try:
                results.append(act())
            except (OperatorError, MessageError) as error:
                errors.append(error)

        task = self._scheduler.start(run, "call", self._group)
        self._scheduler.wait(lambda: task.is_done)
        if errors:
            raise errors[0]
        if not results:
            raise Unknown
        return results[0]

    # counting

    def _count_rounds(self, node: Node) -> None:
        self.counts["Spark: rounds"] += node.pipeline.counts.spark_rounds
        self.counts["inline rounds"] += node.pipeline.counts.inline_rounds

    def _count(self) -> None:
        counted = {
            "worker": self._worker_faults.counts,
            "store": self._store_faults.counts,
            "receiver": self._receiver_faults.counts,
            "Spark": self._spark_faults.counts,
        }
        for kind, counts in counted.items():
            self.counts.update({f"{kind}: {what}": times for what, times in counts.items()})
        entries = self._journal.entries
        self.counts["steps"] += sum([entry.step is not None for entry in entries])
        self.counts["folded"] += sum([entry.step is not None and entry.step.elided > 0 for entry in entries])
        self.counts["arrivals"] += sum([entry.message is not None for entry in entries])
        self.counts["deliveries"] += sum([attempt.is_accepted for attempt in self._history.attempts])
        seqs = [attempt.seq for attempt in self._history.attempts]
        self.counts["retried deliveries"] += len(seqs) - len(set(seqs))
        self.counts["switches"] += self._scheduler.switches


def run_seed_in_memory(seed: int) -> SimulatedNode:
    """Run one seed on a store in memory, if there is a file system for that."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        run = SimulatedNode(seed, Path(folder))
        run.run()
        return run
