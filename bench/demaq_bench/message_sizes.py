"""W1 by the size of messages: what a step costs in a node and in hand-written code."""

from __future__ import annotations

import shutil
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from demaq_bench.baseline import TransformBaseline
from demaq_bench.comparison import Comparison
from demaq_bench.figures import Figure, Place
from demaq_bench.running_node import RunningNode
from demaq_bench.throughput import HAND_WRITTEN, PER_COMMIT_AIM, node_name
from demaq_bench.workloads import W1, Workload, large_transform_message, small_transform_message

GROUP = "message size"
COST, RATIO = "cost", "cost, hand-written = 1"
BYTES_MAX = 4_000_000
"""So much arrives in a run of large messages."""
MESSAGES_MIN = 10


def measure(
    sizes: Sequence[int], messages: int, runs: int, folder: Path, say: Callable[[str], None]
) -> Iterator[Figure]:
    """With messages of about so many bytes."""
    for size in sizes:
        say(f"messages of {size / 1000:g} KB")
        workload = make_workload(size)
        place = folder / f"size-{size}"
        with RunningNode(workload, place / "node") as node, TransformBaseline(place / "hand") as hand:
            comparison = Comparison(workload, {node_name("inline"): node, HAND_WRITTEN: hand})
            count = max(MESSAGES_MIN, min(messages, BYTES_MAX // size))
            comparison.measure({PER_COMMIT_AIM: count}, runs)
        shutil.rmtree(place)
        found = comparison.runs[PER_COMMIT_AIM]
        for name, each in found.items():
            at: Place = {"workload": W1.name, "bytes": size, "system": name}
            each_runs = tuple(each.microseconds)
            yield Figure(COST, statistics.median(each_runs), "µs/step", group=GROUP, at=at, runs=each_runs)
            if name != HAND_WRITTEN:
                ratios = each.times(found[HAND_WRITTEN])
                yield Figure(RATIO, statistics.median(ratios), "", group=GROUP, at=at, runs=ratios)


def make_workload(size: int) -> Workload:
    """W1 with messages of about so many bytes, 500 at least."""
    if size < len(W1.message(1)):
        return replace(W1, message=small_transform_message)
    return replace(W1, message=partial(large_transform_message, size=size))
