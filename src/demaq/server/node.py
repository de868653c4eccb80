"""A node: one application on one store, processing messages as they come, until it is stopped.

    node = Node("orders.dmq", store="orders")
    node.start()
    node.subscribe("customer", print)
    node.enqueue("orders", "<order id='1'/>")
    node.stop()

One thread processes messages and fires timers. Calls from outside run meanwhile in the thread of the caller; only
what must not happen in the middle of a round waits for its end.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from demaq.backoff import Backoff
from demaq.compiler.planner import make_plan
from demaq.engine.collection_documents import collection_texts
from demaq.engine.engine import HOPS_MAX, Engine
from demaq.engine.error_routing import kind_of
from demaq.engine.intake import IncomingMessage, expect_program, expect_queue
from demaq.engine.migration.migrate_store import migrate_store
from demaq.engine.round import THROUGHPUT, RoundPolicy
from demaq.engine.sampling import Sampler
from demaq.engine.step_spans import StepSpans
from demaq.errors import OperatorError, StoreDamaged, StoreTakenOver, SystemFault
from demaq.evaluation.native.ledger import NativeLedger
from demaq.evaluation.native.native_settings import CHECK_EVERY, EvaluatorName, native_settings
from demaq.evaluation.workers.child import Spares, Start
from demaq.evaluation.workers.pool import EvaluatorPool, evaluators_here, slow_lanes_here
from demaq.evaluation.workers.process import (
    RULE_MEMORY_BYTES,
    RULE_MEMORY_BYTES_MIN,
    RULE_TIMEOUT_SECONDS,
    RULE_TIMEOUT_SECONDS_MAX,
    RULE_TIMEOUT_SECONDS_MIN,
    ProcessEvaluator,
)
from demaq.evaluation.workers.receiver import Receiver
from demaq.evaluation.workers.worker_connection import WaitingWorkers
from demaq.language.loader import load_program
from demaq.language.program.program import Program
from demaq.operations.audit import name_of_operator
from demaq.operations.json_values import as_json
from demaq.operations.pause import describe_resumption, expect_part, list_pauses, make_pause
from demaq.outage_log import OVER_AFTER_SECONDS, OutageLog
from demaq.quantities import SampleRate
from demaq.server.idle_monitor import IdleMonitor
from demaq.server.message_watch import Watch
from demaq.server.redelivery import send_again
from demaq.server.self_check_thread import SelfCheckThread
from demaq.server.telemetry import Telemetry
from demaq.spark.evaluator_tasks import ATTEMPTS_OF_TASKS, EvaluatorTasks, local_tasks
from demaq.spark.master import MASTER_DEFAULT, is_local
from demaq.spark.pipeline import Pipeline, PipelineName
from demaq.spark.session import start_spark
from demaq.store.location import place_of
from demaq.store.opening import address_for_executors, open_store
from demaq.store.operator_records import AuditRecord, PauseKind
from demaq.store.protocol import Committed, NewMessage, Step, StoredMessage, as_stored
from demaq.system_properties import ERROR_LEVEL, SAMPLED


def _choose_policy(keep: timedelta, keep_sample: SampleRate | None) -> RoundPolicy:
    if not keep:
        return THROUGHPUT
    if keep_sample is not None:
        return replace(THROUGHPUT, elide=SAMPLED)
    return replace(THROUGHPUT, elide=False, fold=False)


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


IDLE_SECONDS_MAX = 60.0
"""An idle node looks around at least this often."""
TIMER_SECONDS_MAX = 0.5
"""A node with timers looks at the clock this often, which may jump: it is what their times are compared with."""
SPARES, SPARES_AFTER_SECONDS, SPARES_LATEST_SECONDS = 2, 3.0, 60.0
"""So many processes, one for rounds and one for what is apart, are ready to replace others after so long."""
GARBAGE_EVERY_TURNS = 4
"""Under load garbage is collected this seldom; an idle node does it at once."""
GARBAGE_STEP = 500
"""How many messages are removed at once, between two rounds."""
GARBAGE_STEP_ASKED = 1000
"""The same if an operator asks for it."""
BACKOFF = Backoff(seconds_first=0.2, seconds_max=2.0)
"""After a fault of the system. Not longer, because a store that is back may be filled by senders meanwhile."""
PAUSE_SECONDS_WHEN_STOPPING = 0.1
"""The same for a node that is to stop."""
OUTAGE = "waiting to try again after a fault"
"""The text for senders: the fault itself may name hosts and folders."""
WATCHES_MAX = 10
"""How many commands may watch what becomes of their messages; of more, the first are forgotten."""
READ_PAGE = 1000
"""So many messages are read from the store at once for a caller that reads a queue."""
FAULTS_MAX_WHEN_STOPPING = 5
"""So often in a row a node that is to stop tries to process what is left."""

_log = logging.getLogger("demaq.node")

Paths = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]


class Node:
    """Runs an application on a store: stores messages, processes them in rounds, fires timers, collects garbage.

    One thread changes the state of messages, in turns; `enqueue` and `take` may be called from any thread.
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
        self.native = NativeLedger()
        """How native rules fare."""
        self.place = place_of(store)
        if pipeline != "inline" and not is_local(master) and not self.place.is_on_server:
            raise OperatorError(f"the store is a folder, which executors of {master} cannot read; use PostgreSQL")
        if standby and not self.place.is_on_server:
            raise OperatorError("a standby needs a store on PostgreSQL, and this one is a folder")
        self.program = application if isinstance(application, Program) else load_program(application)
        self.keep = keep
        self._clock = clock or _utc_now
        self.folder = self.place.folder
        where = self.place.where
        self.store = open_store(where, wait=standby, now=self._clock, tell=tell)
        files = {str(Path(file).resolve()): text for file, text in self.program.files().items()}
        with contextlib.ExitStack() as opened:
            opened.callback(self.store.close)
            # Two processes, so that senders do not wait for slow rules.
            limits = rule_timeout_seconds, rule_memory_bytes
            self._spares = Spares(SPARES)
            opened.callback(self._spares.close)
            rounds, arrivals = WaitingWorkers(), WaitingWorkers()
            given = files, where, *limits, self._spares
            self._evaluator = ProcessEvaluator(*given, False, native, self.native, rounds)
            self._receiver = ProcessEvaluator(*given, True, native, self.native, arrivals)
            opened.callback(self._evaluator.close)
            opened.callback(self._receiver.close)
            self._evaluator.launch()
            slow_receiver = self._receiver.twin(is_local=True)
            opened.callback(slow_receiver.close)
            self._receiver.launch()
            self._evaluator.start()
            self._receiver.start()

            pool = EvaluatorPool(self._evaluator, evaluators_here(), self._note_round)
            opened.callback(pool.close)
            # Local, also if other rules are evaluated on Spark.
            sifting = self._evaluator.twin(is_patient=True, is_local=True)
            self._lanes = [sifting, *[sifting.twin(is_urgent=False) for _ in range(slow_lanes_here())]]
            for lane in self._lanes:
                opened.callback(lane.close)

            def start() -> tuple[EvaluatorTasks, Callable[[], None]]:
                tasks = local_tasks(master)
                folder, slots = self.folder / "spark", tasks or 0
                spark = start_spark(
                    master, options=spark_options, folder=folder, tell=tell, slots=slots, attempts=ATTEMPTS_OF_TASKS
                )
                with contextlib.ExitStack() as started:
                    started.callback(spark.close)
                    shared = address_for_executors(where)
                    begin = Start(files=files, store=shared, orphan_seconds=rule_timeout_seconds, native=native)
                    found = EvaluatorTasks(spark.session, begin, rounds, arrivals, spark.private_folder, tasks)
                    started.callback(found.close)
                    return found, started.pop_all().close

            self.pipeline = Pipeline(pipeline, pool, start, tell, is_elsewhere=not is_local(master))
            opened.callback(self.pipeline.close)
            self._self_check = SelfCheckThread(pool.check_when_idle)
            opened.callback(self._self_check.close)
            plan = make_plan(self.program)
            migrate_store(plan, self._evaluator, self.store, self._clock, discard, tell, operator=name_of_operator())
            self.engine = Engine(
                plan,
                self.pipeline,
                self.store,
                self._clock,
                hops_max=hops_max,
                observe=self._note_commit,
                receiver=Receiver(self._receiver, slow_receiver),
                policy=_choose_policy(keep, keep_sample),
                lanes=self._lanes,
                wake=self.look_for_work,
                native=native.is_native,
                arrivals=self.pipeline,
                is_running=lambda: self.is_running and self.fault is None and not self._stopping.is_set(),
            )
            self.engine.factory.sampler = None if keep_sample is None else Sampler(keep_sample)
            self._opened = opened.pop_all()
        self.failure: BaseException | None = None
        """What made the node stop by itself."""
        self.fault: str | None = None
        """What keeps the node from going on, while it waits to try again."""
        self.outage: str | None = None
        """The text for senders while no message can be processed; None also if a fault is about one message."""
        self.outages = OutageLog(_log)
        self._subscribers: dict[str, list[Callable[[StoredMessage], None]]] = {}
        self._gateways_status: Callable[[], dict[str, Any]] | None = None
        self.telemetry: Telemetry | None = None
        self.spans: StepSpans | None = None
        """Records what is processed, if telemetry is on."""
        self._wake_callbacks: list[Callable[[], None]] = []
        self._metrics: Callable[[], str] = lambda: ""
        self._look_again: Callable[[], None] = lambda: None
        """Called when there may be something to send."""
        self._note_purged: Callable[[Sequence[int]], None] = lambda seqs: None
        """Called with messages that were removed and are not to be sent any more."""
        self._news: list[StoredMessage] = []
        """Messages that subscribers have not been called with yet."""
        self._watches: dict[str, Watch] = {}
        self._turn = threading.RLock()
        """Held during a round, and by operations that must not run during one."""
        self._work = threading.Event()
        self._idle = IdleMonitor()
        self._stopping = threading.Event()
        self._draining = False
        self._thread: threading.Thread | None = None
        self._turns = 0
        self._started = self._clock()
        self._started_monotonic = 0.0
        self._arrivals_seen = 0
        """How many messages had been processed on arrival when that was looked at last."""
        self._steps = 0
        self.errors: Counter[str] = Counter()
        """How many error messages were made of each kind, but for those about what was refused when it came."""
        self.removed = 0
        """How many messages were removed."""

    # life

    def start(self) -> None:
        """Begin to process, where it was left."""
        if self._thread is not None:
            raise RuntimeError("a node is started once; make another one to go on")
        self._started_monotonic = time.monotonic()
        self._thread = threading.Thread(target=self._run, name="demaq-node", daemon=True)
        self._thread.start()
        self._self_check.start()

    def stop(self, drain: bool = False) -> None:
        """Stop after the current round; with `drain` after the last message that can be processed now."""
        self._draining = drain
        self._stopping.set()
        self._self_check.stop()
        self._work.set()
        if self._thread is not None:
            self._thread.join()
        self.engine.forget_ahead()
        for lane in self._lanes:
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
        that were removed.
        of the status. `look_again` is called when what was sent before is to be sent again. `metrics` returns what
        `/metrics` says.
        """
        self._metrics = metrics
        self._wake_callbacks.append(wake)
        self._look_again = look_again
        self._note_purged = note_purged
        self._gateways_status = status
        self._opened.callback(close)
        wake()

    @property
    def steps(self) -> int:
        """How many messages were processed."""
        return self._steps + self.engine.arrivals.processed

    @property
    def is_running(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def look_for_work(self) -> None:
        """Wake the node: there may be something to process. May be called from any thread."""
        self._work.set()

    def look_for_arrivals(self) -> None:
        """Wake the node, unless all that has arrived was processed at once. May be called from any thread."""
        if self.engine.take_wish():
            self._work.set()
            self._wake_gateways()

    def hurry(self) -> None:
        """Let a node that drains stop after the current round."""
        self._draining = False

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until the node has stopped by itself. Return whether it has."""
        assert self._thread is not None, "a node is started before it is waited for"
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def wait_until_idle(self, seconds: float | None = None) -> bool:
        """Wait until all that was stored before this call, and all that came of it, is processed.

        Return whether it is; False if the time has passed before, or the node has stopped. Timers that are not due and
        messages that are to be sent are not waited for. Raises what made the node stop by itself.
        """
        if self._thread is None:
            raise RuntimeError("a node is started before it is waited for")
        if threading.current_thread() is self._thread:
            raise RuntimeError("a subscriber is called by the thread that it would wait for")
        ticket = self._idle.ask()
        self._work.set()
        is_idle = self._idle.wait(ticket, seconds)
        if self.failure is not None:
            raise self.failure
        return is_idle

    # from outside

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

    def append(self, messages: Sequence[NewMessage], digest: str, watch: str | None = None) -> list[bool]:
        """Store messages that were checked elsewhere under the program of this digest. Return which are new.

        One whose `request` is known already is not stored again. With `watch`, they are watched under that name.
        """
        expect_program(self.store, digest)
        with self._wake_after():
            return self.engine.append_checked(
                messages, lambda seqs: self._watch(watch, seqs) if watch is not None else None
            )

    def watch(self, name: str, seqs: Sequence[int]) -> None:
        """Watch what becomes of messages, as far as they are still to be processed."""
        self.engine.while_nothing_changes(lambda: self._watch(name, seqs))

    def read_watch(self, name: str) -> dict[str, Any]:
        """Return what has become of watched messages so far, and the current fault of the node, if any."""
        watch = self._watches.get(name, Watch())
        state = self.engine.while_nothing_changes(watch.state)
        return {**state, "fault": self.fault, "paused": self._find_pauses_of(watch)}

    def _find_pauses_of(self, watch: Watch) -> list[str]:
        """Return what is paused if nothing else that is watched can be processed now."""
        paused = self.engine.pauses
        if not paused.queues or not self.engine.is_waiting_for_pauses(watch.open_seqs()):
            return []
        return [f"{kind} {name}" for kind, name in paused.by_part if kind != "gateway"]

    def _watch(self, name: str, seqs: Sequence[int]) -> None:
        if name not in self._watches:
            while len(self._watches) >= WATCHES_MAX:
                del self._watches[next(iter(self._watches))]
            self._watches[name] = Watch()
        processed = [m for m in self.store.messages(seqs) if self.engine.factory.priority(m.queue) is not None]
        self._watches[name].add(processed)

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
        with self._wake_after():  # there may be garbage
            return self.engine.take(queue, limit)

    def load_collection(self, name: str, documents: Sequence[bytes | str], entry: AuditRecord | None = None) -> int:
        """Replace a collection. Return its version. Raises a MessageError if it must be refused."""
        texts = collection_texts(self.program, name, documents)
        with self._turn, self.engine.arrivals.excluded():
            self.engine.forget_ahead()
            return self.store.load_collection(name, texts, entry)

    def redeliver(self, messages: Sequence[int], entry: AuditRecord | None = None) -> None:
        """Send messages of outgoing gateways again, all or none. Raises an OperatorError if one cannot be."""
        with self._turn, self._wake_after():  # so that none is removed meanwhile
            again = partial(send_again, self.store, self.program, messages, self._clock(), entry)
            try:
                self.engine.while_nothing_changes(again)
            finally:  # also if it is in doubt whether that was stored
                self._look_again()

    def pause(self, kind: PauseKind, name: str, who: str, why: str = "") -> bool:
        """Pause a queue, a rule or a gateway, at once and for later runs. Return False if it was paused before.

        Raises an OperatorError if the application has no such part.
        """
        expect_part(self.program, kind, name)
        pause, entry = make_pause(kind, name, who, why, self._clock())
        with self._turn:
            if pause.part in self.engine.pauses.by_part:
                return False
            self.store.change_pauses([pause], (), entry)
            self._apply_pauses()
        return True

    def resume(self, kind: PauseKind, name: str, who: str, why: str = "") -> bool:
        """Resume what was paused. Return False if it was not paused."""
        with self._turn:
            if (kind, name) not in self.engine.pauses.by_part:
                return False
            self.store.change_pauses((), [(kind, name)], describe_resumption(kind, name, who, why))
            self._apply_pauses()
        return True

    def _apply_pauses(self) -> None:
        with self._wake_after():
            self.engine.set_pauses(self.store.pauses())
            self._look_again()

    def purge(self, seqs: Sequence[int], entry: AuditRecord) -> tuple[list[int], int]:
        """Remove messages, whatever their state. Return which were removed, and the number of the audit record."""
        with self._turn, self._wake_after():
            removed, number = self.engine.purge(seqs, entry)
            for watch in self._watches.values():
                watch.forget(removed)
            self._note_purged(removed)
        return removed, number

    def note_audit(self, entry: AuditRecord) -> int:
        """Store an audit record, or store it again if it has a number. Return its number."""
        return self.store.note_audit(entry)

    def collect_garbage(self) -> int:
        """Remove everything that may be removed now."""
        removed = 0
        while True:
            with self._turn:
                found = self._collect_garbage()
            if not found:
                return removed
            removed += found

    def read_status(self) -> dict[str, Any]:
        """Return what the node is doing, for operators."""
        pipeline, counts = self.pipeline, self.pipeline.counts
        return {
            "pid": os.getpid(),
            "started": self._started.isoformat(timespec="seconds"),
            "processed": self.steps,
            "waiting": self.engine.backlog(),
            "pipeline": pipeline.name,
            "rounds": {"inline": counts.inline_rounds, "spark": counts.spark_rounds},
            "messages": {"inline": counts.inline_messages, "spark": counts.spark_messages},
            "tasks": pipeline.tasks,
            "why": pipeline.why,
            "apart": {"messages": len(self.engine.slow_messages), "queues": list(self.engine.slow_messages.suspected)},
            "fault": self.fault,
            "paused": as_json(list_pauses(self.store, self.engine.plan)),
            "unmatched": self.engine.namespaces.ignored.copy(),
            "native": self.native.status(),
            "namespaces": list(self.engine.namespaces.reports.values()),
            "gateways": self._gateways_status() if self._gateways_status is not None else None,
        }

    status = read_status

    def record_spans(self, telemetry: Telemetry) -> None:
        """Record spans of what is processed from now on. Called once, before the node and its gateways start."""
        self.telemetry = telemetry
        self._opened.callback(telemetry.close)
        self.spans = self.engine.record_spans(telemetry.recorder)

    def read_metrics(self) -> str:
        """Return what `/metrics` says, for the console; the empty text if there are no gateways."""
        return self._metrics()

    @property
    def now(self) -> datetime:
        """What the node's clock says."""
        return self._clock()

    @property
    def evaluators_replaced(self) -> int:
        """How many processes had to be replaced because of what they were asked to evaluate."""
        return sum([evaluator.replaced for evaluator in (self._evaluator, self._receiver, *self._lanes)])

    @property
    def evaluator_pids(self) -> dict[str, int | None]:
        """The worker processes: of rules, and of messages from outside."""
        return {"rules": self._evaluator.pid, "arrivals": self._receiver.pid}

    def subscribe(self, queue: str, listener: Callable[[StoredMessage], None]) -> None:
        """Call back for every message that rules or timers put into a queue, after its commit."""
        expect_queue(self.program, queue)
        with self._turn, self.engine.arrivals.excluded():
            # Subscribers get every message, also of a round that has begun.
            self.engine.policy = replace(self.engine.policy, fold=False)
            self.engine.forget_ahead()
            self._subscribers.setdefault(queue, []).append(listener)

    @contextlib.contextmanager
    def _wake_after(self) -> Iterator[None]:
        """Wake the thread, also after a call that failed: what it was about may be stored all the same."""
        try:
            yield
        finally:
            self._work.set()
            self._wake_gateways()

    def _wake_gateways(self) -> None:
        for wake in self._wake_callbacks:
            wake()

    # the thread

    def _run(self) -> None:
        try:
            self._run_turns()
        finally:
            self._idle.close()

    def _run_turns(self) -> None:
        faults = 0
        while True:
            self._work.clear()
            self._idle.begin_turn()
            stopping = self._stopping.is_set()  # what came before that is seen by this turn
            seconds = 0.0
            try:
                busy = self._run_turn()
                if not busy:
                    seconds = min(self._idle_seconds(), self._launch_spares())
                faults = 0
                self.fault = self.outage = None
                self.outages.note_success()
            except (StoreDamaged, StoreTakenOver) as error:
                self.failure = error
                return
            except Exception as error:
                faults += 1
                busy = faults < FAULTS_MAX_WHEN_STOPPING
                self._pause(error, BACKOFF.delay_seconds(faults))
            self._idle.end_turn(is_idle=not busy and not faults and not self.engine.slow_messages)
            has_slow = bool(self.engine.slow_messages) and faults < FAULTS_MAX_WHEN_STOPPING
            if self._stopping.is_set() and not (self._draining and (busy or has_slow or not stopping)):
                return
            if not busy and self.fault is None:
                self._work.wait(seconds)

    def _launch_spares(self) -> float:
        """Have processes ready for when one must be replaced, unless the node lives for a moment only.

        Starting one takes a second of processor time, so that waits until no message has arrived for a moment, though
        not for ever. Return after how many seconds to look again.
        """
        age = time.monotonic() - self._started_monotonic
        if age < SPARES_AFTER_SECONDS:
            return SPARES_AFTER_SECONDS - age
        before, self._arrivals_seen = self._arrivals_seen, self.engine.arrivals.processed
        if before != self._arrivals_seen and age < SPARES_LATEST_SECONDS:
            return SPARES_AFTER_SECONDS
        self._evaluator.launch_spares()
        return IDLE_SECONDS_MAX

    def _pause(self, error: Exception, seconds: float) -> None:
        """Wait after a fault: what was not committed will be tried again."""
        self.fault = str(error)
        self._wake_gateways()  # a commit that failed may have taken place
        if isinstance(error, OperatorError) and not isinstance(error, SystemFault):
            self.outage = OUTAGE
            self.outages.note_failure(error)
        else:
            self.outage = None
            _log.warning("%s; trying again in %g s", error, seconds)
        if self._stopping.is_set():
            time.sleep(PAUSE_SECONDS_WHEN_STOPPING)
        else:
            self._stopping.wait(seconds)

    def _run_turn(self) -> bool:
        """Run one round, fire timers or collect some garbage. Return whether there was anything to do."""
        try:
            with self._turn:
                done = self.engine.fire_timers() + self.engine.run_round()
                self._steps += done
        finally:
            self._call_subscribers()
        self._turns += 1
        if done and self._turns % GARBAGE_EVERY_TURNS:
            return True
        with self._turn:
            return bool(self._collect_garbage(GARBAGE_STEP) or done)

    def _collect_garbage(self, limit: int = GARBAGE_STEP_ASKED) -> int:
        removed = self.engine.collect_garbage(self.keep, limit)
        self.removed += removed
        return removed

    def _idle_seconds(self) -> float:
        with self._turn:
            due = self.store.next_due(sorted(self.engine.pauses.queues))
        longest = OVER_AFTER_SECONDS if self.outages.is_open else IDLE_SECONDS_MAX
        if due is not None or self.engine.slow_messages:
            longest = min(longest, TIMER_SECONDS_MAX)
        return longest if due is None else min(max((due - self._clock()).total_seconds(), 0.0), longest)

    def _note_round(self, messages: int, is_on_spark: bool) -> None:
        self.pipeline.note_round(messages, is_on_spark)

    def _note_commit(self, steps: Sequence[Step], committed: Sequence[Committed]) -> None:
        for watch in self._watches.values():
            watch.committed(steps, committed)
        if self.engine.policy.elide:  # what is done with is removed at once
            first = committed[0].number
            self.removed += sum([seq < first for done in committed for seq in done.retired])
        for new in [new for step in steps for new in step.created if ERROR_LEVEL in new.properties]:
            kind = kind_of(new.body)
            if kind is not None:
                self.errors[kind] += 1
                if _log.isEnabledFor(logging.INFO):
                    self._log_error(new, kind)
        if self._wake_callbacks and any([new.undelivered for step in steps for new in step.created]):
            self._wake_gateways()
        if not self._subscribers:
            return
        for step, done in zip(steps, committed, strict=True):
            for new, seq in zip(step.created, done.created, strict=True):
                if new.queue in self._subscribers:
                    self._news.append(as_stored(new, seq))
        self._work.set()  # another thread may have committed them, and this one calls

    def _log_error(self, new: NewMessage, kind: str) -> None:
        about = "a message" if new.trigger is None else f"message {new.trigger}"
        rule = "" if new.rule is None else f" of rule {new.rule}"
        trace = {}
        if self.spans is not None and new.origin is not None:
            trace["trace_id"] = self.spans.recorder.context_of(new.properties, new.origin).trace_id
        _log.info("%s%s about %s, in queue %s", kind, rule, about, new.queue, extra=trace)

    def _call_subscribers(self) -> None:
        news, self._news = self._news, []
        for message in news:
            for listener in self._subscribers.get(message.queue, ()):
                try:
                    listener(message)
                except Exception:
                    _log.exception("a subscriber to queue %s failed on message %s", message.queue, message.seq)


def _utc_now() -> datetime:
    return datetime.now(UTC)
