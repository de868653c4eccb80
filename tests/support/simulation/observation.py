"""Observe a simulated node: count what it does, and let the run fail if it logs an error."""

from __future__ import annotations

import contextlib
import logging
from collections import Counter
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

from demaq.engine.engine import Engine
from demaq.engine.round import Rounds
from tests.support.simulation.scheduler import Scheduler, Vanished


@contextlib.contextmanager
def count_work(counts: Counter[str]) -> Iterator[None]:
    """Count rounds begun ahead, and messages that were evaluated again or deferred."""
    start, evaluate_now, defer = Engine._start, Rounds.evaluate_now, Engine._defer

    def count_start(engine: Engine, batch: Any) -> None:
        counts["rounds ahead"] += 1
        start(engine, batch)

    def count_again(rounds: Rounds, batch: Any, deep: bool) -> Any:
        counts["evaluated again"] += len(batch)
        return evaluate_now(rounds, batch, deep)

    def count_deferred(engine: Engine) -> None:
        counts["deferred"] += len(engine._rounds.deferred)
        defer(engine)

    with (
        patch.object(Engine, "_start", count_start),
        patch.object(Rounds, "evaluate_now", count_again),
        patch.object(Engine, "_defer", count_deferred),
    ):
        yield


@contextlib.contextmanager
def fail_on_errors(scheduler: Scheduler) -> Iterator[None]:
    """Let the run fail if an error is logged: errors that can be expected are warnings."""

    class Failing(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            task, error = scheduler.current, record.exc_info and record.exc_info[1]
            if task is not None and not task.is_vanished and not isinstance(error, Vanished):
                scheduler.fail(f"logged by {task}: {self.format(record)}")

    handler = Failing(logging.ERROR)
    loggers = [logging.getLogger("demaq"), logging.getLogger("asyncio")]
    for logger in loggers:
        logger.addHandler(handler)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeHandler(handler)
