"""How many examples the tests draw, and from which seed: one variable each for all tests of a run."""

from __future__ import annotations

import os

SEED_VARIABLE = "DEMAQ_TEST_SEED"
TIMES_VARIABLE = "DEMAQ_TEST_TIMES"
"""So many times the usual number of examples is drawn: `./test --long` sets it."""


def drawn_times() -> int:
    return int(os.environ.get(TIMES_VARIABLE, "1"))


def example_count(usual: int, variable: str) -> int:
    """Return how many examples a test draws: what its own variable says, or else the usual number, multiplied."""
    return int(os.environ.get(variable) or usual * drawn_times())


def run_seed() -> int:
    """Return the seed of this run, which is another one in every run that is not a repetition."""
    return int(os.environ[SEED_VARIABLE])
