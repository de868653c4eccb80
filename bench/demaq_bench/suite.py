"""What a node does in a second compared with hand-written code, how that grows, and how long one message takes.

Everything is made in one folder, which is removed in the end, and measured one thing at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from demaq_bench import backlog, breakdown, latency, lookups, message_sizes, retained, rules_per_queue, throughput
from demaq_bench.figures import Figure
from demaq_bench.workloads import find_workload

WORKLOADS = ("W1", "W2", "W1n", "W2n", "W3")
CURVES = ("backlog", "retained", "rules", "size", "cores")
LATENCY = "latency"


@dataclass(frozen=True, slots=True)
class PipelineSizes:
    """How much of everything."""

    steps: int = 12_000
    """In each run of a workload other than W3."""
    look_ups: int = 3_000
    """In each run of W3."""
    invoices: tuple[int, ...] = (1_000, 10_000, 100_000)
    backlog: tuple[int, ...] = (1_000, 10_000)
    retained: tuple[int, ...] = (1_000, 10_000, 100_000)
    rules: tuple[int, ...] = (1, 10, 100, 1_000)
    rules_messages: int = 500
    message_bytes: tuple[int, ...] = (500, 4_000, 32_000, 256_000)
    size_messages: int = 500
    cores_steps: int = 8_000
    latency: int = 200


LARGE = PipelineSizes(
    steps=20_000,
    invoices=(1_000, 10_000, 100_000, 1_000_000),
    backlog=(1_000, 10_000, 100_000, 1_000_000),
    retained=(1_000, 10_000, 100_000, 1_000_000),
    rules_messages=2_000,
    message_bytes=(500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 64_000, 128_000, 256_000),
    size_messages=2_000,
    cores_steps=80_000,
    latency=1_000,
)


def measure(
    parts: Sequence[str],
    nodes: Sequence[str],
    sizes: PipelineSizes,
    runs: int,
    folder: Path | None,
    say: Callable[[str], None],
) -> Iterator[Figure]:
    """Yield the figures of those parts: workloads with those nodes, curves, latency."""
    with TemporaryDirectory(dir=folder, prefix="demaq-bench-") as own:
        stores = Path(own)
        for part in (LATENCY, *WORKLOADS, *CURVES):
            if part in parts:
                yield from _part(part, nodes, sizes, runs, stores, say)


def _part(
    part: str,
    nodes: Sequence[str],
    sizes: PipelineSizes,
    runs: int,
    folder: Path,
    say: Callable[[str], None],
) -> Iterator[Figure]:
    match part:
        case "W3":
            yield from lookups.measure(sizes.invoices, sizes.look_ups, runs, folder, say)
            yield from breakdown.measure(find_workload("W3", breakdown.INVOICES), sizes.look_ups, folder, say)
        case name if name in WORKLOADS:
            workload = find_workload(name)
            yield from throughput.measure({name: nodes}, {name: sizes.steps // workload.steps}, runs, folder, say)
            yield from breakdown.measure(workload, sizes.steps, folder, say)
        case "latency":
            yield from latency.measure(sizes.latency, folder, say)
        case "backlog":
            yield from backlog.measure_backlogs(sizes.backlog, backlog.SYSTEMS, folder, say)
        case "retained":
            yield from retained.measure(sizes.retained, folder, say)
        case "rules":
            yield from rules_per_queue.measure(sizes.rules, sizes.rules_messages, runs, folder, say)
        case "size":
            yield from message_sizes.measure(sizes.message_bytes, sizes.size_messages, runs, folder, say)
        case "cores":
            yield from backlog.measure_cores(sizes.cores_steps, backlog.CORE_SYSTEMS, folder, say)
        case _:
            raise AssertionError(f"unknown part {part}")
