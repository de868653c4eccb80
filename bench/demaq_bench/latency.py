"""How long one message takes in an idle node: from enqueue to the last effect of a chain of three steps.

The last effect is committed, and a subscriber was called.
"""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from demaq.server.node import Node
from demaq_bench.figures import Figure, WrongResult
from demaq_bench.workloads import APPLICATIONS

APPLICATION = APPLICATIONS / "chain.dmq"
STEPS = 3
PAUSE_SECONDS = 0.02
"""Long enough for the node to be idle again."""
WAIT_SECONDS_MAX = 60.0
WARM_UP = 10
TARGET_MS = 10
GROUP = "latency"


def measure(messages: int, folder: Path, say: Callable[[str], None]) -> Iterator[Figure]:
    say(f"latency of {messages:,} messages, one after the other")
    milliseconds = _latencies(messages, folder / "latency")
    percentiles = statistics.quantiles(milliseconds, n=100, method="inclusive")
    at = {"steps": STEPS, "messages": messages}
    yield Figure("p50", percentiles[49], "ms", f"at most {TARGET_MS}", GROUP, at=at)
    yield Figure("p99", percentiles[98], "ms", group=GROUP, at=at)


def order(number: int) -> bytes:
    lines = "".join([f"<line><article>A-{n}</article><quantity>{n}</quantity></line>" for n in range(5)])
    return f"<order><orderID>O{number}</orderID>{lines}</order>".encode()


def _latencies(messages: int, folder: Path) -> list[float]:
    node = Node(APPLICATION, folder, pipeline="auto")  # as `demaq run` has it; Spark is not started for so little
    answered = threading.Event()
    node.subscribe("confirmations", lambda message: answered.set())
    node.start()
    found: list[float] = []
    try:
        for number in range(messages + WARM_UP):
            time.sleep(PAUSE_SECONDS)
            answered.clear()
            body = order(number)
            started = time.perf_counter()
            node.enqueue("orders", body)
            if not answered.wait(WAIT_SECONDS_MAX):
                raise WrongResult(f"a message was not answered within {WAIT_SECONDS_MAX:g} s")
            found.append((time.perf_counter() - started) * 1e3)
        if node.steps != STEPS * len(found):
            raise WrongResult(f"{node.steps} steps for {len(found)} messages")
    finally:
        node.stop()
    return found[WARM_UP:]
