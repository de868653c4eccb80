"""Does things in a thread, many of them at once: what comes while the thread is busy is done together next."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import Generic, TypeVar

from demaq.errors import AlreadyProcessed, OperatorError

TOGETHER_MAX = 500

T = TypeVar("T")
R = TypeVar("R")


class BatchExecutor(Generic[T, R]):
    """Belongs to one event loop; acts in a thread of an executor, once at a time."""

    def __init__(self, act: Callable[[Sequence[T]], Sequence[R]], executor: Executor) -> None:
        """`act` answers for each of many, in order. Where it fails, nothing was done for any of them."""
        self._act = act
        self._executor = executor
        self._waiting: list[tuple[T, asyncio.Future[R]]] = []
        self._task: asyncio.Task[None] | None = None

    async def do(self, item: T) -> R:
        """Done on return. Raises what is wrong with this one, or with all."""
        done: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, done))
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._do_all())
        return await done

    async def _do_all(self) -> None:
        while self._waiting:
            together, self._waiting = self._waiting[:TOGETHER_MAX], self._waiting[TOGETHER_MAX:]
            failure = await self._try(together)
            if failure is None:
                continue
            if len(together) > 1 and _is_about_one(failure):
                for one in together:  # it must not keep the others
                    _fail([one], await self._try([one]))
            else:
                _fail(together, failure)

    async def _try(self, together: Sequence[tuple[T, asyncio.Future[R]]]) -> Exception | None:
        items = [item for item, _ in together]
        try:
            answers = await asyncio.get_running_loop().run_in_executor(self._executor, self._act, items)
        except Exception as failure:
            return failure
        for (_, done), answer in zip(together, answers, strict=True):
            if not done.done():  # who has asked may have gone
                done.set_result(answer)
        return None


def _is_about_one(failure: Exception) -> bool:
    """And not about the store, the disk or the evaluator, which fail for all."""
    return not isinstance(failure, OperatorError) or isinstance(failure, AlreadyProcessed)


def _fail(together: Sequence[tuple[T, asyncio.Future[R]]], failure: Exception | None) -> None:
    for _, done in together:
        if failure is not None and not done.done():
            done.set_exception(failure)
