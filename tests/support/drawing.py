"""How many examples the tests draw, and from which seed: one variable each for all tests of a run."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterable, Iterator

SEED_VARIABLE = "DEMAQ_TEST_SEED"
TIMES_VARIABLE = "DEMAQ_TEST_TIMES"
"""So many times the usual number of examples is drawn: `./test` sets a quarter, `./test --long` more than once."""

SAMPLING_VARIABLE = "DEMAQ_TEST_SAMPLED"
"""Set by `./test` for runs of all tests: of tests that are marked as sampled, some cases are run."""
SLOW_VARIABLE = "DEMAQ_TEST_SLOW"
"""Set by `./test --some`: of the files with slow tests, some are run."""
MOST_TIMES = 25


def drawn_times() -> float:
    return float(os.environ.get(TIMES_VARIABLE, "1"))


def example_count(usual: int, variable: str) -> int:
    """Return how many examples a test draws: what its own variable says, or else the usual number, multiplied."""
    return int(os.environ.get(variable) or max(1, usual * drawn_times()))


def draw_until(is_enough: Callable[[], bool], usual: int, variable: str) -> Iterator[None]:
    """Yield once for each example to draw: their usual number, and on until all that must occur has occurred.

    What is rare would otherwise be missing from a short run now and then. The bound lets a test fail in which it never
    occurs.
    """
    for drawn in range(MOST_TIMES * max(usual, count := example_count(usual, variable))):
        if drawn >= count and is_enough():
            return
        yield


def run_seed() -> int:
    """Return the seed of this run, which is another one in every run that is not a repetition."""
    return int(os.environ[SEED_VARIABLE])


def draw_cases(cases: Iterable[str], count: int) -> list[str]:
    """Return all cases of an expensive test, or so many of them, others in every run, if it is to be quick."""
    found = sorted(cases)
    return found if drawn_times() >= 1 else sorted(random.Random(run_seed()).sample(found, count))
