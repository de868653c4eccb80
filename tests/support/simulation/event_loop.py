"""An event loop of asyncio that runs as one thread of a simulation, on its clock."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

from tests.support.simulation.primitives import SimulatedExecutor
from tests.support.simulation.scheduler import Scheduler, Vanished


class EventLoops:
    """Stands for the module `asyncio`; what it has not is that of the module."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio, name)

    def run(self, main: Coroutine[Any, Any, Any]) -> Any:
        """As asyncio.run, but a loop that vanishes ends none of its tasks."""
        loop = SimulatedLoop(self._scheduler)
        try:
            with asyncio.Runner(loop_factory=lambda: loop) as runner:
                return runner.run(main)
        except Vanished:
            for task in asyncio.all_tasks(loop):
                task._log_destroy_pending = False  # type: ignore[attr-defined]
                with suppress(BaseException):
                    task.get_coro().close()
            raise


class SimulatedLoop(asyncio.BaseEventLoop):
    """Waits for nothing but its own timers and other threads."""

    def __init__(self, scheduler: Scheduler) -> None:
        super().__init__()
        self._scheduler = scheduler
        self._is_woken = False
        self._selector = self
        self._executor: SimulatedExecutor | None = None

    def time(self) -> float:
        return self._scheduler.now

    def select(self, timeout: float | None) -> list[Any]:
        if timeout is not None and timeout <= 0:
            self._scheduler.point()
        else:
            self._scheduler.wait(lambda: self._is_woken, timeout)
        self._is_woken = False
        return []

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> Any:  # type: ignore[override]
        if executor is None:
            executor = self._executor = self._executor or SimulatedExecutor(self._scheduler, 4, "asyncio")
        return super().run_in_executor(executor, func, *args)

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        if self._executor is not None:
            self._executor.shutdown()

    def _process_events(self, event_list: list[Any]) -> None:
        pass

    def _write_to_self(self) -> None:
        self._is_woken = True
        task = self._scheduler.current
        if task is not None and not task.is_vanished:
            self._scheduler.point()
