"""Export spans in the background: what cannot be exported in time is dropped, and counted.

A node records spans while it holds locks and answers senders. So recording one is an append to a queue of limited
length, whatever is the matter with the receiver of spans; a thread takes batches from it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence

from demaq.backoff import Backoff
from demaq.span_recorder import Span

QUEUE_MAX, BATCH_MAX, DELAY_SECONDS = 2048, 512, 5.0
"""The values that OpenTelemetry specifies for its batch processor."""
STOP_SECONDS = 5.0
"""How long a node that ends waits until its last spans are exported."""
REPORT_BACKOFF = Backoff(seconds_first=10.0, seconds_max=600.0)
"""So long after a report the next one comes at the earliest."""

_log = logging.getLogger("demaq.telemetry")


class SpanExport:
    """`emit` may be called from any thread; it never raises and never waits for the receiver."""

    def __init__(
        self,
        export: Callable[[Sequence[Span]], bool],
        queue_max: int = QUEUE_MAX,
        batch_max: int = BATCH_MAX,
        delay_seconds: float = DELAY_SECONDS,
        stop: Callable[[], None] = lambda: None,
    ) -> None:
        """`export` sends spans and returns whether they have arrived. `stop` makes it give up what it is doing."""
        self._export = export
        self._stop_export = stop
        self._queue: deque[Span] = deque()
        self._queue_max = queue_max
        self._batch_max = min(batch_max, queue_max)
        self._delay_seconds = delay_seconds
        self._lock = threading.Lock()
        self._work = threading.Event()
        self._stopping = threading.Event()
        self.exported = 0
        self.dropped = 0
        """Spans for which there was no room, or that the receiver did not take."""
        self._reports = 0
        self._report_at = 0.0
        self._thread = threading.Thread(target=self._run, name="demaq-telemetry", daemon=True)
        self._thread.start()

    def emit(self, span: Span) -> None:
        with self._lock:
            if len(self._queue) >= self._queue_max:
                self.dropped += 1
                return
            self._queue.append(span)
            is_batch = len(self._queue) >= self._batch_max
        if is_batch:
            self._work.set()

    def close(self, seconds: float = STOP_SECONDS) -> None:
        """Export what is left, at most so long."""
        self._stopping.set()
        self._work.set()
        self._thread.join(seconds)
        self._stop_export()
        self._thread.join(1.0)

    def _run(self) -> None:
        while True:
            self._work.wait(self._delay_seconds)
            self._work.clear()
            is_last = self._stopping.is_set()
            while batch := self._take():
                self._send(batch)
                if len(batch) < self._batch_max and not is_last:
                    break
            if is_last:
                return

    def _take(self) -> list[Span]:
        with self._lock:
            return [self._queue.popleft() for _ in range(min(len(self._queue), self._batch_max))]

    def _send(self, batch: Sequence[Span]) -> None:
        try:
            has_arrived, reason = self._export(batch), "the receiver does not take them"
        except Exception as error:  # whatever an exporter raises, the node goes on
            has_arrived, reason = False, f"{type(error).__name__}: {error}"
        with self._lock:
            if has_arrived:
                self.exported += len(batch)
                self._reports = 0
            else:
                self.dropped += len(batch)
        if not has_arrived and time.monotonic() >= self._report_at:
            self._reports += 1
            self._report_at = time.monotonic() + REPORT_BACKOFF.delay_seconds(self._reports)
            _log.warning("spans are not exported: %s", reason)
