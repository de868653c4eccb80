"""How many steps a second, and how many bytes written for each: the engine beside code written by hand.

Both do the same work in turns, several times, and must come to the same results. A step is one message processed; the
time includes that messages arrive durably and that what is done with is removed.
"""

from __future__ import annotations

import statistics
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from demaq.benchmarks.by_hand import BY_HAND, ByHand
from demaq.benchmarks.figures import Figure, WrongResult, written_bytes
from demaq.benchmarks.running_engine import RunningEngine
from demaq.benchmarks.workloads import RESTRICTIONS, W2, WORKLOADS, Workload, invoices, refused_requests

RUNS = 3
"""The figures are medians of so many."""
ARRIVALS = 500
"""So many messages arrive before they are processed."""
SINGLY_SHARE = 10
"""With one commit for each message, one in so many of the messages will do."""
COMMITS = {False: "one commit each", True: "grouped"}


class System(Protocol):
    """What is compared."""

    @property
    def made(self) -> Counter[str]: ...

    def receive(self, queue: str, bodies: Sequence[bytes], grouped: bool) -> None: ...

    def work(self, grouped: bool) -> int: ...


@dataclass(slots=True)
class _Runs:
    """What the runs of one system in one way of committing came to, each per step."""

    microseconds: list[float] = field(default_factory=list)
    written: list[float] = field(default_factory=list)


def measure(messages: int, folder: Path, say: Callable[[str], None]) -> Iterator[Figure]:
    """`messages` are processed in each run."""
    for workload in WORKLOADS:
        say(f"{workload.name}, {RUNS} runs of {messages:,} steps, the engine and by hand in turns")
        with (
            RunningEngine(workload.application, folder / f"{workload.name}-engine") as engine,
            BY_HAND[workload.name](folder / f"{workload.name}-by-hand") as by_hand,
        ):
            yield from _Comparison(workload, engine, by_hand).figures(messages)


def prepare(workload: Workload, engine: RunningEngine, by_hand: ByHand | None = None) -> None:
    """What is there before the first message arrives."""
    if workload is W2:
        engine.store.load_collection("legal", [RESTRICTIONS])
        for system in (engine, by_hand):
            if system is not None:
                system.receive("invoices", invoices(), grouped=True)


class _Comparison:
    def __init__(self, workload: Workload, engine: RunningEngine, by_hand: ByHand) -> None:
        self._workload = workload
        self._engine = engine
        self._systems: dict[str, System] = {"engine": engine, "by hand": by_hand}
        self._arrived = 0
        prepare(workload, engine, by_hand)

    def figures(self, messages: int) -> Iterator[Figure]:
        sizes = {grouped: self._arrivals(messages, grouped) for grouped in (False, True)}
        for grouped, size in sizes.items():
            self._run(size // 4 + 1, grouped, {name: _Runs() for name in self._systems})  # to warm up
        runs = {grouped: {name: _Runs() for name in self._systems} for grouped in sizes}
        parts: defaultdict[str, float] = defaultdict(float)
        for turn in range(RUNS):
            for grouped, size in sizes.items():
                self._engine.seconds.clear()
                self._run(size, grouped, runs[grouped], backwards=turn % 2 == 1)
                if grouped:
                    for part, seconds in self._engine.seconds.items():
                        parts[part] += seconds
        self._compare()
        for grouped in sizes:
            yield from self._speed(grouped, runs[grouped])
        yield self._breakdown(runs[True]["engine"], parts, sizes[True])

    def _arrivals(self, messages: int, grouped: bool) -> int:
        return max(1, messages // self._workload.steps // (1 if grouped else SINGLY_SHARE))

    def _run(self, size: int, grouped: bool, runs: dict[str, _Runs], backwards: bool = False) -> None:
        numbers = range(self._arrived, self._arrived + size)
        self._arrived += size
        bodies = [self._workload.message(number) for number in numbers]
        names = list(self._systems)
        for name in reversed(names) if backwards else names:
            written, started = written_bytes(), time.perf_counter()
            steps = self._process(self._systems[name], bodies, grouped)
            seconds = time.perf_counter() - started
            if steps != size * self._workload.steps:
                raise WrongResult(f"{self._workload.name}, {name}: {steps} steps for {size} messages")
            runs[name].microseconds.append(seconds / steps * 1e6)
            runs[name].written.append((written_bytes() - written) / steps)

    def _process(self, system: System, bodies: Sequence[bytes], grouped: bool) -> int:
        steps = 0
        for start in range(0, len(bodies), ARRIVALS):
            system.receive(self._workload.queue, bodies[start : start + ARRIVALS], grouped)
            steps += system.work(grouped)
        return steps

    def _compare(self) -> None:
        """Both must have made the same messages."""
        engine, by_hand = (dict(sorted(system.made.items())) for system in self._systems.values())
        if engine != by_hand:
            raise WrongResult(f"{self._workload.name}: the engine made {engine}, by hand it were {by_hand}")
        if self._workload is W2 and engine["refusal"] != refused_requests(self._arrived):
            raise WrongResult(f"W2: {engine['refusal']} refusals, not {refused_requests(self._arrived)}")

    def _speed(self, grouped: bool, runs: dict[str, _Runs]) -> Iterator[Figure]:
        group = f"{self._workload.name} {self._workload.about}, {COMMITS[grouped]}"
        speeds = {name: 1e6 / statistics.median(each.microseconds) for name, each in runs.items()}
        for name, speed in speeds.items():
            yield Figure(name, speed, "steps/s", group=group)
        yield Figure("the engine's speed, by hand = 1", speeds["engine"] / speeds["by hand"], "", group=group)
        for name, each in runs.items():
            yield Figure(f"{name}, written to disk", statistics.median(each.written), "bytes/step", group=group)

    def _breakdown(self, runs: _Runs, parts: dict[str, float], arrivals: int) -> Figure:
        """Where the engine's time goes."""
        steps = arrivals * self._workload.steps * RUNS
        shares = {name: seconds / steps * 1e6 for name, seconds in parts.items()}
        whole = statistics.mean(runs.microseconds)
        shares["validate and build"] = max(0.0, whole - sum(shares.values()))
        ordered = sorted(shares.items(), key=lambda part: -part[1])
        group = f"{self._workload.name} {self._workload.about}, {COMMITS[True]}"
        return Figure("a step of the engine, on average", whole, "µs", group=group, parts=tuple(ordered))
