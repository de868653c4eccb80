"""What a node takes in over HTTP in a second, and how long a sender waits, compared with a hand-written handler.

The node, the hand-written server and the clients are separate processes. They are asked in turns, every other time
backwards: what else the machine does is shared by all. Every request that was accepted must be in the store.
"""

from __future__ import annotations

import sqlite3
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from demaq.store.sqlite import SqliteStore
from demaq_bench.figures import Figure, Place, WrongResult
from demaq_bench.http_load import Answered, Task, run
from demaq_bench.latency import order
from demaq_bench.offer_requests import large_transform_message
from demaq_bench.server_processes import ListeningNode, ModuleProcess
from demaq_bench.workloads import APPLICATIONS

APPLICATION = APPLICATIONS / "gateways.dmq"
NODE, NODE_WITH_RULES, HAND_WRITTEN, AT_ONCE = "node", "node, rules at work", "hand-written", "answers at once"
"""The last one shows what asking itself costs."""
RATIO_TARGET = 1.0
CONVERSATION_TARGET_MS = 3
"""Of the node's p50."""
SPEED, RATIO, P50, P99 = "speed", "ratio", "p50", "p99"
ACCEPTING, CONVERSATION = "requests accepted", "conversation answered"
BODIES = 20
"""So many different bodies are sent in turns."""
PAUSE_SECONDS = 0.02
"""Between two conversations: long enough for the node to be idle again."""
WARM_UP_SHARE = 3
"""One in so many requests of a run go before, and are not counted."""
WORK_OFF_SECONDS_MAX = 300.0
POLL_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class GatewaySizes:
    """How much of everything."""

    bytes: tuple[int, ...] = (1_000, 64_000)
    requests: Mapping[int, int] = field(default_factory=lambda: {1: 300, 8: 1_500, 64: 3_000})
    """So many in each run, by the number of connections."""
    conversations: int = 100
    soap: Mapping[int, int] = field(default_factory=lambda: {1: 100, 8: 400})
    """So many in each run by SOAP, by the number of connections."""


LARGE = GatewaySizes(requests={1: 2_000, 8: 10_000, 64: 20_000}, conversations=500, soap={1: 700, 8: 2_800})
LARGE_BODY_BYTES = 10_000
LARGE_BODY_SHARE = 4
"""Of bodies larger than that, one in so many will do."""


def measure(sizes: GatewaySizes, runs: int, folder: Path | None, say: Callable[[str], None]) -> Iterator[Figure]:
    """Make everything in one folder, which is removed in the end."""
    with TemporaryDirectory(dir=folder, prefix="demaq-bench-") as own, ExitStack() as stack:
        place = Path(own)
        store, file = place / "node", place / "baseline.db"
        hand = stack.enter_context(ModuleProcess("demaq_bench.baseline_gateway", place / "baseline.log", str(file)))
        at_once = stack.enter_context(ModuleProcess("demaq_bench.instant_server", place / "at-once.log"))
        node = stack.enter_context(ListeningNode(APPLICATION, store))
        turns = _Turns(
            {
                NODE: f"{node.address}/mailbox",
                NODE_WITH_RULES: f"{node.address}/requests",
                HAND_WRITTEN: f"{hand.address}/mailbox",
                AT_ONCE: f"{at_once.address}/",
            },
            partial(_work_off, node),
        )
        for size in sizes.bytes:
            bodies = [large_transform_message(number, size).decode() for number in range(BODIES)]
            for connections, count in sizes.requests.items():
                requests = count if size <= LARGE_BODY_BYTES else max(1, count // LARGE_BODY_SHARE)
                say(f"{size // 1000} KB on {connections} connections, {runs} runs of {requests:,} requests, in turns")
                yield from turns.measure(bodies, connections, requests, runs, {"bytes": size})
        _expect_stored(store, file, turns.sent)
        say(f"{sizes.conversations:,} conversations in each of {runs} runs, one after the other")
        conversations = {NODE: f"{node.address}/orders", HAND_WRITTEN: f"{hand.address}/orders"}
        yield from _conversations(conversations, sizes.conversations, runs)


def percentiles(answered: Sequence[Answered], group: str, at: Place, target: str = "") -> Iterator[Figure]:
    """Yield the median, which may have a target, and the 99th percentile over the requests of all runs."""
    milliseconds = [each for turn in answered for each in turn.milliseconds]
    hundredths = statistics.quantiles(milliseconds, n=100, method="inclusive")
    yield Figure(P50, hundredths[49], "ms", target, group, at=at)
    yield Figure(P99, hundredths[98], "ms", group=group, at=at)


class _Turns:
    """Asks several systems in turns."""

    def __init__(self, addresses: Mapping[str, str], work_off: Callable[[int], None]) -> None:
        """`work_off` waits until the node has processed so many messages."""
        self.sent: dict[str, int] = dict.fromkeys(addresses, 0)
        """How many requests each has accepted."""
        self._addresses = addresses
        self._work_off = work_off
        self._turns = 0

    def measure(
        self, bodies: Sequence[str], connections: int, requests: int, runs: int, where: Place
    ) -> Iterator[Figure]:
        self._turn(bodies, connections, -(-requests // WARM_UP_SHARE))
        found = [self._turn(bodies, connections, requests) for _ in range(runs)]
        for name in self._addresses:
            at: Place = {**where, "connections": connections, "system": name}
            answered = [turn[name] for turn in found]
            speeds = tuple([each.speed for each in answered])
            yield Figure(SPEED, statistics.median(speeds), "requests/s", group=ACCEPTING, at=at, runs=speeds)
            yield from percentiles(answered, ACCEPTING, at)
            if name in (NODE, NODE_WITH_RULES):
                ratios = tuple([turn[name].speed / turn[HAND_WRITTEN].speed for turn in found])
                aim = f"at least {RATIO_TARGET}" if name == NODE else ""
                yield Figure(RATIO, statistics.median(ratios), "", aim, ACCEPTING, at=at, runs=ratios)

    def _turn(self, bodies: Sequence[str], connections: int, requests: int) -> dict[str, Answered]:
        self._turns += 1
        found: dict[str, Answered] = {}
        for name in list(self._addresses)[:: -1 if self._turns % 2 else 1]:
            address = self._addresses[name]
            task = Task(address=address, bodies=tuple(bodies), connections=connections, requests=requests, status=202)
            found[name] = run(task)
            self.sent[name] += requests
            if name == NODE_WITH_RULES:
                self._work_off(self.sent[name])
        return found


def _conversations(addresses: Mapping[str, str], count: int, runs: int) -> Iterator[Figure]:
    bodies = tuple([order(number).decode() for number in range(BODIES)])
    answered: dict[str, list[Answered]] = {name: [] for name in addresses}
    for number in range(runs + 1):
        for name, address in addresses.items():
            requests = count if number else -(-count // WARM_UP_SHARE)
            task = Task(
                address=address,
                bodies=bodies,
                connections=1,
                requests=requests,
                status=200,
                pause_seconds=PAUSE_SECONDS,
            )
            found = run(task)
            if number:
                answered[name].append(found)
    for name, each in answered.items():
        target = f"at most {CONVERSATION_TARGET_MS}" if name == NODE else ""
        yield from percentiles(each, CONVERSATION, {"system": name}, target)


def _work_off(node: ListeningNode, messages: int) -> None:
    """Until nothing of this turn disturbs the next one."""
    until = time.monotonic() + WORK_OFF_SECONDS_MAX
    while node.remote.status()["processed"] < messages:
        if time.monotonic() > until:
            raise WrongResult(f"the node has not processed {messages:,} messages in {WORK_OFF_SECONDS_MAX:g} s")
        time.sleep(POLL_SECONDS)


def _expect_stored(store: Path, file: Path, sent: Mapping[str, int]) -> None:
    """What was accepted is there. Raises WrongResult."""
    with closing(SqliteStore.open_readonly(store)) as opened, closing(sqlite3.connect(file)) as baseline:
        in_mailbox = opened.counts().get("mailbox", (0, 0))[0]
        (in_table,) = baseline.execute("SELECT count(*) FROM messages").fetchone()
    for name, found in ((NODE, in_mailbox), (HAND_WRITTEN, in_table)):
        if found != sent[name]:
            raise WrongResult(f"{name}: {found:,} messages for {sent[name]:,} accepted requests")
