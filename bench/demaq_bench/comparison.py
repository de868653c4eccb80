"""Let several systems do the same work in turns, and see that they come to the same results.

Turns are short, and every other time they are taken backwards: what else the machine does is shared by all.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from lxml import etree

from demaq_bench.figures import WrongResult, written_bytes
from demaq_bench.workloads import W2, Workload, refused_requests


class System(Protocol):
    """What is compared."""

    def process_all(self, queue: str, bodies: Sequence[bytes], per_commit: int) -> int: ...

    def new_answers(self) -> list[str] | None:
        """Return what has come out since it was last asked; None if that is unknown."""


@dataclass(slots=True)
class Runs:
    """What one system has needed."""

    microseconds: list[float] = field(default_factory=list)
    """For each step; one figure for each run."""
    written: list[float] = field(default_factory=list)
    """Bytes for each step."""

    def times(self, other: Runs) -> tuple[float, ...]:
        """Return how many times as long as another one it took, turn by turn: what disturbs one turn disturbs both."""
        return tuple([mine / theirs for mine, theirs in zip(self.microseconds, other.microseconds, strict=True)])

    @property
    def speeds(self) -> tuple[float, ...]:
        """Steps in a second."""
        return tuple([1e6 / each for each in self.microseconds])


class Comparison:
    def __init__(self, workload: Workload, systems: Mapping[str, System]) -> None:
        self.runs: defaultdict[int, dict[str, Runs]] = defaultdict(lambda: {name: Runs() for name in systems})
        """By how many messages arrive in one transaction, and by system."""
        self._workload = workload
        self._systems = dict(systems)
        self._arrived = 0
        self._turns = 0

    def measure(self, arrivals: Mapping[int, int], runs: int) -> None:
        """Let so many messages arrive, for each number of messages in a transaction, in each of the runs."""
        self.warm_up(arrivals)
        for _ in range(runs):
            self.run(arrivals)

    def warm_up(self, arrivals: Mapping[int, int]) -> None:
        """A run that is not counted: what a node starts when there is much to do is there then."""
        for per_commit, count in arrivals.items():
            self._turn(count, per_commit)

    def run(self, arrivals: Mapping[int, int]) -> None:
        for per_commit, count in arrivals.items():
            for name, (microseconds, written) in self._turn(count, per_commit).items():
                self.runs[per_commit][name].microseconds.append(microseconds)
                self.runs[per_commit][name].written.append(written)

    def _turn(self, count: int, per_commit: int) -> dict[str, tuple[float, float]]:
        bodies = [self._workload.message(number) for number in range(self._arrived, self._arrived + count)]
        self._arrived += count
        self._turns += 1
        found: dict[str, tuple[float, float]] = {}
        for name in list(self._systems)[:: -1 if self._turns % 2 else 1]:
            written, started = written_bytes(), time.perf_counter()
            steps = self._systems[name].process_all(self._workload.queue, bodies, per_commit)
            seconds = time.perf_counter() - started
            if steps != count * self._workload.steps:
                raise WrongResult(f"{self._workload.name}, {name}: {steps} steps for {count} messages")
            found[name] = seconds / steps * 1e6, (written_bytes() - written) / steps
        self._compare(count)
        return found

    def _compare(self, count: int) -> None:
        """All that can tell must have made the same answers."""
        returned = {name: system.new_answers() for name, system in self._systems.items()}
        made = {name: canonical(answers) for name, answers in returned.items() if answers is not None}
        first = next(iter(made))
        for name, answers in made.items():
            if answers != made[first]:
                example = next(iter((answers - made[first]) or (made[first] - answers)))
                raise WrongResult(f"{self._workload.name}: {name} and {first} do not agree, such as on {example}")
        if self._workload is W2:
            refused = sum([each for body, each in made[first].items() if body.startswith("<refusal")])
            expected = refused_requests(self._arrived) - refused_requests(self._arrived - count)
            if refused != expected:
                raise WrongResult(f"W2: {refused} refusals, not {expected}")


def canonical(bodies: Sequence[str]) -> Counter[str]:
    return Counter([etree.canonicalize(body) for body in bodies])
