"""How many messages a second, compared with hand-written code; what they cost in CPU time and bytes written.

The time of a message includes that it arrives durably, and all that comes of it until its answer is durable.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from demaq_bench.comparison import Comparison, compare, divide, run_all
from demaq_bench.contestant import (
    BASELINES,
    FUSED,
    FUSED_POOL,
    HAND_WRITTEN,
    NODE,
    NODE_SAXON,
    NODE_SPARK,
    Turn,
    WorkloadName,
)
from demaq_bench.figures import Figure, Place

PER_COMMIT = (100, 1)
"""So many messages arrive in one transaction."""
PER_COMMIT_AIM = 100
ALONE_SHARE = 10
"""Where each message has a transaction of its own, one in so many will do."""
GROUP = "throughput"
SPEED, WRITTEN = "speed", "written"
OWN_CPU, OTHER_CPU = "CPU, own process", "CPU, other processes"
RATIO = "ratio"
RATIOS = {HAND_WRITTEN: RATIO, FUSED: "ratio, fused", FUSED_POOL: "ratio, fused, 2 evaluators"}
"""By what a node is compared with."""
TARGETS: Mapping[tuple[str, str, int, str], float] = {
    ("W1", NODE, 100, HAND_WRITTEN): 1.3,
    ("W1", NODE, 100, FUSED_POOL): 0.7,
    ("W1", NODE, 1, HAND_WRITTEN): 1.5,
    ("W2", NODE, 100, HAND_WRITTEN): 1.5,
    ("W2", NODE, 1, HAND_WRITTEN): 2.5,
    ("W1", NODE_SAXON, 100, HAND_WRITTEN): 0.45,
    ("W2", NODE_SAXON, 100, HAND_WRITTEN): 0.6,
}
"""How fast a node is to be on a workload, with so many per commit, if that program is 1."""
PLAIN = {"W1n": "W1", "W2n": "W2"}
PLAIN_RATIO, PLAIN_TARGET = "ratio, without namespaces", 0.8
"""How fast a node is with namespaces and more, compared with itself without."""
INLINE_RATIO, INLINE_TARGET = "ratio, inline", 0.95
"""How fast a node on Spark is, compared with one inline."""


def measure(
    systems: Mapping[str, Sequence[str]],
    messages: Mapping[str, int],
    runs: int,
    folder: Path,
    say: Callable[[str], None],
) -> Iterator[Figure]:
    """Compare systems on workloads that are named; so many messages arrive in each run.

    All take turns. Hand-written programs are always among them.
    """
    names = {
        name: (*[each for each in chosen if each not in BASELINES], *BASELINES) for name, chosen in systems.items()
    }
    with compare({WorkloadName(name): chosen for name, chosen in names.items()}, folder, say) as started:
        found = {workload.name: comparison for workload, (comparison, _) in started.items()}
        for workload, (_, seconds) in started.items():
            for system, ready in seconds.items():
                if system not in BASELINES:
                    at: Place = {"workload": workload.name, "system": system}
                    yield Figure("ready", ready, "s", group="start", at=at)
        counts = [arrivals(messages[name]) for name in found]
        say(f"{', '.join(found)}, {runs} runs of {', '.join([f'{messages[n]:,}' for n in found])} messages, in turns")
        run_all(list(found.values()), counts, runs)
    for name, comparison in found.items():
        for per_commit in PER_COMMIT:
            for system in names[name]:
                yield from _figures(name, system, per_commit, comparison)
                yield from _relations(name, system, per_commit, found)


def _figures(workload: str, system: str, per_commit: int, comparison: Comparison) -> Iterator[Figure]:
    at: Place = {"workload": workload, "per_commit": per_commit, "system": system}
    speeds = comparison.speeds(system, per_commit)
    yield Figure(SPEED, statistics.median(speeds), "messages/s", group=GROUP, at=at, runs=speeds)
    turns = comparison.turns[per_commit][system]
    yield _median(OWN_CPU, "µs/message", at, turns, lambda turn: turn.own_cpu_seconds * 1e6)
    yield _median(OTHER_CPU, "µs/message", at, turns, lambda turn: turn.other_cpu_seconds * 1e6)
    yield _median(WRITTEN, "bytes/message", at, turns, lambda turn: turn.written)
    if system in BASELINES:
        return
    for other, ratio in RATIOS.items():
        ratios = comparison.ratios(system, other, per_commit)
        least = TARGETS.get((workload, system, per_commit, other))
        aim = f"at least {least}" if least is not None else ""
        yield Figure(ratio, statistics.median(ratios), "", aim, GROUP, at=at, runs=ratios)


def _relations(workload: str, system: str, per_commit: int, found: Mapping[str, Comparison]) -> Iterator[Figure]:
    """Yield how one node is compared with another."""
    at: Place = {"workload": workload, "per_commit": per_commit, "system": system}
    mine = found[workload].speeds(system, per_commit)
    plain = found.get(PLAIN.get(workload, ""))
    if plain is not None and system == NODE:
        ratios = divide(mine, plain.speeds(system, per_commit))
        aim = f"at least {PLAIN_TARGET}" if per_commit == PER_COMMIT_AIM else ""
        yield Figure(PLAIN_RATIO, statistics.median(ratios), "", aim, GROUP, at=at, runs=ratios)
    if system == NODE_SPARK and NODE in found[workload].turns[per_commit]:
        ratios = found[workload].ratios(system, NODE, per_commit)
        aim = f"at least {INLINE_TARGET}" if per_commit == PER_COMMIT_AIM else ""
        yield Figure(INLINE_RATIO, statistics.median(ratios), "", aim, GROUP, at=at, runs=ratios)


def _median(name: str, unit: str, at: Place, turns: Sequence[Turn], amount: Callable[[Turn], float]) -> Figure:
    """Return a figure for each message."""
    each = tuple([amount(turn) / turn.messages for turn in turns])
    return Figure(name, statistics.median(each), unit, group=GROUP, at=at, runs=each)


def arrivals(messages: int) -> dict[int, int]:
    """Return how many messages arrive in a run, by how many come in one transaction."""
    return {n: max(1, messages // ALONE_SHARE if n == 1 else messages) for n in PER_COMMIT}
