"""What conflicts cost: messages each of which depends on the one before, inline and on Spark.

They are evaluated at once, and nearly all of them again. What is evaluated again must not take the way of a large
batch. The slice that all join grows, so every run begins with new stores.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from pathlib import Path

from demaq_bench.comparison import compare
from demaq_bench.contestant import NODE, NODE_SPARK, WorkloadName
from demaq_bench.figures import Figure, Place
from demaq_bench.throughput import PER_COMMIT_AIM
from demaq_bench.workloads import CONFLICTS

GROUP = "conflicts"
COST, RATIO = "cost", "cost, inline = 1"
RATIO_TARGET = 1.5


def measure(messages: int, runs: int, folder: Path, say: Callable[[str], None]) -> Iterator[Figure]:
    systems = (NODE, NODE_SPARK)
    costs: dict[str, list[float]] = {name: [] for name in systems}
    for run in range(runs):
        with compare({WorkloadName(CONFLICTS.name): systems}, folder / f"conflicts-{run}", say) as started:
            ((comparison, _),) = started.values()
            comparison.run({PER_COMMIT_AIM: messages})
        for name in systems:
            costs[name] += [1e3 / speed for speed in comparison.speeds(name, PER_COMMIT_AIM)]
    for name in systems:
        at: Place = {"messages": messages, "system": name}
        yield Figure(COST, statistics.median(costs[name]), "ms/message", group=GROUP, at=at, runs=tuple(costs[name]))
    ratios = tuple([spark / inline for inline, spark in zip(*[costs[name] for name in systems], strict=True)])
    at = {"messages": messages, "system": NODE_SPARK}
    yield Figure(RATIO, statistics.median(ratios), "", f"at most {RATIO_TARGET}", GROUP, at=at, runs=ratios)
