"""A real node under load, killed with SIGKILL at random moments, and checked message by message."""

from __future__ import annotations

from pathlib import Path

import pytest

from demaq.benchmarks.crash import campaign

TRIALS = 20
TRIALS_PER_STORE = 10
SEED = 7


@pytest.mark.slow
def test_a_node_that_is_killed_again_and_again_loses_nothing_and_does_nothing_twice(tmp_path: Path) -> None:
    summary = campaign(TRIALS, SEED, print, tmp_path, TRIALS_PER_STORE)

    assert summary.problems == []
    assert summary.trials == TRIALS
    assert summary.processed == summary.acknowledged > 0
    assert list(tmp_path.iterdir()) == []
