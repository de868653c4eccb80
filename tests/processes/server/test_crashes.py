"""A real node under load, killed with SIGKILL at random moments, and checked message by message."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from demaq_bench.crash import campaign

from tests.support.drawing import example_count

TRIALS = example_count(4, "CRASH_TRIALS")
TRIALS_PER_STORE = 2


@pytest.mark.slow
def test_a_node_that_is_killed_again_and_again_loses_nothing_and_does_nothing_twice(
    tmp_path: Path, chance: random.Random
) -> None:
    summary = campaign(TRIALS, chance.randrange(1_000_000), print, tmp_path, TRIALS_PER_STORE)

    assert summary.problems == []
    assert summary.trials == TRIALS
    assert summary.processed == summary.acknowledged > 0
    assert list(tmp_path.iterdir()) == []
