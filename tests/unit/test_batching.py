"""What is submitted while one batch is under way shares the next one, and one wrong item does not fail the others."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demaq.batching import AsyncBatcher, ThreadBatcher
from demaq.errors import StoreError

Batch = list[int]


def run_async(
    act: Callable[[Sequence[int]], Sequence[int]],
    items: Sequence[int],
    items_max: int = 500,
    size_max: int | None = None,
) -> list[object]:
    async def submit_all() -> list[object]:
        with ThreadPoolExecutor(1) as thread:
            batcher = AsyncBatcher(act, thread, items_max=items_max, size_max=size_max, size_of=lambda item: item)
            return list(await asyncio.gather(*[batcher.submit(item) for item in items], return_exceptions=True))

    return asyncio.run(submit_all())


def run_in_threads(act: Callable[[Sequence[int]], Sequence[int]], items: Sequence[int]) -> list[object]:
    batcher = ThreadBatcher(act)

    def submit(item: int) -> object:
        try:
            return batcher.submit(item)
        except Exception as error:
            return error

    with ThreadPoolExecutor(len(items)) as threads:
        return list(threads.map(submit, items))


fronts = pytest.mark.parametrize("run", [run_async, run_in_threads])


def test_what_is_submitted_at_once_is_one_batch():
    batches: list[Batch] = []

    def double(items: Sequence[int]) -> list[int]:
        batches.append(list(items))
        return [2 * item for item in items]

    assert run_async(double, [1, 2, 3]) == [2, 4, 6]
    assert batches == [[1, 2, 3]]


def test_threads_that_come_while_a_batch_is_under_way_share_the_next_one():
    sizes: list[int] = []
    first_is_acting, may_end = threading.Event(), threading.Event()

    def act(items: Sequence[int]) -> Sequence[int]:
        sizes.append(len(items))
        first_is_acting.set()
        assert may_end.wait(10)
        return items

    batcher = ThreadBatcher(act)
    first = threading.Thread(target=batcher.submit, args=[0])
    first.start()
    assert first_is_acting.wait(10)
    others = [threading.Thread(target=batcher.submit, args=[number]) for number in range(5)]
    for thread in others:
        thread.start()
    while batcher.waiting < 5:
        pass
    may_end.set()
    for thread in (first, *others):
        thread.join()
    assert sizes == [1, 5]


@given(
    st.lists(st.integers(min_value=0, max_value=20), min_size=1, max_size=40),
    st.integers(min_value=1, max_value=10),
    st.integers(min_value=1, max_value=50),
)
def test_batches_keep_the_order_and_their_limits(items: list[int], items_max: int, size_max: int):
    batches: list[Batch] = []

    def act(batch: Sequence[int]) -> list[int]:
        batches.append(list(batch))
        return [-item for item in batch]

    assert run_async(act, items, items_max=items_max, size_max=size_max) == [-item for item in items]
    assert [item for batch in batches for item in batch] == items
    assert all(len(batch) <= items_max for batch in batches)
    assert all(sum(batch) <= size_max or len(batch) == 1 for batch in batches)
    for batch, following in itertools.pairwise(batches):
        assert len(batch) == items_max or sum(batch) + following[0] > size_max, "a batch takes what there is room for"


@fronts
def test_one_wrong_item_does_not_fail_the_others(run: Callable[..., list[object]]):
    def invert(items: Sequence[int]) -> list[int]:
        return [6 // item for item in items]

    one, wrong, three = run(invert, [1, 0, 3])
    assert (one, three) == (6, 2)
    assert isinstance(wrong, ZeroDivisionError)


@fronts
def test_a_fault_of_the_store_fails_all_and_later_items_are_tried(run: Callable[..., list[object]]):
    batches: list[Batch] = []

    def fail(items: Sequence[int]) -> list[int]:
        batches.append(list(items))
        raise StoreError("the disk is full")

    results = run(fail, [1, 2, 3])
    assert [str(result) for result in results] == ["the disk is full"] * 3
    assert sorted([item for batch in batches for item in batch]) == [1, 2, 3], "none was tried alone"


def test_results_of_cancelled_callers_are_observed():
    observed: list[int] = []
    may_end = threading.Event()

    def act(items: Sequence[int]) -> Sequence[int]:
        assert may_end.wait(10)
        return items

    async def cancel_one() -> None:
        with ThreadPoolExecutor(1) as thread:
            batcher = AsyncBatcher(act, thread, observe=observed.extend)
            tasks = [asyncio.create_task(batcher.submit(item)) for item in (1, 2)]
            await asyncio.sleep(0)
            tasks[0].cancel()
            may_end.set()
            await batcher.drain()
            assert await tasks[1] == 2
            assert batcher.pending == 0

    asyncio.run(cancel_one())
    assert observed == [1, 2]


def test_an_executor_that_was_shut_down_fails_its_callers():
    async def submit() -> int:
        thread = ThreadPoolExecutor(1)
        thread.shutdown()
        batcher: AsyncBatcher[int, int] = AsyncBatcher(list, thread)
        return await batcher.submit(1)

    with pytest.raises(RuntimeError, match="shutdown"):
        asyncio.run(asyncio.wait_for(submit(), 10))


def test_a_caller_that_is_interrupted_leaves_no_other_waiting():
    others = 3
    batcher: ThreadBatcher[int, int]
    is_first = threading.Event()

    def act(items: Sequence[int]) -> Sequence[int]:
        if not is_first.is_set():
            is_first.set()
            while batcher.waiting < others:
                pass
            return items
        if len(items) == others:
            raise KeyboardInterrupt
        return items

    batcher = ThreadBatcher(act)
    ends: list[object] = []

    def submit(item: int) -> None:
        try:
            ends.append(batcher.submit(item))
        except BaseException as error:
            ends.append(type(error))

    threads = [threading.Thread(target=submit, args=(item,), daemon=True) for item in range(1 + others)]
    threads[0].start()
    assert is_first.wait(10)
    for thread in threads[1:]:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert sorted([str(end) for end in ends]) == sorted(
        ["0", str(KeyboardInterrupt), *[str(StoreError)] * (others - 1)]
    )


@pytest.mark.parametrize(
    ("urgent", "expected"),
    [
        pytest.param([False, False, True], [[0, 1, 2]], id="an urgent one"),
        pytest.param([False] * 4 + [True], [[0, 1, 2, 3, 4]], id="many, which have not begun"),
    ],
)
def test_items_that_are_not_urgent_wait_for_others(urgent: list[bool], expected: list[Batch]):
    assert run_lingering(urgent, linger_seconds=600.0, linger_items=4) == expected


def test_items_that_are_not_urgent_do_not_wait_if_there_are_many():
    assert run_lingering([False] * 4, linger_seconds=600.0, linger_items=4) == [[0, 1, 2, 3]]


def test_an_item_that_is_not_urgent_is_acted_on_after_a_while():
    assert run_lingering([False], linger_seconds=0.001, linger_items=4) == [[0]]


def run_lingering(urgent: list[bool], linger_seconds: float, linger_items: int) -> list[Batch]:
    """Submit items in different turns of the loop. Return the batches."""
    batches: list[Batch] = []

    def act(items: Sequence[int]) -> Sequence[int]:
        batches.append(list(items))
        return items

    async def submit_all() -> None:
        with ThreadPoolExecutor(1) as thread:
            batcher = AsyncBatcher(act, thread, linger_seconds=linger_seconds, linger_items=linger_items)
            futures = []
            for number, is_urgent in enumerate(urgent):
                futures.append(batcher.submit_soon(number, is_urgent=is_urgent))
                if number < 2:
                    await asyncio.sleep(0)
            assert await asyncio.gather(*futures) == list(range(len(urgent)))

    asyncio.run(asyncio.wait_for(submit_all(), 30.0))
    return batches


def run_callers(callers: int, rounds: int, pauses: Callable[[int, int], int], turns: int) -> list[int]:
    """Let callers submit an item each time that they got a result, after some turns of the loop. Return the sizes."""
    sizes: list[int] = []

    def act(items: Sequence[int]) -> Sequence[int]:
        sizes.append(len(items))
        return items

    async def call(batcher: AsyncBatcher[int, int], caller: int) -> None:
        for number in range(rounds):
            for _ in range(pauses(caller, number)):
                await asyncio.sleep(0)
            await batcher.submit(number)

    async def call_all() -> None:
        with ThreadPoolExecutor(1) as thread:
            batcher = AsyncBatcher(act, thread, turns=turns)
            await asyncio.gather(*[call(batcher, caller) for caller in range(callers)])

    asyncio.run(asyncio.wait_for(call_all(), 30.0))
    return sizes


def test_callers_that_come_again_soon_share_a_batch():
    sizes = run_callers(callers=5, rounds=20, pauses=lambda caller, number: caller if number else 0, turns=8)

    assert sizes == [5] * 20


def test_without_turns_no_batch_waits():
    sizes = run_callers(callers=5, rounds=20, pauses=lambda caller, number: caller * 100 if number else 0, turns=0)

    assert sum(sizes) == 100
    assert max(sizes[1:]) < 5


def test_one_caller_waits_for_no_other():
    waited = []

    async def call_all() -> None:
        with ThreadPoolExecutor(1) as thread:
            batcher: AsyncBatcher[int, int] = AsyncBatcher(lambda items: items, thread, turns=1_000_000)
            for number in range(5):
                waited.append(await batcher.submit(number))

    asyncio.run(asyncio.wait_for(call_all(), 30.0))
    assert waited == [0, 1, 2, 3, 4]


def test_who_does_not_come_again_is_waited_for_less_and_less():
    turned: list[int] = []

    async def call_all() -> None:
        with ThreadPoolExecutor(1) as thread:
            batcher: AsyncBatcher[int, int] = AsyncBatcher(lambda items: items, thread, turns=16)
            for _ in range(4):
                await asyncio.gather(*[batcher.submit(number) for number in range(2)])
                first = batcher.submit_soon(0)  # the other one of the two that are expected does not come
                turns = 0
                while batcher.waiting:
                    await asyncio.sleep(0)
                    turns += 1
                turned.append(turns)
                await first
                batcher._expected = 2

    asyncio.run(asyncio.wait_for(call_all(), 30.0))
    assert turned[0] > turned[-1]
    assert turned[0] <= 16 + 3
