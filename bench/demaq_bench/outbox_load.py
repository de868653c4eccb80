"""What a node sends in a second over kept connections, and whether a slow peer, or a million waiting, matter to that.

The node and the servers it sends to are separate processes. The messages are put into the store in bulk before the node
starts, as rules would put them there one by one. What is measured begins when a part of them has arrived, so that
starting is no part of it.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from demaq.messages import PropertyValue
from demaq.store.protocol import NewMessage
from demaq.store.sqlite import SqliteStore
from demaq_bench.counting_sink import Taken, ask
from demaq_bench.figures import Figure, WrongResult, cpu_seconds, most_resident_megabytes
from demaq_bench.node_process import NodeProcess
from demaq_bench.offer_requests import transform_message
from demaq_bench.server_processes import ModuleProcess
from demaq_bench.workloads import APPLICATIONS

APPLICATION, INTERFACE = "outbox.dmq", "outbox.wsdl"
CONNECTIONS = 8
"""As many as a gateway has by default."""
SPEED_TARGET = 3_000
RATIO_TARGET = 0.8
XML, SOAP, NAMED = "xml", "soap", "named"
GROUP, SLOW_GROUP, MEMORY_GROUP = "messages sent", "beside a slow peer", "memory"
SLOW_SECONDS = 1.0
"""So long the slow peer takes for each message."""
WARM_UP_SHARE = 10
"""One in so many messages go before, and are not counted."""
FILL_BATCH = 5_000
POLL_SECONDS = 0.02
IDLE_SECONDS_MAX = 120.0
"""So long nothing may arrive."""
SETTINGS = f"""[outgoing]
connections = {CONNECTIONS}
recipients = ["127.0.0.1:*"]
"""


@dataclass(frozen=True, slots=True)
class OutboxSizes:
    """How much of everything."""

    messages: int = 20_000
    """So many are sent in each run."""
    waiting: int = 0
    """So many wait when memory is looked at; 0 for not at all."""


@dataclass(frozen=True, slots=True)
class _Sent:
    """What one run has shown."""

    speed: float
    """Messages a second."""
    microseconds: float
    """CPU time of the node for each."""
    megabytes: float
    """The most memory of the node."""


def measure(sizes: OutboxSizes, runs: int, folder: Path | None, say: Callable[[str], None]) -> Iterator[Figure]:
    """Make everything in one folder, which is removed in the end."""
    with TemporaryDirectory(dir=folder, prefix="demaq-bench-") as own:
        bench = _OutboxRuns(Path(own), sizes.messages)
        found: dict[str, list[_Sent]] = {}
        for queue in (XML, SOAP):
            say(f"{runs} runs of {sizes.messages:,} messages to one sink, {queue}")
            found[queue] = [bench.send(queue) for _ in range(runs)]
            speeds = tuple([sent.speed for sent in found[queue]])
            target = f"at least {SPEED_TARGET}" if queue == XML else ""
            yield Figure(f"{queue}, speed", statistics.median(speeds), "messages/s", target, GROUP, runs=speeds)
            yield _median(f"{queue}, node CPU for each", [sent.microseconds for sent in found[queue]], "µs", GROUP)
        say(f"{runs} runs of {sizes.messages:,} messages beside as many to a slow peer, in turns with runs without")
        alone, beside = [], []
        for _ in range(runs):
            alone.append(bench.send(NAMED).speed)
            beside.append(bench.send(NAMED, has_slow=True).speed)
        yield _median("alone, speed", alone, "messages/s", SLOW_GROUP)
        yield _median("beside, speed", beside, "messages/s", SLOW_GROUP)
        ratios = tuple([one / other for one, other in zip(beside, alone, strict=True)])
        target = f"at least {RATIO_TARGET}"
        yield Figure("ratio", statistics.median(ratios), "", target, SLOW_GROUP, runs=ratios)
        if sizes.waiting:
            say(f"memory with {sizes.waiting:,} messages waiting")
            least = min([sent.megabytes for sent in found[XML]])
            yield Figure(f"with {sizes.messages:,} waiting", least, "MB", group=MEMORY_GROUP)
            most = bench.send(XML, waiting=sizes.waiting).megabytes
            yield Figure(f"with {sizes.waiting:,} waiting", most, "MB", "flat", MEMORY_GROUP)


def _median(name: str, runs: list[float], unit: str, group: str) -> Figure:
    return Figure(name, statistics.median(runs), unit, group=group, runs=tuple(runs))


class _OutboxRuns:
    """Lets nodes send, each from a store of its own."""

    def __init__(self, folder: Path, messages: int) -> None:
        self._folder = folder
        self._messages = messages
        self._runs = 0

    def send(self, queue: str, *, has_slow: bool = False, waiting: int = 0) -> _Sent:
        """Let a node send, and return what that has taken. With `has_slow` as many messages to a slow peer are before
        the others, and with `waiting` more after them, which are not waited for."""
        self._runs += 1
        place = self._folder / f"run-{self._runs}"
        place.mkdir()
        with ExitStack() as stack:
            sink = stack.enter_context(ModuleProcess("demaq_bench.counting_sink", place / "sink.log"))
            slow = stack.enter_context(
                ModuleProcess("demaq_bench.counting_sink", place / "slow.log", str(SLOW_SECONDS))
            )
            for name in (APPLICATION, INTERFACE):
                text = (APPLICATIONS / name).read_text(encoding="utf-8")
                (place / name).write_text(text.replace("ADDRESS", sink.address), encoding="utf-8")
            (place / "settings.toml").write_text(SETTINGS, encoding="utf-8")
            with closing(SqliteStore(place / "store")) as store:
                if has_slow:
                    _fill(store, queue, self._messages, f"{slow.address}/")
                _fill(store, queue, max(self._messages, waiting), f"{sink.address}/" if queue == NAMED else None)
            options = ("--settings", str(place / "settings.toml"))
            node = NodeProcess(place / APPLICATION, place / "store", *options)
            stack.callback(node.kill)
            found = self._watch(node, sink.address)
            if not waiting and not has_slow:
                node.wait_until_running()
                node.stop()
                _expect_sent(place / "store", self._messages)
        return found

    def _watch(self, node: NodeProcess, sink: str) -> _Sent:
        first = _wait_for(node, sink, self._messages // WARM_UP_SHARE)
        cpu = cpu_seconds(node.pid)
        last = _wait_for(node, sink, self._messages)
        cpu = cpu_seconds(node.pid) - cpu
        if last.connections > CONNECTIONS:
            raise WrongResult(f"messages came over {last.connections} connections, not over {CONNECTIONS}")
        if first.requests == last.requests:  # few messages: all had arrived before it was looked for the first ones
            first = Taken(requests=1, last=last.first)
        count = last.requests - first.requests
        speed = count / (last.last - first.last)
        return _Sent(speed, cpu / count * 1e6, most_resident_megabytes(node.pid))


def _fill(store: SqliteStore, queue: str, count: int, recipient: str | None) -> None:
    now = datetime.now(UTC)
    body = transform_message(1).decode()
    properties = {} if recipient is None else {"Recipient": PropertyValue.string(recipient)}
    message = NewMessage(queue=queue, body=body, properties=properties, created=now, priority=None, undelivered=True)
    for first in range(0, count, FILL_BATCH):
        store.append([message] * min(FILL_BATCH, count - first))


def _wait_for(node: NodeProcess, sink: str, messages: int) -> Taken:
    """Until so many have arrived. Raises WrongResult if that does not happen."""
    seen, until = 0, time.monotonic() + IDLE_SECONDS_MAX
    while (taken := ask(sink)).requests < messages:
        if taken.requests > seen:
            seen, until = taken.requests, time.monotonic() + IDLE_SECONDS_MAX
        if node.has_ended() or time.monotonic() > until:
            raise WrongResult(f"{taken.requests:,} of {messages:,} messages have arrived: {node.said()}")
        time.sleep(POLL_SECONDS)
    return taken


def _expect_sent(store: Path, messages: int) -> None:
    """All are noted as sent, at their first attempts. Raises WrongResult."""
    with closing(SqliteStore.open_readonly(store)) as opened:
        left = opened.sendings()
        attempts = opened.attempts(None, None, messages + 1)
    if left or len(attempts) != messages or any([(each.number, each.result) != (1, "sent") for each in attempts]):
        raise WrongResult(f"{len(attempts):,} attempts for {messages:,} messages, and {left} are left")
