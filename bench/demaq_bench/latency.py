"""How long one message takes in an idle node: from enqueue to the last effect of a chain of three steps.

The last effect is committed, and a subscriber was called.
"""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from demaq.server.node import Node
from demaq_bench.figures import Figure, Place, WrongResult
from demaq_bench.workloads import APPLICATIONS

if TYPE_CHECKING:
    from demaq.spark.pipeline import PipelineName

APPLICATION = APPLICATIONS / "chain.dmq"
STEPS = 3
PAUSE_SECONDS = 0.02
"""Long enough for the node to be idle again."""
WAIT_SECONDS_MAX = 60.0
WARM_UP = 10
TARGETS_MS = {"p50": 1.5, "p99": 3}
"""Of a node inline."""
SPARK_TARGET_MS = 1
"""By how much p50 may be above that on Spark."""
GROUP = "latency"
ABOVE = "p50, above inline"


def measure(
    messages: int, folder: Path, say: Callable[[str], None], pipelines: Sequence[PipelineName] = ("inline",)
) -> Iterator[Figure]:
    """With nodes on each pipeline, in turns."""
    say(f"latency of {messages:,} messages, one after the other: {', '.join(pipelines)}")
    found: dict[PipelineName, list[float]] = {name: [] for name in pipelines}
    with ExitStack() as stack:
        nodes: dict[PipelineName, _IdleNode] = {}
        for name in pipelines:
            nodes[name] = _IdleNode(name, folder / f"latency-{name}")
            stack.callback(nodes[name].close)
        for number in range(messages + WARM_UP):
            for name, node in nodes.items():
                time.sleep(PAUSE_SECONDS)
                milliseconds = node.process(order(number))
                if number >= WARM_UP:
                    found[name].append(milliseconds)
    medians: dict[str, float] = {}
    for name, milliseconds_each in found.items():
        percentiles = statistics.quantiles(milliseconds_each, n=100, method="inclusive")
        at: Place = {"steps": STEPS, "messages": messages, "system": f"node, {name}"}
        for percentile, value in (("p50", percentiles[49]), ("p99", percentiles[98])):
            aim = f"at most {TARGETS_MS[percentile]}" if name == "inline" else ""
            yield Figure(percentile, value, "ms", aim, GROUP, at=at)
        medians[name] = percentiles[49]
        if name == "spark" and "inline" in medians:
            above = medians["spark"] - medians["inline"]
            yield Figure(ABOVE, above, "ms", f"at most {SPARK_TARGET_MS}", GROUP, at=at)


def order(number: int) -> bytes:
    lines = "".join([f"<line><article>A-{n}</article><quantity>{n}</quantity></line>" for n in range(5)])
    return f"<order><orderID>O{number}</orderID>{lines}</order>".encode()


class _IdleNode:
    """A node that gets one message at a time. Must be closed."""

    def __init__(self, pipeline: PipelineName, folder: Path) -> None:
        self._node = Node(APPLICATION, folder, pipeline=pipeline)
        self._answered = threading.Event()
        self._processed = 0
        try:
            self._node.pipeline.start()
            self._node.subscribe("confirmations", lambda message: self._answered.set())
            self._node.start()
        except BaseException:
            self._node.stop()
            raise

    def process(self, body: bytes) -> float:
        """Return how many milliseconds a message takes."""
        self._answered.clear()
        started = time.perf_counter()
        self._node.enqueue("orders", body)
        if not self._answered.wait(WAIT_SECONDS_MAX):
            raise WrongResult(f"a message was not answered within {WAIT_SECONDS_MAX:g} s")
        self._processed += STEPS
        return (time.perf_counter() - started) * 1e3

    def close(self) -> None:
        is_idle = self._node.wait_until_idle(WAIT_SECONDS_MAX)
        steps = self._node.steps
        self._node.stop()
        if not is_idle or steps != self._processed:
            raise WrongResult(f"{steps} steps instead of {self._processed}")
