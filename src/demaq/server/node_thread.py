"""The thread of a node: a round, timers that are due, some garbage collection, and again, until it is to stop.

After a fault of the system it waits and tries again; nothing is lost by that, because what was not committed still
waits in the store.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

from demaq.backoff import Backoff
from demaq.engine.engine import Engine
from demaq.errors import OperatorError, StoreDamaged, StoreTakenOver, SystemFault
from demaq.outage_log import OVER_AFTER_SECONDS, OutageLog
from demaq.server.idle_monitor import IdleMonitor
from demaq.store.protocol import Store

IDLE_SECONDS_MAX = 60.0
"""An idle node looks around at least this often."""
TIMER_SECONDS_MAX = 0.5
"""A node with timers looks at the clock this often, which may jump: it is what their times are compared with."""
SPARES_AFTER_SECONDS, SPARES_LATEST_SECONDS = 3.0, 60.0
"""Processes that replace others are made ready after so long."""
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
FAULTS_MAX_WHEN_STOPPING = 5
"""So often in a row a node that is to stop tries to process what is left."""

_log = logging.getLogger("demaq.node")


class NodeThread:
    """Changes the state of messages, in turns. Its functions may be called from any thread."""

    def __init__(
        self,
        engine: Engine,
        store: Store,
        keep: timedelta,
        clock: Callable[[], datetime],
        wake_gateways: Callable[[], None],
        after_round: Callable[[], None],
        launch_spares: Callable[[], None],
    ) -> None:
        """`after_round` is called by the thread, also after a round that failed."""
        self._engine = engine
        self._store = store
        self.keep = keep
        self._clock = clock
        self._wake_gateways = wake_gateways
        self._after_round = after_round
        self._launch_spares = launch_spares
        self.failure: BaseException | None = None
        """What made the thread end by itself."""
        self.fault: str | None = None
        """What keeps it from going on, while it waits to try again."""
        self.outage: str | None = None
        """The text for senders while no message can be processed; None also if a fault is about one message."""
        self.outages = OutageLog(_log)
        self.turn = threading.RLock()
        """Held during a round, and by operations that must not run during one."""
        self.steps = 0
        """How many messages it has processed."""
        self.removed = 0
        """How many messages it has removed."""
        self._work = threading.Event()
        self._idle = IdleMonitor()
        self._stopping = threading.Event()
        self._draining = False
        self._thread: threading.Thread | None = None
        self._turns = 0
        self._started = 0.0
        self._arrivals_seen = 0
        """How many messages had been processed on arrival when that was looked at last."""

    def start(self) -> None:
        if self._thread is not None:
            raise RuntimeError("a node is started once; make another one to go on")
        self._started = time.monotonic()
        self._thread = threading.Thread(target=self._run, name="demaq-node", daemon=True)
        self._thread.start()

    def ask_to_stop(self, drain: bool) -> None:
        """Let it end after the current round; with `drain` after the last message that can be processed now."""
        self._draining = drain
        self._stopping.set()
        self._work.set()

    def join(self) -> None:
        if self._thread is not None:
            self._thread.join()

    def hurry(self) -> None:
        """Let one that drains end after the current round."""
        self._draining = False

    @property
    def is_running(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    @property
    def is_serving(self) -> bool:
        """Whether it runs, and neither waits after a fault nor is to stop."""
        return self.is_running and self.fault is None and not self._stopping.is_set()

    def wait(self, seconds: float | None) -> bool:
        """Wait until it has ended by itself. Return whether it has."""
        assert self._thread is not None, "a node is started before it is waited for"
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def wait_until_idle(self, seconds: float | None) -> bool:
        """Wait until all that was stored before this call, and all that came of it, is processed."""
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

    def look_for_work(self) -> None:
        self._work.set()

    @contextmanager
    def waking(self) -> Iterator[None]:
        """Look for work afterwards, also after a call that failed: what it was about may be stored all the same."""
        try:
            yield
        finally:
            self._work.set()
            self._wake_gateways()

    def collect_garbage(self, limit: int = GARBAGE_STEP_ASKED) -> int:
        """Remove some messages. Return how many."""
        with self.turn:
            removed = self._engine.collect_garbage(self.keep, limit)
            self.removed += removed
        return removed

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
                    seconds = min(self._idle_seconds(), self._make_spares())
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
            self._idle.end_turn(is_idle=not busy and not faults and not self._engine.slow_messages)
            has_slow = bool(self._engine.slow_messages) and faults < FAULTS_MAX_WHEN_STOPPING
            if self._stopping.is_set() and not (self._draining and (busy or has_slow or not stopping)):
                return
            if not busy and self.fault is None:
                self._work.wait(seconds)

    def _run_turn(self) -> bool:
        """Run one round, fire timers or collect some garbage. Return whether there was anything to do."""
        try:
            with self.turn:
                done = self._engine.fire_timers() + self._engine.run_round()
                self.steps += done
        finally:
            self._after_round()
        self._turns += 1
        if done and self._turns % GARBAGE_EVERY_TURNS:
            return True
        return bool(self.collect_garbage(GARBAGE_STEP) or done)

    def _idle_seconds(self) -> float:
        with self.turn:
            due = self._store.next_due(sorted(self._engine.pauses.queues))
        longest = OVER_AFTER_SECONDS if self.outages.is_open else IDLE_SECONDS_MAX
        if due is not None or self._engine.slow_messages:
            longest = min(longest, TIMER_SECONDS_MAX)
        return longest if due is None else min(max((due - self._clock()).total_seconds(), 0.0), longest)

    def _make_spares(self) -> float:
        """Have processes ready for when one must be replaced, unless the node lives for a moment only.

        Starting one takes a second of processor time, so that waits until no message has arrived for a moment, though
        not for ever. Return after how many seconds to look again.
        """
        age = time.monotonic() - self._started
        if age < SPARES_AFTER_SECONDS:
            return SPARES_AFTER_SECONDS - age
        before, self._arrivals_seen = self._arrivals_seen, self._engine.arrivals.processed
        if before != self._arrivals_seen and age < SPARES_LATEST_SECONDS:
            return SPARES_AFTER_SECONDS
        self._launch_spares()
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
