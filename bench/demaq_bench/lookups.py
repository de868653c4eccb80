"""W3: what a message costs that looks something up in a queue, by how much lies there.

All sizes are asked in turns, so that what else the machine does is shared by all.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from demaq_bench.comparison import Comparison, compare, divide, run_all
from demaq_bench.contestant import BASELINES, HAND_WRITTEN, NODE, WorkloadName
from demaq_bench.figures import Figure, Place
from demaq_bench.throughput import PER_COMMIT, PER_COMMIT_AIM, RATIOS, arrivals

RATIO_TARGET = 0.6
"""How fast a node is to be; hand-written code = 1."""
FLAT_TARGET = 1.25
"""How many times the cost among the fewest it may cost among the most."""
GROUP = "look-ups"
COST, FLAT = "cost", "among the most, among the fewest = 1"


def measure(
    sizes: Sequence[int], look_ups: int, runs: int, folder: Path, say: Callable[[str], None]
) -> Iterator[Figure]:
    """With so many invoices, in rising order."""
    systems = (NODE, *BASELINES)
    with compare({WorkloadName("W3", size): systems for size in sizes}, folder, say) as started:
        found = {workload.invoices: comparison for workload, (comparison, _) in started.items()}
        say(f"W3, {runs} runs of {look_ups:,} messages, in turns")
        run_all(list(found.values()), [arrivals(look_ups)] * len(found), runs)
    for size, comparison in found.items():
        for per_commit in PER_COMMIT:
            for system in systems:
                at: Place = {"workload": "W3", "invoices": size, "per_commit": per_commit, "system": system}
                yield from _figures(at, system, per_commit, comparison)
    if len(sizes) > 1:
        for system in systems:
            fewest, most = (found[size].speeds(system, PER_COMMIT_AIM) for size in (sizes[0], sizes[-1]))
            growth = divide(fewest, most)
            at = {"workload": "W3", "per_commit": PER_COMMIT_AIM, "system": system}
            aim = f"at most {FLAT_TARGET}" if system == NODE else ""
            yield Figure(FLAT, statistics.median(growth), "", aim, GROUP, at=at, runs=growth)


def _figures(at: Place, system: str, per_commit: int, comparison: Comparison) -> Iterator[Figure]:
    milliseconds = tuple([1e3 / speed for speed in comparison.speeds(system, per_commit)])
    yield Figure(COST, statistics.median(milliseconds), "ms", group=GROUP, at=at, runs=milliseconds)
    if system != NODE:
        return
    for other, ratio in RATIOS.items():
        ratios = comparison.ratios(system, other, per_commit)
        is_aim = per_commit == PER_COMMIT_AIM and other == HAND_WRITTEN
        yield Figure(
            ratio,
            statistics.median(ratios),
            "",
            f"at least {RATIO_TARGET}" if is_aim else "",
            GROUP,
            at=at,
            runs=ratios,
        )
