"""A node: one application on one store, processing messages as they come, until it is stopped.

    node = Node("orders.dmq", store="orders")
    node.start()
    node.subscribe("customer", print)
    node.enqueue("orders", "<order id='1'/>")
    node.stop()

One thread does everything that touches the store; whoever calls from outside waits for his turn.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from demaq.compiler.planner import make_plan
from demaq.documents import parse_document
from demaq.language.load import load_program
from demaq.rounds.process import RULE_TIMEOUT_SECONDS, ProcessEvaluator
from demaq.scheduler.engine import Engine
from demaq.scheduler.intake import explicit_properties
from demaq.store.protocol import Committed, Step, StoredMessage
from demaq.store.sqlite import SqliteStore

IDLE_SECONDS_MAX = 60.0
"""An idle node looks around at least this often."""
GARBAGE_EVERY_TURNS = 4
"""Under load garbage is collected this seldom; an idle node does it at once."""
GARBAGE_STEP = 500
"""So many messages are removed at once, between two rounds."""
FAULTS_MAX = 5
"""So often a round may fail for reasons of the system before the node gives up."""

Paths = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]


class Node:
    def __init__(
        self,
        application: Paths,
        store: str | os.PathLike[str],
        keep: timedelta = timedelta(0),
        rule_timeout_seconds: float = RULE_TIMEOUT_SECONDS,
        clock: Callable[[], datetime] | None = None,
    ) -> None:
        """Check the application and open the store. Raises a ProgramError or a StoreError."""
        self.program = load_program(application)
        self.keep = keep
        self._clock = clock or _utc_now
        self.folder = Path(store)
        self.store = SqliteStore(self.folder, now=self._clock)
        files = {str(Path(file).resolve()): text for file, text in self.program.files().items()}
        self._evaluator = ProcessEvaluator(files, self.folder, rule_timeout_seconds)
        try:
            self._evaluator.start()
            self.store.save_program(_digest(files), files, self._clock())
        except BaseException:
            self._evaluator.close()
            self.store.close()
            raise
        self.engine = Engine(make_plan(self.program), self._evaluator, self.store, self._clock, observe=self._committed)
        self.failure: BaseException | None = None
        """What made the node stop by itself."""
        self._subscribers: dict[str, list[Callable[[StoredMessage], None]]] = {}
        self._turn = threading.RLock()
        self._work = threading.Event()
        self._stopping = threading.Event()
        self._draining = False
        self._thread: threading.Thread | None = None
        self._turns = 0

    # life

    def start(self) -> None:
        """Begin to process, where it was left."""
        self._thread = threading.Thread(target=self._run, name="demaq-node", daemon=True)
        self._thread.start()

    def stop(self, drain: bool = False) -> None:
        """Stop behind the current round; with `drain` behind the last message that can be processed now."""
        self._draining = drain
        self._stopping.set()
        self._work.set()
        if self._thread is not None:
            self._thread.join()
        self._evaluator.close()
        self.store.close()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until the node has stopped by itself; the answer is whether it has."""
        assert self._thread is not None, "a node is started before it is waited for"
        self._thread.join(seconds)
        return not self._thread.is_alive()

    # from outside

    def enqueue(
        self,
        queue: str,
        body: bytes | str,
        properties: Mapping[str, str] | None = None,
        request: str | None = None,
    ) -> int:
        """Store a message; durable on return. Raises a MessageError where it must be refused."""
        given = explicit_properties(self.program, queue, properties or {})
        with self._turn:
            seq = self.engine.enqueue(queue, body, given, request)
        self._work.set()
        return seq

    def take(self, queue: str, limit: int = 1) -> list[StoredMessage]:
        """Hand messages of a mailbox to a client and mark them processed, in one transaction."""
        with self._turn:
            return self.engine.take(queue, limit)

    def load_collection(self, name: str, documents: Sequence[bytes | str]) -> int:
        texts = [parse_document(document).text for document in documents]
        with self._turn:
            return self.store.load_collection(name, texts)

    def collect_garbage(self) -> int:
        """Remove everything that may be removed now."""
        removed = 0
        while True:
            with self._turn:
                found = self.engine.collect_garbage(self.keep)
            if not found:
                return removed
            removed += found

    def subscribe(self, queue: str, listener: Callable[[StoredMessage], None]) -> None:
        """Call back for every message that rules or timers put into a queue, after its commit."""
        self._subscribers.setdefault(queue, []).append(listener)

    # the thread

    def _run(self) -> None:
        faults = 0
        while True:
            self._work.clear()
            try:
                busy = self._turn_once()
                faults = 0
            except Exception as error:
                faults += 1
                if faults >= FAULTS_MAX:
                    self.failure = error
                    return
                self._stopping.wait(0.1 * 2**faults)
                busy = True
            if self._stopping.is_set() and not (self._draining and busy):
                return
            if not busy:
                self._work.wait(self._idle_seconds())

    def _turn_once(self) -> bool:
        """One round, or timers, or some garbage; the answer is whether there was anything to do."""
        with self._turn:
            done = self.engine.fire_timers() + self.engine.run_round()
            self._turns += 1
            if done and self._turns % GARBAGE_EVERY_TURNS:
                return True
            return bool(self.engine.collect_garbage(self.keep, GARBAGE_STEP) or done)

    def _idle_seconds(self) -> float:
        with self._turn:
            due = self.store.next_due()
        if due is None:
            return IDLE_SECONDS_MAX
        return min(max((due - self._clock()).total_seconds(), 0.0), IDLE_SECONDS_MAX)

    def _committed(self, steps: Sequence[Step], committed: Sequence[Committed]) -> None:
        if not self._subscribers:
            return
        for step, done in zip(steps, committed, strict=True):
            for new, seq in zip(step.created, done.created, strict=True):
                for listener in self._subscribers.get(new.queue, ()):
                    stored = self.store.message(seq)
                    if stored is not None:
                        listener(stored)


def _utc_now() -> datetime:
    return datetime.now(UTC)


def _digest(files: Mapping[str, str]) -> str:
    whole = hashlib.sha256()
    for name, text in sorted(files.items()):
        whole.update(f"{name}\0{text}\0".encode())
    return whole.hexdigest()
