"""Several evaluator processes beside the node: as many rounds are evaluated at once.

The first one runs as long as the node does. The others are started when rounds have to wait for it, and are given
something to do when they are ready.
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
"""With more of them the node, which commits what they say, is what all wait for."""
LOOK_EVERY_SECONDS = 0.05
"""How often somebody who waits looks whether another process is ready."""


def evaluators_here() -> int:
    """How many processes this machine has use for."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, EVALUATORS_MAX)


def slow_lanes_here() -> int:
    """How many processes this machine has use for besides, for what takes long."""
    return max(1, evaluators_here() - 1)


class EvaluatorPool:
    """A RoundEvaluator that evaluates as many rounds at once as it has processes."""

    messages_max = ROUND_MESSAGES_MAX

    def __init__(self, first: ProcessEvaluator, size: int) -> None:
        """The first process is not closed with the others."""
        self._first = first
        self._others = [first.twin() for _ in range(size - 1)]
        self._free = [first, *self._others]
        self._given_back = threading.Condition()

    @property
    def rounds_max(self) -> int:
        return 1 + len(self._others)

    def check_when_idle(self) -> None:
        """Have native answers checked that wait for it, where nobody else asks something."""
        for evaluator in (self._first, *self._others):
            with self._given_back:
                if evaluator not in self._free or not evaluator.has_checks:
                    continue
                self._free.remove(evaluator)
            try:
                evaluator.check_when_idle()
            finally:
                self._give_back(evaluator)

    def close(self) -> None:
        for other in self._others:
            other.close()

    def run(self, request: RoundRequest) -> RoundResult:
        with self._borrow() as evaluator:
            return evaluator.run(request)

    @contextmanager
    def _borrow(self) -> Iterator[ProcessEvaluator]:
        with self._given_back:
            while (evaluator := self._next()) is None:
                self._given_back.wait(LOOK_EVERY_SECONDS)
            self._free.remove(evaluator)
        try:
            yield evaluator
        finally:
            self._give_back(evaluator)

    def _give_back(self, evaluator: ProcessEvaluator) -> None:
        with self._given_back:
            self._free.append(evaluator)
            self._given_back.notify()

    def _next(self) -> ProcessEvaluator | None:
        """One that has nothing to do and is ready; where there is none, others begin to start."""
        for evaluator in self._free:
            if self._is_ready(evaluator):
                return evaluator
        if self._first in self._free:
            return self._first  # it starts again when it is asked
        for evaluator in self._free:
            evaluator.launch()
        return None

    def _is_ready(self, evaluator: ProcessEvaluator) -> bool:
        try:
            return evaluator.is_ready()
        except (EvaluatorUnavailable, ProgramError):  # the first one has compiled it: this machine is at its limit
            if evaluator is not self._first:
                self._free.remove(evaluator)
            return False
        except StoreError:  # it is away now, and may be back when it is asked again
            return False
