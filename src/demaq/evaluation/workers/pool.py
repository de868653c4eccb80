"""A pool of worker processes: as many rounds are evaluated at once.

The first worker runs as long as the node. The others are started when rounds have to wait, and used once they are
ready.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from demaq.errors import EvaluatorUnavailable, ProgramError, StoreError
from demaq.evaluation.round_request import RoundRequest, RoundResult
from demaq.evaluation.saxon.saxon_evaluator import ROUND_MESSAGES_MAX
from demaq.evaluation.workers.process import ProcessEvaluator

EVALUATORS_MAX = 4
"""With more workers the node is the bottleneck, since it commits all outcomes."""
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
    """A RoundEvaluator that evaluates as many rounds at once as it has processes."""

    messages_max = ROUND_MESSAGES_MAX

    def __init__(self, first: ProcessEvaluator, size: int) -> None:
        """The first evaluator is not closed with the pool."""
        self._first = first
        self._others = [first.twin() for _ in range(size - 1)]
        self._free = [first, *self._others]
        self._returned = threading.Condition()

    @property
    def rounds_max(self) -> int:
        return 1 + len(self._others)

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
        with self._borrow() as evaluator:
            return evaluator.run(request)

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
        """Return a free worker that is ready. If there is none, start others."""
        for evaluator in self._free:
            if self._is_ready(evaluator):
                return evaluator
        if self._first in self._free:
            return self._first  # it is started by the request
        for evaluator in self._free:
            evaluator.launch()
        return None

    def _is_ready(self, evaluator: ProcessEvaluator) -> bool:
        try:
            return evaluator.is_ready()
        except (EvaluatorUnavailable, ProgramError):  # the first one has compiled it: the machine is at its limit
            if evaluator is not self._first:
                self._free.remove(evaluator)
            return False
        except StoreError:  # unavailable now; perhaps not with the next request
            return False
