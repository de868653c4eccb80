"""A backlog waits when a node starts: how fast it is worked off, and how much memory that takes.

The node is `demaq run` in a process of its own. Time runs from when it is ready, with Spark where it uses it, until all
of it is processed.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from demaq_bench.breakdown import prepare
from demaq_bench.figures import Figure, Place, WrongResult
from demaq_bench.node_process import NodeProcess
from demaq_bench.processes import PeakMemory
from demaq_bench.running_engine import RunningEngine
from demaq_bench.workloads import W1, W2, Workload

BACKLOG, CORES = "backlog", "cores"
SPEED, READY = "speed", "ready"
FILL_BATCH = 2_000
LOOK_SHARE = 0.01
"""How often it is looked: after so much of the time that has passed."""
LOOK_SECONDS_MIN, LOOK_SECONDS_MAX = 0.01, 0.5
START_SECONDS_MAX = 300.0
STALLED_SECONDS_MAX = 120.0
INLINE, SPARK = "node, inline", "node, spark"
TARGET_SPEED, TARGET_WAITING = 12_000, 1_000_000
"""How fast a node on Spark is to work off so many."""
SYSTEMS: Mapping[str, Sequence[str]] = {
    INLINE: ("--pipeline", "inline"),
    SPARK: ("--pipeline", "spark"),
}
"""With which options the node is run."""
CORE_SYSTEMS: Mapping[str, Sequence[str]] = {
    INLINE: ("--pipeline", "inline"),
    "node, spark local[1]": ("--pipeline", "spark", "--master", "local[1]"),
    "node, spark local[2]": ("--pipeline", "spark", "--master", "local[2]"),
}


@dataclass(frozen=True, slots=True)
class WorkedOff:
    ready_seconds: float
    steps_per_second: float
    megabytes: Mapping[str, float]


def measure_backlogs(
    sizes: Sequence[int], systems: Mapping[str, Sequence[str]], folder: Path, say: Callable[[str], None]
) -> Iterator[Figure]:
    """W1 with so many messages waiting."""
    for size in sizes:
        say(f"a backlog of {size:,} messages")
        filled = folder / f"backlog-{size}"
        fill(W1, filled, size)
        for name, options in systems.items():
            done = work_off(W1, filled, size, options, folder / f"backlog-{size}-run")
            at: Place = {"workload": W1.name, "waiting": size, "system": name}
            yield from _figures(BACKLOG, at, done)
        shutil.rmtree(filled)


def measure_cores(
    steps: int, systems: Mapping[str, Sequence[str]], folder: Path, say: Callable[[str], None]
) -> Iterator[Figure]:
    """W2, in a worker process and on Spark with one core and with two."""
    size = max(1, steps // W2.steps)
    filled = folder / "cores"
    fill(W2, filled, size)
    for name, options in systems.items():
        say(f"one core and two, {steps:,} steps: {name}")
        done = work_off(W2, filled, size, options, folder / "cores-run")
        yield from _figures(CORES, {"workload": W2.name, "waiting": size, "system": name}, done)
    shutil.rmtree(filled)


def _figures(group: str, at: Place, done: WorkedOff) -> Iterator[Figure]:
    is_aim = group == BACKLOG and at["system"] == SPARK and float(at["waiting"]) >= TARGET_WAITING
    yield Figure(SPEED, done.steps_per_second, "steps/s", f"at least {TARGET_SPEED}" if is_aim else "", group, at=at)
    yield Figure(READY, done.ready_seconds, "s", group=group, at=at)
    for role, megabytes in done.megabytes.items():
        yield Figure(f"memory, {role}", megabytes, "MB", group=group, at=at)


def fill(workload: Workload, store: Path, size: int) -> None:
    """So many messages wait in a new store."""
    with RunningEngine(workload.application, store) as engine:
        prepare(workload, engine)
        for first in range(0, size, FILL_BATCH):
            numbers = range(first, min(first + FILL_BATCH, size))
            engine.receive(workload.queue, [workload.message(number) for number in numbers])


def work_off(workload: Workload, filled: Path, size: int, options: Sequence[str], folder: Path) -> WorkedOff:
    """Let a new node work off a copy of a filled store."""
    store = Path(shutil.copytree(filled, folder / "store"))
    started = time.perf_counter()
    node = NodeProcess(workload.application, store, *options)
    try:
        remote = node.wait_until_running(START_SECONDS_MAX)
        ready = time.perf_counter()
        watch = PeakMemory(node.pid)
        seen, since = 0, ready
        while True:
            watch.look()
            status = remote.status()
            now = time.perf_counter()
            if status["processed"] >= size * workload.steps:
                break
            if status["processed"] > seen:
                seen, since = status["processed"], now
            elif now - since > STALLED_SECONDS_MAX:
                raise WrongResult(f"the node does not go on: {status['fault'] or node.said()}")
            time.sleep(min(max(LOOK_SHARE * (now - ready), LOOK_SECONDS_MIN), LOOK_SECONDS_MAX))
        if status["processed"] != size * workload.steps:
            raise WrongResult(f"{status['processed']} steps for {size} messages")
        node.stop()
        return WorkedOff(ready - started, status["processed"] / (now - ready), watch.megabytes)
    finally:
        node.kill()
        shutil.rmtree(folder)
