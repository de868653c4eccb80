"""Let several systems do the same work in turns.

Turns are short, and every other time they are taken backwards: what else the machine does is shared by all. Several
workloads can be compared in one go, so that their figures can be compared, too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Protocol

from demaq_bench.contestant import Contestant, Turn, WorkloadName

WARM_UP_SHARE = 2
"""One in so many messages of a turn go before, and are not counted."""


class TakesTurns(Protocol):
    def turn(self, numbers: range, per_commit: int) -> Turn: ...


class Comparison:
    """What systems have needed for one workload."""

    def __init__(self, contestants: Mapping[str, TakesTurns]) -> None:
        self.turns: defaultdict[int, dict[str, list[Turn]]] = defaultdict(lambda: {name: [] for name in contestants})
        """By how many messages arrive in one transaction, and by system."""
        self._contestants = dict(contestants)
        self._arrived = 0
        self._count = 0

    def warm_up(self, arrivals: Mapping[int, int]) -> None:
        """Take turns that are not counted: what a node starts when there is much to do is there then."""
        for per_commit, count in arrivals.items():
            self._turn(max(1, count // WARM_UP_SHARE), per_commit)

    def run(self, arrivals: Mapping[int, int]) -> None:
        """Let so many messages arrive, for each number of messages in a transaction."""
        for per_commit, count in arrivals.items():
            for name, turn in self._turn(count, per_commit).items():
                self.turns[per_commit][name].append(turn)

    def speeds(self, name: str, per_commit: int) -> tuple[float, ...]:
        """Return how many messages a system has dealt with in a second, turn by turn."""
        return tuple([turn.speed for turn in self.turns[per_commit][name]])

    def ratios(self, name: str, other: str, per_commit: int) -> tuple[float, ...]:
        """Return how fast a system is if another one is 1, turn by turn: what disturbs one turn disturbs both."""
        return divide(self.speeds(name, per_commit), self.speeds(other, per_commit))

    def _turn(self, count: int, per_commit: int) -> dict[str, Turn]:
        numbers = range(self._arrived, self._arrived + count)
        self._arrived += count
        self._count += 1
        names = list(self._contestants)[:: -1 if self._count % 2 else 1]
        return {name: self._contestants[name].turn(numbers, per_commit) for name in names}


def divide(speeds: Sequence[float], others: Sequence[float]) -> tuple[float, ...]:
    """Return ratios turn by turn."""
    return tuple([speed / other for speed, other in zip(speeds, others, strict=True)])


@contextmanager
def compare(
    systems: Mapping[WorkloadName, Sequence[str]], folder: Path, say: Callable[[str], None]
) -> Iterator[dict[WorkloadName, tuple[Comparison, Mapping[str, float]]]]:
    """Start the systems of each workload. Yield their comparisons, and in how many seconds they were ready."""
    with ExitStack() as stack:
        found: dict[WorkloadName, tuple[Comparison, Mapping[str, float]]] = {}
        for workload, names in systems.items():
            contestants: dict[str, Contestant] = {}
            for name in names:
                say(f"start of {workload}: {name}")
                place = folder / f"{workload} {name}".replace(" ", "-").replace(",", "")
                contestants[name] = stack.enter_context(Contestant(name, workload, place))
            found[workload] = Comparison(contestants), {name: each.start_seconds for name, each in contestants.items()}
        yield found


def run_all(comparisons: Sequence[Comparison], arrivals: Sequence[Mapping[int, int]], runs: int) -> None:
    """Let all take turns, in each run: one comparison after the other."""
    for comparison, count in zip(comparisons, arrivals, strict=True):
        comparison.warm_up(count)
    for _ in range(runs):
        for comparison, count in zip(comparisons, arrivals, strict=True):
            comparison.run(count)
