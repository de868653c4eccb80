"""What a node costs besides what it processes: its start, and memory in the long run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from demaq_bench import memory_growth, retained
from demaq_bench.figures import Figure


@dataclass(frozen=True, slots=True)
class EngineSizes:
    """How much of everything."""

    retained: int = 100_000
    """How many messages are there when the node starts."""
    memory: int = 20_000
    """Over so many messages memory is watched."""


LARGE = EngineSizes(retained=1_000_000, memory=500_000)


def measure(sizes: EngineSizes, folder: Path | None, say: Callable[[str], None]) -> Iterator[Figure]:
    """Yield all figures of the engine, one after the other. Stores are made in `folder`, and removed again."""
    with TemporaryDirectory(dir=folder, prefix="demaq-bench-") as own:
        stores = Path(own)
        yield from memory_growth.measure(sizes.memory, stores, say)  # first: it would count what others leave
        yield from retained.measure_starts(sizes.retained, stores, say)
