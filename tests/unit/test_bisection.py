"""Bisection finds exactly the items that make a batch fail, in few attempts, and keeps the order of results."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from demaq.bisection import bisect, bisect_batches


class Attempts:
    """A batch fails if it holds a bad item, as when it ends the process that evaluates it."""

    def __init__(self, bad: set[int]) -> None:
        self.bad = bad
        self.batches: list[list[int]] = []
        self.calls = 0

    def run(self, batch: Sequence[int]) -> list[str]:
        self.batches.append(list(batch))
        culprits = self.bad.intersection(batch)
        if culprits:
            raise ArithmeticError(min(culprits))
        return [f"done {item}" for item in batch]

    def run_all(self, batches: Sequence[Sequence[int]]) -> list[list[str] | Exception]:
        self.calls += 1
        found: list[list[str] | Exception] = []
        for batch in batches:
            try:
                found.append(self.run(batch))
            except ArithmeticError as error:
                found.append(error)
        return found


def isolate(batch: Sequence[int], error: Exception) -> list[str]:
    return [f"refused {item}: {error}" for item in batch]


def expected(items: Sequence[int], bad: set[int]) -> list[str]:
    return [f"refused {item}: {item}" if item in bad else f"done {item}" for item in items]


sizes_and_bad = st.integers(0, 200).flatmap(
    lambda size: st.tuples(st.just(size), st.sets(st.integers(0, max(size - 1, 0)), max_size=8))
)


@given(sizes_and_bad)
def test_exactly_the_bad_items_are_isolated_and_results_keep_their_order(case: tuple[int, set[int]]):
    size, bad = case
    items, bad = list(range(size)), bad if size else set()
    attempts = Attempts(bad)
    event(f"{min(len(bad), 3)} bad items or more")

    assert bisect(items, attempts.run, isolate, errors=ArithmeticError) == expected(items, bad)
    # One attempt for the whole batch, and at most two for each bad item on every level below it.
    assert len(attempts.batches) <= 1 + 2 * len(bad) * math.ceil(math.log2(max(size, 2)))
    assert len(attempts.batches) <= 2 * max(size, 1)


@given(st.lists(st.integers(1, 40), max_size=6), st.data())
def test_failed_batches_are_halved_together(sizes: list[int], data: st.DataObject):
    items = list(range(sum(sizes)))
    bad = data.draw(st.sets(st.sampled_from(items), max_size=5)) if items else set()
    starts = [sum(sizes[:number]) for number in range(len(sizes))]
    attempts = Attempts(bad)

    found = bisect_batches(
        [items[start : start + size] for start, size in zip(starts, sizes, strict=True)], attempts.run_all, isolate
    )
    assert found == expected(items, bad)
    assert attempts.calls <= 1 + math.ceil(math.log2(max(sizes, default=1)))


@given(sizes_and_bad, st.integers(1, 5))
def test_no_batch_of_the_smallest_size_is_halved(case: tuple[int, set[int]], size_min: int):
    size, bad = case
    attempts = Attempts(bad)
    isolated: list[int] = []

    def note(batch: Sequence[int], error: Exception) -> list[str]:
        assert len(batch) <= size_min
        isolated.append(len(batch))
        return isolate(batch, error)

    found = bisect(list(range(size)), attempts.run, note, errors=ArithmeticError, size_min=size_min)
    assert len(found) == size
    assert len(isolated) <= len(bad)


def test_other_errors_are_passed_on():
    def fail(batch: Sequence[int]) -> list[str]:
        raise LookupError("not a matter of one item")

    with pytest.raises(LookupError):
        bisect([1, 2], fail, isolate, errors=ArithmeticError)
