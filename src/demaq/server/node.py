"""A node: one application on one store, processing messages as they come, until it is stopped.

    node = Node("orders.dmq", store="orders")
    node.start()
    node.subscribe("customer", print)
    node.enqueue("orders", "<order id='1'/>")
    node.stop()

One thread processes messages and fires timers (`node_thread.py`). Calls from outside run meanwhile in the thread of
the caller; only what must not happen in the middle of a round waits for its end. What operators ask for is in
`node_operations.py`.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from demaq.compiler.plan import Plan
from demaq.compiler.planner import make_plan
from demaq.engine.engine import HOPS_MAX, Engine
from demaq.engine.error_routing import kind_of
from demaq.engine.intake import IncomingMessage, expect_queue
from demaq.engine.migration.migrate_store import migrate_store
from demaq.engine.round import THROUGHPUT, RoundPolicy
from demaq.engine.sampling import Sampler
from demaq.engine.step_spans import StepSpans
from demaq.errors import OperatorError
from demaq.evaluation.native.native_settings import CHECK_EVERY, EvaluatorName, NativeSettings, native_settings
from demaq.evaluation.quick_evaluator import QuickEvaluator
from demaq.evaluation.workers.process import (
    RULE_MEMORY_BYTES,
    RULE_MEMORY_BYTES_MIN,
    RULE_TIMEOUT_SECONDS,
    RULE_TIMEOUT_SECONDS_MAX,
    RULE_TIMEOUT_SECONDS_MIN,
)
from demaq.language.loader import load_program
from demaq.language.program.program import Program
from demaq.operations.audit import name_of_operator
from demaq.operations.json_values import as_json
from demaq.operations.pause import list_pauses
from demaq.outage_log import OutageLog
from demaq.quantities import SampleRate
from demaq.server.message_watch import Watches
from demaq.server.node_evaluators import NodeEvaluators, SparkWish
from demaq.server.node_operations import AttachedGateways, NodeOperations
from demaq.server.node_thread import NodeThread
from demaq.server.subscribers import Subscribers
from demaq.server.telemetry import Telemetry
from demaq.spark.master import MASTER_DEFAULT, is_local
from demaq.spark.pipeline import PipelineName
from demaq.store.location import place_of
from demaq.store.opening import open_store
from demaq.store.operator_records import AuditRecord, PauseKind
from demaq.store.protocol import Committed, NewMessage, Step, StoredMessage
from demaq.system_properties import ERROR_LEVEL, SAMPLED

READ_PAGE = 1000
"""So many messages are read from the store at once for a caller that reads a queue."""

_log = logging.getLogger("demaq.node")

Paths = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]


class Node:
    """Runs an application on a store: stores messages, processes them in rounds, fires timers, collects garbage.

    One thread changes the state of messages, in turns; all other functions may be called from any thread.
    """

    def __init__(
        self,
        application: Paths | Program,
        store: str | os.PathLike[str],
        keep: timedelta = timedelta(0),
        rule_timeout_seconds: float = RULE_TIMEOUT_SECONDS,
        rule_memory_bytes: int | None = RULE_MEMORY_BYTES,
        clock: Callable[[], datetime] | None = None,
        hops_max: int = HOPS_MAX,
        discard: Sequence[str] = (),
        tell: Callable[[str], None] = lambda line: None,
        pipeline: PipelineName = "inline",
        master: str = MASTER_DEFAULT,
        spark_options: Mapping[str, str] | None = None,
        standby: bool = False,
        evaluator: EvaluatorName = "auto",
        check_every: int = CHECK_EVERY,
        keep_sample: SampleRate | None = None,
    ) -> None:
        """Check the application and open the store. Raises a ProgramError or a StoreError.

        `tell` gets what is different from the program that ran last; `discard` names queues that it has given up and
        whose messages may go with them. `pipeline` says where rules are evaluated: in local processes, by tasks on
        Spark at that `master`, or there as soon as there is much to do. With `standby`, wait for a store on a server
        whose writer is another node, and go on where that one ends. With the evaluator `saxon` no rule is evaluated
        natively; otherwise one in `check_every` native answers, and the first of each rule, are compared with Saxon's.
        With `keep_sample` only so many conversations are kept for the time `keep`, and these whole.
        """
        check_limits(rule_timeout_seconds, rule_memory_bytes, hops_max, keep)
        if keep_sample is not None and not keep:
            raise OperatorError("a sample is kept for as long as keep says, which says nothing")
        native = native_settings(evaluator, check_every)
        self.place = place_of(store)
        if pipeline != "inline" and not is_local(master) and not self.place.is_on_server:
            raise OperatorError(f"the store is a folder, which executors of {master} cannot read; use PostgreSQL")
        if standby and not self.place.is_on_server:
            raise OperatorError("a standby needs a store on PostgreSQL, and this one is a folder")
        self.program = application if isinstance(application, Program) else load_program(application)
        self._clock = clock or _utc_now
        self.folder = self.place.folder
        self._gateways = AttachedGateways()
        self._subscribers = Subscribers()
        self._watches = Watches()
        self.telemetry: Telemetry | None = None
        self.spans: StepSpans | None = None
        """Records what is processed, if telemetry is on."""
        self.errors: Counter[str] = Counter()
        """How many error messages were made of each kind, but for those about what was refused when it came."""
        self._removed_at_once = 0
        where = self.place.where
        self.store = open_store(where, wait=standby, now=self._clock, tell=tell)
        files = {str(Path(file).resolve()): text for file, text in self.program.files().items()}
        spark = SparkWish(pipeline=pipeline, master=master, options=spark_options, folder=self.folder / "spark")
        with contextlib.ExitStack() as opened:
            opened.callback(self.store.close)
            limits = rule_timeout_seconds, rule_memory_bytes
            self._evaluators = evaluators = NodeEvaluators(files, where, limits, native, spark, tell)
            opened.callback(evaluators.close)
            self.native, self.pipeline = evaluators.native, evaluators.pipeline
            plan = make_plan(self.program)
            is_quick = native.is_native and pipeline != "spark"  # which asks for everything to be evaluated there
            migrate_store(plan, evaluators.rules, self.store, self._clock, discard, tell, operator=name_of_operator())
            self.engine = Engine(
                plan,
                self.pipeline,
                self.store,
                self._clock,
                hops_max=hops_max,
                observe=self._note_commit,
                receiver=evaluators.receiver,
                policy=_choose_policy(keep, keep_sample),
                lanes=evaluators.lanes,
                wake=self.look_for_work,
                native=native.is_native,
                arrivals=self.pipeline,
                quick=self._make_quick(plan, native) if is_quick else None,
                is_running=lambda: self._thread.is_serving,
            )
            self.engine.factory.sampler = None if keep_sample is None else Sampler(keep_sample)
            self._opened = opened.pop_all()
        self._thread = NodeThread(
            self.engine,
            self.store,
            keep,
            self._clock,
            wake_gateways=self._wake_gateways,
            after_round=self._subscribers.call,
            launch_spares=evaluators.rules.launch_spares,
        )
        self._operations = NodeOperations(
            program=self.program,
            store=self.store,
            engine=self.engine,
            thread=self._thread,
            watches=self._watches,
            gateways=self._gateways,
            clock=self._clock,
        )
        self._started = self._clock()

    def _make_quick(self, plan: Plan, native: NativeSettings) -> QuickEvaluator:
        return QuickEvaluator(plan, self.store, self.native, native, may_read=not self.place.is_on_server)

    # life

    def start(self) -> None:
        """Begin to process, where it was left."""
        self._thread.start()
        self._evaluators.self_check.start()

    def stop(self, drain: bool = False) -> None:
        """Stop after the current round; with `drain` after the last message that can be processed now."""
        self._evaluators.self_check.stop()
        self._thread.ask_to_stop(drain)
        self._thread.join()
        self.engine.forget_ahead()
        for lane in self._evaluators.lanes:
            lane.stop()
        self.engine.slow_messages.leave()
        self._opened.close()

    def attach(
        self,
        wake: Callable[[], None],
        close: Callable[[], None],
        status: Callable[[], dict[str, Any]] | None = None,
        look_again: Callable[[], None] = lambda: None,
        note_purged: Callable[[Sequence[int]], None] = lambda seqs: None,
        metrics: Callable[[], str] = lambda: "",
    ) -> None:
        """Attach the gateways: `wake` is called when there may be something to send, `close` when the node stops.

        `close` is called after the last message was processed, before the store is closed. `status` returns their part
        of the status. `look_again` is called when what was sent before is to be sent again, `note_purged` with messages
        that were removed. `metrics` returns what `/metrics` says.
        """
        gateways = self._gateways
        gateways.metrics, gateways.status = metrics, status
        gateways.look_again, gateways.note_purged = look_again, note_purged
        gateways.wake = wake
        self._opened.callback(close)
        wake()

    def record_spans(self, telemetry: Telemetry) -> None:
        """Record spans of what is processed from now on. Called once, before the node and its gateways start."""
        self.telemetry = telemetry
        self._opened.callback(telemetry.close)
        self.spans = self.engine.record_spans(telemetry.recorder)

    def look_for_work(self) -> None:
        """Wake the node: there may be something to process."""
        self._thread.look_for_work()

    def look_for_arrivals(self) -> None:
        """Wake the node, unless all that has arrived was processed at once."""
        if self.engine.take_wish():
            self._thread.look_for_work()
            self._wake_gateways()

    def hurry(self) -> None:
        """Let a node that drains stop after the current round."""
        self._thread.hurry()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until the node has stopped by itself. Return whether it has."""
        return self._thread.wait(seconds)

    def wait_until_idle(self, seconds: float | None = None) -> bool:
        """Wait until all that was stored before this call, and all that came of it, is processed.

        Return whether it is; False if the time has passed before, or the node has stopped. Timers that are not due and
        messages that are to be sent are not waited for. Raises what made the node stop by itself.
        """
        return self._thread.wait_until_idle(seconds)

    @property
    def is_running(self) -> bool:
        return self._thread.is_running

    @property
    def failure(self) -> BaseException | None:
        """What made the node stop by itself."""
        return self._thread.failure

    @property
    def fault(self) -> str | None:
        """What keeps the node from going on, while it waits to try again."""
        return self._thread.fault

    @property
    def outage(self) -> str | None:
        """The text for senders while no message can be processed; None also if a fault is about one message."""
        return self._thread.outage

    @property
    def outages(self) -> OutageLog:
        return self._thread.outages

    @property
    def now(self) -> datetime:
        """What the node's clock says."""
        return self._clock()

    # messages

    def enqueue(
        self,
        queue: str,
        body: bytes | str,
        properties: Mapping[str, str] | None = None,
        request: str | None = None,
    ) -> int:
        """Store a message; durable on return. Raises a MessageError if it must be refused."""
        try:
            return self.engine.enqueue(queue, body, properties, request)
        finally:
            self.look_for_arrivals()

    def enqueue_all(self, queue: str, messages: Iterable[bytes | str | IncomingMessage]) -> list[int]:
        """Store messages, all or none, and return their numbers; durable on return.

        Each is a body, or an IncomingMessage with properties and a request. Raises a MessageError if one must be
        refused.
        """
        try:
            return self.engine.enqueue_all(queue, messages)
        finally:
            self.look_for_arrivals()

    def read_queue(self, queue: str, after: int = 0) -> Iterator[StoredMessage]:
        """Yield the messages that rules see in a queue, processed or not, in their order, after a number.

        They are read as they are asked for, a page at a time, so what changes meanwhile may be seen or not. Raises a
        MessageError if there is no such queue.
        """
        expect_queue(self.program, queue)
        return self._read_pages(queue, after)

    def _read_pages(self, queue: str, after: int) -> Iterator[StoredMessage]:
        while page := self.store.visible(queue, after, READ_PAGE):
            yield from page
            after = page[-1].seq

    def take(self, queue: str, limit: int = 1) -> list[StoredMessage]:
        """Hand messages of a mailbox to a client and mark them processed, in one transaction."""
        with self._thread.waking():  # there may be garbage
            return self.engine.take(queue, limit)

    def subscribe(self, queue: str, listener: Callable[[StoredMessage], None]) -> None:
        """Call back for every message that rules or timers put into a queue, after its commit."""
        expect_queue(self.program, queue)
        with self._thread.turn, self.engine.arrivals.excluded():
            # Subscribers get every message, also of a round that has begun.
            self.engine.policy = replace(self.engine.policy, fold=False)
            self.engine.forget_ahead()
            self._subscribers.add(queue, listener)

    # operators

    def append(self, messages: Sequence[NewMessage], digest: str, watch: str | None = None) -> list[bool]:
        """Store messages that were checked elsewhere under the program of this digest. Return which are new.

        One whose `request` is known already is not stored again. With `watch`, they are watched under that name.
        """
        return self._operations.append(messages, digest, watch)

    def watch(self, name: str, seqs: Sequence[int]) -> None:
        """Watch what becomes of messages, as far as they are still to be processed."""
        self._operations.watch(name, seqs)

    def read_watch(self, name: str) -> dict[str, Any]:
        """Return what has become of watched messages so far, and the current fault of the node, if any."""
        return self._operations.read_watch(name)

    def load_collection(self, name: str, documents: Sequence[bytes | str], entry: AuditRecord | None = None) -> int:
        """Replace a collection. Return its version. Raises a MessageError if it must be refused."""
        return self._operations.load_collection(name, documents, entry)

    def redeliver(self, messages: Sequence[int], entry: AuditRecord | None = None) -> None:
        """Send messages of outgoing gateways again, all or none. Raises an OperatorError if one cannot be."""
        self._operations.redeliver(messages, entry)

    def pause(self, kind: PauseKind, name: str, who: str, why: str = "") -> bool:
        """Pause a queue, a rule or a gateway, at once and for later runs. Return False if it was paused before.

        Raises an OperatorError if the application has no such part.
        """
        return self._operations.pause(kind, name, who, why)

    def resume(self, kind: PauseKind, name: str, who: str, why: str = "") -> bool:
        """Resume what was paused. Return False if it was not paused."""
        return self._operations.resume(kind, name, who, why)

    def purge(self, seqs: Sequence[int], entry: AuditRecord) -> tuple[list[int], int]:
        """Remove messages, whatever their state. Return which were removed, and the number of the audit record."""
        return self._operations.purge(seqs, entry)

    def note_audit(self, entry: AuditRecord) -> int:
        """Store an audit record, or store it again if it has a number. Return its number."""
        return self.store.note_audit(entry)

    def collect_garbage(self) -> int:
        """Remove everything that may be removed now."""
        return self._operations.collect_garbage()

    def read_status(self) -> dict[str, Any]:
        """Return what the node is doing, for operators."""
        pipeline, counts, gateways = self.pipeline, self.pipeline.counts, self._gateways.status
        return {
            "pid": os.getpid(),
            "started": self._started.isoformat(timespec="seconds"),
            "processed": self.steps,
            "waiting": self.engine.backlog(),
            "pipeline": pipeline.name,
            "rounds": {"inline": counts.inline_rounds, "spark": counts.spark_rounds},
            "messages": {"inline": counts.inline_messages, "spark": counts.spark_messages},
            "tasks": pipeline.tasks,
            "executors": [asdict(executor) for executor in pipeline.executors],
            "why": pipeline.why,
            "apart": {"messages": len(self.engine.slow_messages), "queues": list(self.engine.slow_messages.suspected)},
            "fault": self.fault,
            "paused": as_json(list_pauses(self.store, self.engine.plan)),
            "unmatched": self.engine.namespaces.ignored.copy(),
            "native": self.native.status(),
            "namespaces": list(self.engine.namespaces.reports.values()),
            "gateways": gateways() if gateways is not None else None,
        }

    status = read_status

    def read_metrics(self) -> str:
        """Return what `/metrics` says, for the console; the empty text if there are no gateways."""
        return self._gateways.metrics()

    @property
    def steps(self) -> int:
        """How many messages were processed."""
        return self._thread.steps + self.engine.arrivals.processed

    @property
    def removed(self) -> int:
        """How many messages were removed."""
        return self._thread.removed + self._removed_at_once

    @property
    def evaluators_replaced(self) -> int:
        """How many processes had to be replaced because of what they were asked to evaluate."""
        return self._evaluators.replaced

    @property
    def evaluator_pids(self) -> dict[str, int | None]:
        """The worker processes: of rules, and of messages from outside."""
        return self._evaluators.pids

    # called by the engine

    def _note_commit(self, steps: Sequence[Step], committed: Sequence[Committed]) -> None:
        self._watches.committed(steps, committed)
        if self.engine.policy.elide:  # what is done with is removed at once
            first = committed[0].number
            self._removed_at_once += sum([seq < first for done in committed for seq in done.retired])
        is_sent = False
        for step in steps:
            for new in step.created:
                is_sent = is_sent or new.undelivered
                if new.properties and ERROR_LEVEL in new.properties:
                    self._note_error(new)
        if is_sent:
            self._wake_gateways()
        if self._subscribers:
            self._subscribers.note(steps, committed)
            self._thread.look_for_work()  # another thread may have committed them, and that one calls

    def _note_error(self, new: NewMessage) -> None:
        kind = kind_of(new.body)
        if kind is not None:
            self.errors[kind] += 1
            if _log.isEnabledFor(logging.INFO):
                self._log_error(new, kind)

    def _log_error(self, new: NewMessage, kind: str) -> None:
        about = "a message" if new.trigger is None else f"message {new.trigger}"
        rule = "" if new.rule is None else f" of rule {new.rule}"
        trace = {}
        if self.spans is not None and new.origin is not None:
            trace["trace_id"] = self.spans.recorder.context_of(new.properties, new.origin).trace_id
        _log.info("%s%s about %s, in queue %s", kind, rule, about, new.queue, extra=trace)

    def _wake_gateways(self) -> None:
        self._gateways.wake()


def check_limits(seconds: float, memory: int | None, hops: int, keep: timedelta) -> None:
    """Raises an OperatorError if a limit is no number, or one that nothing could keep to."""
    if not RULE_TIMEOUT_SECONDS_MIN <= seconds <= RULE_TIMEOUT_SECONDS_MAX:  # nan is in no range
        least, most = f"{RULE_TIMEOUT_SECONDS_MIN:g}", f"{RULE_TIMEOUT_SECONDS_MAX:,g}"
        raise OperatorError(f"{seconds} is no time limit for rules: it is a number of seconds from {least} to {most}")
    if memory is not None and not memory >= RULE_MEMORY_BYTES_MIN:
        raise OperatorError(f"{memory} is no memory limit for rules: it is at least {RULE_MEMORY_BYTES_MIN:,} bytes")
    if hops < 1:
        raise OperatorError(f"{hops} is no limit of hops: it is at least 1")
    if keep < timedelta(0):
        raise OperatorError("messages cannot be kept for less than no time")


def _choose_policy(keep: timedelta, keep_sample: SampleRate | None) -> RoundPolicy:
    if not keep:
        return THROUGHPUT
    if keep_sample is not None:
        return replace(THROUGHPUT, elide=SAMPLED)
    return replace(THROUGHPUT, elide=False, fold=False)


def _utc_now() -> datetime:
    return datetime.now(UTC)
