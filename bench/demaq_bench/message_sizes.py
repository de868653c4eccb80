"""W1 by the size of messages: what one costs in a node and in hand-written code."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from demaq_bench.comparison import compare, run_all
from demaq_bench.contestant import HAND_WRITTEN, NODE, WorkloadName
from demaq_bench.figures import Figure, Place
from demaq_bench.throughput import PER_COMMIT_AIM, RATIO

GROUP = "message size"
COST = "cost"
BYTES_MAX = 4_000_000
"""So much arrives in a run of large messages."""
MESSAGES_MIN = 10


def measure(
    sizes: Sequence[int], messages: int, runs: int, folder: Path, say: Callable[[str], None]
) -> Iterator[Figure]:
    """With messages of about so many bytes."""
    for size in sizes:
        with compare({WorkloadName("W1", size=size): (NODE, HAND_WRITTEN)}, folder, say) as started:
            ((comparison, _),) = started.values()
            run_all([comparison], [{PER_COMMIT_AIM: max(MESSAGES_MIN, min(messages, BYTES_MAX // size))}], runs)
        for name in (NODE, HAND_WRITTEN):
            at: Place = {"workload": "W1", "bytes": size, "system": name}
            costs = tuple([1e6 / speed for speed in comparison.speeds(name, PER_COMMIT_AIM)])
            yield Figure(COST, statistics.median(costs), "µs/message", group=GROUP, at=at, runs=costs)
            if name == NODE:
                ratios = comparison.ratios(NODE, HAND_WRITTEN, PER_COMMIT_AIM)
                yield Figure(RATIO, statistics.median(ratios), "", group=GROUP, at=at, runs=ratios)
