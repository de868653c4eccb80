"""What a running node says about itself, asked by a thread in the background while operators look at pages.

Pages show the last answer, so a node that is slow to answer makes no page slow.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from demaq.control.client import RemoteNode, running_node
from demaq.errors import OperatorError
from demaq.store.location import StoreLocation

EVERY_SECONDS = 2.0
FIRST_SECONDS_MAX = 0.5
"""How long the first page waits for the first answer."""
UNUSED_SECONDS = 60.0
"""The node is not asked after so long without a page."""
SAMPLES_MAX = 300
RATE_SECONDS = 30.0
"""Rates are of so long a time."""

Labels: TypeAlias = tuple[tuple[str, str], ...]
Samples: TypeAlias = Mapping[tuple[str, Labels], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeState:
    """What a node has said, and when."""

    at: float
    status: Mapping[str, Any] | None
    """None if none runs, or it did not answer."""
    samples: Samples = field(default_factory=dict)
    """Its metrics, by name and labels."""
    problem: str | None = None
    """Why there is no status; None if it was not asked yet, too."""

    def value(self, name: str, **labels: str) -> float | None:
        return self.samples.get((name, tuple(sorted(labels.items()))))

    def by_label(self, name: str, label: str) -> dict[str, float]:
        """Return the values of a metric, by one of its labels, added up over the others."""
        found: dict[str, float] = {}
        for (known, labels), value in self.samples.items():
            if known == name:
                key = dict(labels).get(label, "")
                found[key] = found.get(key, 0.0) + value
        return found


class NodeMonitor:
    """May be asked from any thread."""

    def __init__(
        self,
        place: StoreLocation,
        find: Callable[[StoreLocation], RemoteNode | None] = running_node,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._place = place
        self._find = find
        self._clock = clock
        self._states: deque[NodeState] = deque(maxlen=SAMPLES_MAX)
        self._wanted = threading.Event()
        self._answered = threading.Event()
        self._used = 0.0
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="demaq-console-monitor", daemon=True)
        self._thread.start()

    def read(self) -> NodeState:
        """Return what the node said last."""
        self._used = self._clock()
        if not self._has_recent():
            self._answered.clear()
            self._wanted.set()
            self._answered.wait(FIRST_SECONDS_MAX)
        self._wanted.set()
        return self._states[-1] if self._has_recent() else NodeState(at=self._clock(), status=None)

    def _has_recent(self) -> bool:
        return bool(self._states) and self._clock() - self._states[-1].at <= UNUSED_SECONDS

    def history(self) -> list[NodeState]:
        """Return what it said before, oldest first."""
        return list(self._states)

    def rates(self, name: str, label: str | None = None) -> dict[str, float]:
        """Return how fast a counter grows per second, by a label. Empty before it was read twice."""
        now = self._clock()
        known = [state for state in self._states if state.samples and now - state.at <= RATE_SECONDS]
        if len(known) < 2 or known[-1].at <= known[0].at:
            return {}
        first, last = known[0], known[-1]
        before = first.by_label(name, label or "")
        seconds = last.at - first.at
        return {
            key: max(value - before.get(key, 0.0), 0.0) / seconds
            for key, value in last.by_label(name, label or "").items()
        }

    def close(self) -> None:
        self._closed = True
        self._wanted.set()

    def _run(self) -> None:
        while True:
            self._wanted.wait()
            if self._closed:
                return
            if self._clock() - self._used > UNUSED_SECONDS:
                self._wanted.clear()
                continue
            self._states.append(self._ask())
            self._answered.set()
            time.sleep(EVERY_SECONDS)

    def _ask(self) -> NodeState:
        try:
            node = self._find(self._place)
            if node is None:
                return NodeState(at=self._clock(), status=None, problem="no node runs on this store")
            status = node.status()
            samples = parse_metrics(node.metrics())
        except OperatorError as error:
            return NodeState(at=self._clock(), status=None, problem=str(error))
        return NodeState(at=self._clock(), status=status, samples=samples)


def parse_metrics(text: str) -> Samples:
    """Return the samples of an exposition for Prometheus. Counters have their names without `_total`."""
    from prometheus_client.parser import text_string_to_metric_families

    found: dict[tuple[str, Labels], float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            name = sample.name.removesuffix("_total")
            found[name, tuple(sorted(sample.labels.items()))] = sample.value
    return found
