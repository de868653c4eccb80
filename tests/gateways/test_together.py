"""What many ask for is done together, and one that is wrong does not keep the others."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from demaq.errors import StoreError
from demaq.gateways.outbox.batch_executor import BatchExecutor


async def asked(act: object, items: Sequence[int]) -> list[object]:
    with ThreadPoolExecutor(1) as thread:
        together: BatchExecutor[int, int] = BatchExecutor(act, thread)  # type: ignore[arg-type]
        return list(await asyncio.gather(*[together.do(item) for item in items], return_exceptions=True))


def test_those_who_ask_at_once_share_one_act():
    acts: list[list[int]] = []

    def double(items: Sequence[int]) -> list[int]:
        acts.append(list(items))
        return [2 * item for item in items]

    assert asyncio.run(asked(double, [1, 2, 3])) == [2, 4, 6]
    assert acts == [[1, 2, 3]]


def test_one_that_is_wrong_does_not_keep_the_others():
    def invert(items: Sequence[int]) -> list[int]:
        return [6 // item for item in items]

    one, wrong, three = asyncio.run(asked(invert, [1, 0, 3]))
    assert (one, three) == (6, 2)
    assert isinstance(wrong, ZeroDivisionError)


def test_a_fault_of_the_store_is_everybodys_and_is_not_tried_for_each():
    acts: list[list[int]] = []

    def fail(items: Sequence[int]) -> list[int]:
        acts.append(list(items))
        raise StoreError("the disk is full")

    answers = asyncio.run(asked(fail, [1, 2, 3]))
    assert [str(answer) for answer in answers] == ["the disk is full"] * 3
    assert len(acts) == 1
