"""Notes what became of messages, for many of them in one transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Executor

from demaq.scheduler.sending import Ended

TOGETHER_MAX = 500


class Recording:
    """Belongs to one event loop; writes in a thread of an executor, one transaction at a time."""

    def __init__(self, write: Callable[[Sequence[Ended]], None], executor: Executor) -> None:
        self._write = write
        self._executor = executor
        self._waiting: list[tuple[Ended, asyncio.Future[None]]] = []
        self._task: asyncio.Task[None] | None = None

    async def note(self, ended: Ended) -> None:
        """Durable on return. Raises what the store says."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((ended, done))
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._write_all())
        await done

    async def _write_all(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            together, self._waiting = self._waiting[:TOGETHER_MAX], self._waiting[TOGETHER_MAX:]
            failure = await loop.run_in_executor(self._executor, self._try, [ended for ended, _ in together])
            if failure is not None and len(together) > 1:  # one of them must not keep the others
                for ended, done in together:
                    alone = await loop.run_in_executor(self._executor, self._try, [ended])
                    _tell(done, alone)
                continue
            for _, done in together:
                _tell(done, failure)

    def _try(self, ended: Sequence[Ended]) -> Exception | None:
        try:
            self._write(ended)
        except Exception as failure:
            return failure
        return None


def _tell(done: asyncio.Future[None], failure: Exception | None) -> None:
    if done.done():
        return
    if failure is None:
        done.set_result(None)
    else:
        done.set_exception(failure)
