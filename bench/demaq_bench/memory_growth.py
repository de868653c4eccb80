"""Memory of the node's process and of its evaluator's while many messages pass through: it must not grow for ever.

W2 runs, which uses everything: slices, resets, look-ups, garbage collection. The process that measures is the node's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from demaq_bench.breakdown import BURST, prepare
from demaq_bench.figures import Figure, WrongResult, resident_megabytes
from demaq_bench.running_engine import RunningEngine
from demaq_bench.workloads import W2

SAMPLES = 10


def measure(messages: int, folder: Path, say: Callable[[str], None]) -> Iterator[Figure]:
    say(f"memory over {messages:,} messages")
    node: list[float] = []
    evaluator: list[float] = []
    processes: set[int] = set()
    with RunningEngine(W2.application, folder / "memory") as engine:
        prepare(W2, engine)
        requests = max(SAMPLES, messages // W2.steps)
        steps = 0
        for sample in range(SAMPLES):
            steps += _process(engine, range(sample * requests // SAMPLES, (sample + 1) * requests // SAMPLES))
            node.append(resident_megabytes())
            processes.add(engine.evaluator_pid)
            evaluator.append(resident_megabytes(engine.evaluator_pid))
        if steps != requests * W2.steps:
            raise WrongResult(f"{steps} steps for {requests} requests")
    group = f"memory over {messages:,} messages"
    for name, samples in (("the node", node), ("its evaluator", evaluator)):
        yield Figure(f"{name}, after a tenth", samples[0], "MB", group=group)
        yield Figure(f"{name}, most", max(samples), "MB", group=group)
        yield Figure(f"{name}, in the end", samples[-1], "MB", "flat", group=group)
    yield Figure("evaluator processes, one after the other", len(processes), "", group=group)


def _process(engine: RunningEngine, numbers: range) -> int:
    steps = 0
    for start in range(0, len(numbers), BURST):
        engine.receive(W2.queue, [W2.message(number) for number in numbers[start : start + BURST]])
        steps += engine.work()
    return steps
