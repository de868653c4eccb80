"""A pool of workers: as many rounds are evaluated at once.

The first worker runs as long as the node. The others are started when rounds have to wait, and used once they are
ready. Workers on Spark take the place of processes as they come, and there may be more of them.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from demaq.errors import EvaluatorUnavailable, ProgramError, StoreError
from demaq.evaluation.arrival_request import ArrivalRequest, ArrivalResult
from demaq.evaluation.round_request import RoundRequest, RoundResult
from demaq.evaluation.saxon.saxon_evaluator import ROUND_MESSAGES_MAX
from demaq.evaluation.workers.process import ProcessEvaluator
from demaq.evaluation.workers.worker_connection import EvaluatorGone
from demaq.evaluation.workers.worker_slot import NoWorker

EVALUATORS_MAX = 4
"""With more workers the node is the bottleneck, since it commits all outcomes."""
WORKERS_PER_BATCH = 2
"""So many workers on Spark share the largest batch: with more of them, batches are larger."""
LOOK_EVERY_SECONDS = 0.05
"""How often a waiting thread looks whether another worker is ready."""


def evaluators_here() -> int:
    """Return how many workers this machine can use."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, EVALUATORS_MAX)


def slow_lanes_here() -> int:
    """Return how many more workers this machine can use for slow messages."""
    return max(1, evaluators_here() - 1)


class EvaluatorPool:
    """A RoundEvaluator that evaluates as many rounds at once as it has workers."""

    def __init__(
        self,
        first: ProcessEvaluator,
        size: int,
        observe: Callable[[int, bool], None] = lambda messages, is_on_spark: None,
    ) -> None:
        """The first evaluator is not closed with the pool.

        `observe` is called after each round, from the thread that asked for it, with where it was evaluated.
        """
        self._first = first
        self._size = size
        """How many evaluators have a process, if they have no other worker."""
        self._others = [first.twin() for _ in range(size - 1)]
        self._free = [first, *self._others]
        self._returned = threading.Condition()
        self._observe = observe
        self._on_spark = 0

    @property
    def messages_max(self) -> int:
        return ROUND_MESSAGES_MAX * max(1, self._on_spark // WORKERS_PER_BATCH)

    @property
    def rounds_max(self) -> int:
        return self._on_spark or self._size

    def use_spark(self, workers: int) -> None:
        """Expect so many workers on Spark at present; 0 if rounds are evaluated in processes only."""
        with self._returned:
            self._on_spark = workers
            while 1 + len(self._others) < workers:
                self._others.append(self._first.twin(has_process=False))
                self._free.append(self._others[-1])
            self._returned.notify_all()

    def check_when_idle(self) -> None:
        """Check native answers that wait for it, in workers that are free."""
        for evaluator in (self._first, *self._others):
            with self._returned:
                if evaluator not in self._free or not evaluator.has_checks:
                    continue
                self._free.remove(evaluator)
            try:
                evaluator.check_when_idle()
            finally:
                self._return(evaluator)

    def close(self) -> None:
        for other in self._others:
            other.close()

    def run(self, request: RoundRequest) -> RoundResult:
        while True:
            with self._borrow() as evaluator:
                try:
                    result = evaluator.run(request)
                except NoWorker:  # it has lost its worker: another evaluator takes over
                    continue
                self._observe(len(request.batch), evaluator.is_on_spark)
                return result

    def run_arrivals(
        self,
        divide: Callable[[int], Sequence[ArrivalRequest]],
        workers_max: int,
        meanwhile: Callable[[], None] = lambda: None,
    ) -> list[ArrivalResult] | None:
        """See ArrivalPool."""
        evaluators = self._take_free(workers_max)
        if not evaluators:
            return []
        receiving: list[Callable[[], ArrivalResult | None]] = []
        results: list[ArrivalResult | None] = []
        try:
            try:
                for evaluator, request in zip(evaluators, divide(len(evaluators)), strict=True):
                    receiving.append(evaluator.send_arrivals(request))
                    self._observe(len(request.messages), evaluator.is_on_spark)
                meanwhile()
            finally:
                results = [receive() for receive in receiving]
        except (EvaluatorGone, NoWorker):
            return None
        finally:
            for evaluator in evaluators:
                self._return(evaluator)
        found = [result for result in results if result is not None]
        return found if len(found) == len(results) else None

    def _take_free(self, count: int) -> list[ProcessEvaluator]:
        """Take up to so many workers that are free and ready; wait for a moment if there are none."""
        with self._returned:
            for _ in range(2):
                ready = self._ready()[:count]
                if ready:
                    break
                self._returned.wait(LOOK_EVERY_SECONDS)
            for evaluator in ready:
                self._free.remove(evaluator)
            if len(ready) < min(count, self.rounds_max):
                self._launch_others()
        return ready

    @contextmanager
    def _borrow(self) -> Iterator[ProcessEvaluator]:
        with self._returned:
            while (evaluator := self._next()) is None:
                self._returned.wait(LOOK_EVERY_SECONDS)
            self._free.remove(evaluator)
        try:
            yield evaluator
        finally:
            self._return(evaluator)

    def _return(self, evaluator: ProcessEvaluator) -> None:
        with self._returned:
            self._free.append(evaluator)
            self._returned.notify()

    def _next(self) -> ProcessEvaluator | None:
        """Return a free worker that is ready, on Spark if there is one. If there is none, start others."""
        ready = self._ready()
        if ready:
            return ready[0]
        if self._first in self._free:
            return self._first  # it is started by the request
        self._launch_others()
        return None

    def _ready(self) -> list[ProcessEvaluator]:
        """Return the free workers that are ready, first those on Spark."""
        ready = [evaluator for evaluator in list(self._free) if self._is_ready(evaluator)]
        return sorted(ready, key=lambda evaluator: not evaluator.is_on_spark)

    def _launch_others(self) -> None:
        for evaluator in self._free:
            if evaluator.has_process:
                evaluator.launch()

    def _is_ready(self, evaluator: ProcessEvaluator) -> bool:
        try:
            return evaluator.is_ready()
        except (EvaluatorUnavailable, ProgramError):  # the first one has compiled it: the machine is at its limit
            if evaluator is not self._first:
                self._free.remove(evaluator)
            return False
        except StoreError:  # unavailable now; perhaps not with the next request
            return False
