"""Batching, as in group commit: what is submitted while one batch is under way is in the next batch.

So an item that comes alone is acted on at once, and a hundred that come together share the cost of reaching the disk.
There is a front for threads and one for an event loop. Both promise the same:

- items are acted on in the order in which they were submitted, one batch at a time;
- a batch has at most `items_max` items, and no more than `size_max` together unless the first one alone is larger;
- if a batch fails because of one item, each of its items is acted on alone, so that one wrong item does not fail the
  others; a fault of the store, the disk or the evaluator fails all of them at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

from demaq.errors import AlreadyProcessed, OperatorError, StoreError

ITEMS_MAX = 500
FEW = 32
"""A batch of fewer items may linger for others."""

INTERRUPTED = "the thread that acted on it was interrupted: it may have been done or not"

T = TypeVar("T")
R = TypeVar("R")
P = TypeVar("P")

Act: TypeAlias = Callable[[Sequence[T]], Sequence[R]]
"""Returns a result for each item, in order. If it raises, it has done nothing for any of them."""


@dataclass(frozen=True, slots=True)
class _ItemFailure:
    error: Exception


class _Waiting(Generic[P]):
    """Items that wait for a batch, in order."""

    def __init__(self, items_max: int, size_max: int | None = None, size_of: Callable[[P], int] | None = None) -> None:
        self._items_max = items_max
        self._size_max = size_max
        self._size_of = size_of
        self._items: list[P] = []

    def __len__(self) -> int:
        return len(self._items)

    def add(self, item: P) -> None:
        self._items.append(item)

    def take(self) -> list[P]:
        """Remove and return the next batch."""
        end = self._end()
        batch, self._items = self._items[:end], self._items[end:]
        return batch

    def _end(self) -> int:
        if self._size_max is None or self._size_of is None:
            return self._items_max
        size = 0
        for number, item in enumerate(self._items[: self._items_max]):
            size += self._size_of(item)
            if size > self._size_max and number:
                return number
        return self._items_max


class ThreadBatcher(Generic[T, R]):
    """Acts in the thread of one of the callers, for all that wait. May be called from any thread."""

    def __init__(self, act: Act[T, R], *, items_max: int = ITEMS_MAX) -> None:
        self._act = act
        self._waiting: _Waiting[tuple[T, Future[R]]] = _Waiting(items_max)
        self._list = threading.Lock()
        self._acting = threading.Lock()

    @property
    def waiting(self) -> int:
        """How many items wait for the next batch."""
        return len(self._waiting)

    def submit(self, item: T) -> R:
        """Return the result for this item after it was acted on. Raises what is wrong with it, or with all."""
        if self._acting.acquire(blocking=False):
            try:
                if not self._waiting:  # a caller that comes now waits for the lock
                    [result] = _run_batch(self._act, [item])
                    if isinstance(result, _ItemFailure):
                        raise result.error
                    return result
            finally:
                self._acting.release()
        future: Future[R] = Future()
        with self._list:
            self._waiting.add((item, future))
        with self._acting:
            while not future.done():  # otherwise another caller has acted for this one
                with self._list:
                    batch = self._waiting.take()
                futures = [future for _, future in batch]
                try:
                    _resolve(futures, _run_batch(self._act, [item for item, _ in batch]))
                except BaseException:  # this thread was interrupted, and acted for others
                    _resolve(futures, [_ItemFailure(StoreError(INTERRUPTED))] * len(futures))
                    raise
        return future.result()


class AsyncBatcher(Generic[T, R]):
    """Acts in a thread of an executor. Belongs to one event loop."""

    def __init__(
        self,
        act: Act[T, R],
        executor: Executor,
        *,
        items_max: int = ITEMS_MAX,
        size_max: int | None = None,
        size_of: Callable[[T], int] | None = None,
        turns: int = 0,
        linger_seconds: float = 0.0,
        linger_items: int = FEW,
        observe: Callable[[Sequence[R]], None] = lambda results: None,
    ) -> None:
        """`observe` gets the results of each batch, in the event loop, before their callers do: also those of callers
        that were cancelled. `turns` is for how many turns of the loop a batch that is smaller than expected waits for
        another item: callers that got their results often come again at once. `linger_seconds` is how long a batch of
        fewer than `linger_items` waits in which none is urgent."""
        self._act = act
        self._executor = executor
        self._items_max = items_max
        self._turns_max = self._turns = turns
        self._expected = 0
        """How many items there were when the last batch ended, with those in it."""
        self._linger_seconds = linger_seconds
        self._linger_items = linger_items
        self._hurry = asyncio.Event()
        """Set if an item is urgent, or there are many."""
        self._observe = observe
        measure = None if size_of is None else lambda pending: size_of(pending[0])
        self._waiting: _Waiting[tuple[T, asyncio.Future[R]]] = _Waiting(items_max, size_max, measure)
        self._running = 0
        self._task: asyncio.Task[None] | None = None

    @property
    def waiting(self) -> int:
        """How many items wait for the next batch."""
        return len(self._waiting)

    @property
    def pending(self) -> int:
        """How many items wait or are being acted on."""
        return len(self._waiting) + self._running

    async def submit(self, item: T) -> R:
        """Return the result for this item after it was acted on. Raises what is wrong with it, or with all."""
        return await self.submit_soon(item)

    def submit_soon(self, item: T, *, is_urgent: bool = True) -> asyncio.Future[R]:
        """Return a future of the result for this item. Others may be waited for if it is not urgent."""
        future: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._waiting.add((item, future))
        if is_urgent or len(self._waiting) >= self._linger_items:
            self._hurry.set()
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())
        return future

    async def drain(self) -> None:
        """Wait until all that was submitted has been acted on."""
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while self._waiting:
            if len(self._waiting) < self._expected:
                await self._wait_for_expected()
            if self._linger_seconds and len(self._waiting) < self._linger_items and not self._hurry.is_set():
                await self._linger()
            self._hurry.clear()
            batch = self._waiting.take()
            self._running = len(batch)
            results = await self._run_in_thread([item for item, _ in batch])
            self._running = 0
            self._expected = min(len(batch) + len(self._waiting), self._items_max) if self._turns else 0
            try:
                self._observe([result for result in results if not isinstance(result, _ItemFailure)])
            finally:
                _resolve([future for _, future in batch], results)

    async def _wait_for_expected(self) -> None:
        """Let the loop turn until as many items wait as are expected, or no more come.

        A few large batches take less time than many small ones, which are committed while others are read: two threads
        would take turns at the interpreter. If the others do not come, fewer turns are waited for them the next time.
        """
        known, left = len(self._waiting), self._turns
        while known < self._expected and left:
            await asyncio.sleep(0)
            if len(self._waiting) > known:
                known, left = len(self._waiting), self._turns
            else:
                left -= 1
        has_come = known >= self._expected
        self._turns = min(2 * self._turns, self._turns_max) if has_come else max(self._turns // 2, 1)

    async def _linger(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._linger_seconds):
                await self._hurry.wait()

    async def _run_in_thread(self, items: Sequence[T]) -> Sequence[R | _ItemFailure]:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._executor, _run_batch, self._act, items)
        except Exception as error:  # the executor was shut down
            return [_ItemFailure(error)] * len(items)


def _run_batch(act: Act[T, R], items: Sequence[T]) -> Sequence[R | _ItemFailure]:
    """Return for each item its result, or why it has none."""
    try:
        results = act(items)
        assert len(results) == len(items), "there is a result for each item"
        return results
    except Exception as error:
        if len(items) == 1 or not _concerns_one_item(error):
            return [_ItemFailure(error)] * len(items)
    return [result for item in items for result in _run_batch(act, [item])]


def _concerns_one_item(error: Exception) -> bool:
    """Return False if it is about the store, the disk or the evaluator, which fail for all."""
    return not isinstance(error, OperatorError) or isinstance(error, AlreadyProcessed)


def _resolve(futures: Sequence[Future[R] | asyncio.Future[R]], results: Sequence[R | _ItemFailure]) -> None:
    for future, result in zip(futures, results, strict=True):
        if future.done():  # its caller was cancelled
            continue
        if isinstance(result, _ItemFailure):
            future.set_exception(result.error)
        else:
            future.set_result(result)
