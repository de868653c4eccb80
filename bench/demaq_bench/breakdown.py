"""Where the time of a step goes: the engine without a thread of its own, with a watch on each of its parts."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from demaq_bench.figures import Figure
from demaq_bench.running_engine import RunningEngine
from demaq_bench.workloads import Workload

WARM_UP_SHARE = 3
BURST = 500
"""So many messages arrive before they are processed."""
INVOICES = 10_000
"""So many lie there for W3."""
GROUP = "a step"


def measure(workload: Workload, steps: int, folder: Path, say: Callable[[str], None]) -> Iterator[Figure]:
    say(f"{workload.name} {workload.about}: where the time goes")
    store = folder / f"{workload.name}-parts"
    with RunningEngine(workload.application, store) as engine:
        prepare(workload, engine)
        arrivals = max(1, steps // workload.steps)
        first = arrivals // WARM_UP_SHARE
        _process(engine, workload, range(first))
        engine.seconds.clear()
        started = time.perf_counter()
        done = _process(engine, workload, range(first, first + arrivals))
        whole = (time.perf_counter() - started) / done * 1e6
    shutil.rmtree(store)
    parts = {name: seconds / done * 1e6 for name, seconds in engine.seconds.items()}
    parts["validate and build"] = max(0.0, whole - sum(parts.values()))
    ordered = tuple(sorted(parts.items(), key=lambda part: -part[1]))
    yield Figure("time", whole, "µs", group=GROUP, at={"workload": workload.name}, parts=ordered)


def prepare(workload: Workload, engine: RunningEngine) -> None:
    """What is there before the first message arrives."""
    engine.receive("invoices", [body for _, body in workload.stock()])


def _process(engine: RunningEngine, workload: Workload, numbers: range) -> int:
    steps = 0
    for start in range(0, len(numbers), BURST):
        engine.receive(workload.queue, [workload.message(number) for number in numbers[start : start + BURST]])
        steps += engine.work()
    return steps
