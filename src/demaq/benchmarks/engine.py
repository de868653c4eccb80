"""What the engine costs: throughput beside code written by hand, latency, growth, start and memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from demaq.benchmarks import latency, memory, retained, throughput
from demaq.benchmarks.figures import Figure


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much of everything."""

    messages: int = 1_000
    """Processed in each run of a workload."""
    retained: tuple[int, ...] = (1_000, 10_000, 100_000)
    latency: int = 100
    memory: int = 20_000


LARGE = Sizes(messages=10_000, retained=(1_000, 10_000, 100_000, 1_000_000), latency=1_000, memory=500_000)


def measure(sizes: Sizes, folder: Path | None, say: Callable[[str], None]) -> Iterator[Figure]:
    """All figures of the engine, one after the other. Stores are made in `folder`, and removed again."""
    with TemporaryDirectory(dir=folder, prefix="demaq-bench-") as own:
        stores = Path(own)
        yield from memory.measure(sizes.memory, stores, say)  # first: what others leave behind would be counted
        yield from throughput.measure(sizes.messages, stores, say)
        yield from latency.measure(sizes.latency, stores, say)
        yield from retained.measure(sizes.retained, stores, say)
