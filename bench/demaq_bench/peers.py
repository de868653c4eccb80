"""A node compared with hand-written programs, in one run: every ratio that a node is to reach, and whether it does.

Workloads with namespaces take turns with those without, so that they can be compared; nodes that evaluate otherwise
(Saxon alone, Spark) take turns with one inline.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from demaq_bench import conflicts, latency, lookups, throughput
from demaq_bench.contestant import NODE, NODE_SAXON, NODE_SPARK
from demaq_bench.figures import Figure

NODES = (NODE, NODE_SAXON, NODE_SPARK)
COMPARED: Sequence[Mapping[str, Sequence[str]]] = ({"W1": NODES, "W1n": (NODE,)}, {"W2": NODES, "W2n": (NODE,)})
"""Workloads that are compared in one go, with the nodes of each."""


@dataclass(frozen=True, slots=True)
class PeerSizes:
    """How much of everything."""

    messages: Mapping[str, int] = field(
        default_factory=lambda: {"W1": 20_000, "W1n": 20_000, "W2": 4_000, "W2n": 4_000}
    )
    look_ups: int = 5_000
    invoices: tuple[int, ...] = (1_000, 100_000, 1_000_000)
    conflicts: int = 600
    latency: int = 500


QUICK = PeerSizes(
    messages={"W1": 2_000, "W1n": 2_000, "W2": 400, "W2n": 400},
    look_ups=1_000,
    invoices=(1_000, 20_000),
    conflicts=100,
    latency=50,
)


def measure(
    sizes: PeerSizes, has_spark: bool, runs: int, folder: Path | None, say: Callable[[str], None]
) -> Iterator[Figure]:
    """Make everything in one folder, which is removed in the end. Without Spark it takes half the time."""
    with TemporaryDirectory(dir=folder, prefix="demaq-bench-") as own:
        place = Path(own)
        for systems in COMPARED:
            chosen = {
                name: [each for each in nodes if has_spark or each != NODE_SPARK] for name, nodes in systems.items()
            }
            yield from throughput.measure(chosen, sizes.messages, runs, place, say)
        yield from lookups.measure(sizes.invoices, sizes.look_ups, runs, place, say)
        if has_spark:
            yield from conflicts.measure(sizes.conflicts, runs, place, say)
        yield from latency.measure(sizes.latency, place, say, ("inline", "spark") if has_spark else ("inline",))
