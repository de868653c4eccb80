"""Find the items that make a batch fail: try the batch, and if it fails its halves, down to single items.

For few bad items among n this takes about 2 log2(n) attempts for each of them, where trying every item alone takes n.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def bisect(
    items: Sequence[Item],
    attempt: Callable[[Sequence[Item]], Sequence[Result]],
    isolate: Callable[[Sequence[Item], Exception], Sequence[Result]],
    *,
    errors: type[Exception] | tuple[type[Exception], ...],
    size_min: int = 1,
) -> list[Result]:
    """Return the results of `attempt` for all items, in order.

    `attempt` returns one result for each item, or raises one of `errors`. `isolate` returns the results for a batch
    that has failed and is not halved: of `size_min` items at most.
    """

    def attempt_all(batches: Sequence[Sequence[Item]]) -> list[Sequence[Result] | Exception]:
        return [_result_or_error(attempt, batch, errors) for batch in batches]

    return bisect_batches([items] if items else [], attempt_all, isolate, size_min=size_min)


def bisect_batches(
    batches: Sequence[Sequence[Item]],
    attempt_all: Callable[[Sequence[Sequence[Item]]], Sequence[Sequence[Result] | Exception]],
    isolate: Callable[[Sequence[Item], Exception], Sequence[Result]],
    *,
    size_min: int = 1,
) -> list[Result]:
    """Return the results for the items of all batches, in order, where batches are tried several at a time.

    `attempt_all` returns for each batch one result for each of its items, or the exception with which it has failed.
    The halves of all failed batches are tried by one call, so that they may run in parallel.
    """
    done: dict[tuple[int, int], Sequence[Result]] = {}
    waiting = [((number, 0), batch) for number, batch in enumerate(batches)]
    while waiting:
        failed = []
        for (place, batch), found in zip(waiting, attempt_all([batch for _, batch in waiting]), strict=True):
            if not isinstance(found, Exception):
                done[place] = found
            elif len(batch) <= size_min:
                done[place] = isolate(batch, found)
            else:
                failed.append((place, batch))
        waiting = [half for (number, start), batch in failed for half in _halve(number, start, batch)]
    return [result for place in sorted(done) for result in done[place]]


def _halve(number: int, start: int, batch: Sequence[Item]) -> list[tuple[tuple[int, int], Sequence[Item]]]:
    middle = len(batch) // 2
    return [((number, start), batch[:middle]), ((number, start + middle), batch[middle:])]


def _result_or_error(
    attempt: Callable[[Sequence[Item]], Sequence[Result]],
    batch: Sequence[Item],
    errors: type[Exception] | tuple[type[Exception], ...],
) -> Sequence[Result] | Exception:
    try:
        return attempt(batch)
    except errors as error:
        return error
