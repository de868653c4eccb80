"""How long one message takes in an idle node: from enqueue until its effect is committed and a subscriber is told."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from demaq.benchmarks.figures import Figure, WrongResult
from demaq.benchmarks.workloads import OTHER_EVERY, W1
from demaq.server.node import Node

PAUSE_SECONDS = 0.02
"""Long enough for the node to be idle again."""
WAIT_SECONDS_MAX = 60.0
WARM_UP = 10


def measure(messages: int, folder: Path, say: Callable[[str], None]) -> Iterator[Figure]:
    say(f"latency of {messages:,} messages, one after the other")
    group = "latency in an idle node, from enqueue to commit"
    milliseconds = _latencies(messages, folder / "latency")
    percentiles = statistics.quantiles(milliseconds, n=100, method="inclusive")
    yield Figure("p50", percentiles[49], "ms", group=group)
    yield Figure("p99", percentiles[98], "ms", group=group)


def _latencies(messages: int, folder: Path) -> list[float]:
    node = Node(W1.application, folder)
    answered = threading.Event()
    node.subscribe("offers", lambda message: answered.set())
    node.start()
    found: list[float] = []
    try:
        for number in range(messages + WARM_UP):
            time.sleep(PAUSE_SECONDS)
            answered.clear()
            body = W1.message(number * OTHER_EVERY + 1)  # one that is answered
            started = time.perf_counter()
            node.enqueue(W1.queue, body)
            if not answered.wait(WAIT_SECONDS_MAX):
                raise WrongResult(f"a message was not answered within {WAIT_SECONDS_MAX:g} s")
            found.append((time.perf_counter() - started) * 1e3)
    finally:
        node.stop()
    return found[WARM_UP:]
