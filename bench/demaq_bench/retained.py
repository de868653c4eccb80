"""What a message costs when many others are retained in slices; and how long a node takes to start on such a store.

The retained messages are put into the store in bulk, as the engine's intake would put them there one by one; the first
of them is checked against it.
"""

from __future__ import annotations

import os
import random
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from demaq.messages import PropertyValue
from demaq.store.protocol import NewMessage, Step
from demaq.store.sqlite import SqliteStore
from demaq.store.sqlite_database import FILE_NAME
from demaq_bench.figures import Figure, Place, WrongResult
from demaq_bench.lookups import FLAT
from demaq_bench.node_process import NodeProcess
from demaq_bench.running_engine import RunningEngine
from demaq_bench.workloads import APPLICATIONS

APPLICATION = APPLICATIONS / "retained.dmq"
PER_SLICE = 4
RUNS = 5
"""The figures are medians of so many."""
PER_RUN = 40
"""How many messages are processed in each run. Every slice is used once only, and grows no further."""
SMALLEST = PER_SLICE * PER_RUN * (RUNS + 1)
"""As many retained messages as the runs need slices."""
FILL_BATCH = 5_000
START_SECONDS_MAX = 600.0
POLL_SECONDS = 0.005
READS = {"events": "looks at its slice", "questions": "looks up by a key"}
SEED = 1
FLAT_TARGET = 1.5
GROUP = "retained"
COST = "cost"


def measure(sizes: Sequence[int], folder: Path, say: Callable[[str], None]) -> Iterator[Figure]:
    """Costs at each size, in rising order."""
    with ExitStack() as stack:
        asked: list[_RetainedRun] = []
        for size in sizes:
            say(f"a store in which {size:,} messages are retained: filling it")
            engine = stack.enter_context(RunningEngine(APPLICATION, _store(folder, size)))
            fill(engine, size)
            asked.append(_RetainedRun(engine, size))
        say("a message among so many")
        for run in range(RUNS + 1):
            for each in asked:  # in turns, so that what else the machine does is shared by all
                each.run(warming_up=run == 0)
        for queue, about in READS.items():
            yield from _growth(queue, f"node, inline, {about}", asked)


def measure_starts(retained: int, folder: Path, say: Callable[[str], None]) -> Iterator[Figure]:
    """Yield how long a node takes to start when nothing is there, and when so many messages are retained."""
    store = _store(folder, retained)
    say(f"a store in which {retained:,} messages are retained: filling it")
    with RunningEngine(APPLICATION, store) as engine:
        fill(engine, retained)
    yield from _starts(store, retained, folder, say)


def _growth(queue: str, system: str, asked: Sequence[_RetainedRun]) -> Iterator[Figure]:
    costs = [statistics.median(each.microseconds[queue]) for each in asked]
    for each, cost in zip(asked, costs, strict=True):
        at: Place = {"retained": each.size, "system": system}
        yield Figure(COST, cost, "µs/step", group=GROUP, at=at, runs=tuple(each.microseconds[queue]))
    if len(costs) > 1:
        yield Figure(FLAT, costs[-1] / costs[0], "", f"at most {FLAT_TARGET}", GROUP, at={"system": system})


def _store(folder: Path, size: int) -> Path:
    return folder / f"retained-{size}" / "store"


# --- filling ---------------------------------------------------------------------------------------------------------


def fill(engine: RunningEngine, size: int) -> None:
    """Retain so many accounts: stored, processed, in their slices and in the index."""
    now = datetime.now(UTC)
    _check_like_intake(engine, account(0, now))
    for first in range(0, size, FILL_BATCH):
        numbers = range(first, min(first + FILL_BATCH, size))
        seqs = engine.store.append([account(number, now) for number in numbers])
        engine.store.commit([Step(processed=seq) for seq in seqs])


def account(number: int, now: datetime) -> NewMessage:
    customer = _customer(number // PER_SLICE)
    return NewMessage(
        queue="accounts",
        body=f"<account><customer>{customer}</customer><number>{number}</number><text>retained</text></account>",
        properties={"customer": PropertyValue.string(customer)},
        created=now,
        priority=0,
        slices=(("customers", customer),),
        entries=(("accounts /account/customer", f"s{customer}"),),  # s: compared as a string
    )


def _check_like_intake(engine: RunningEngine, expected: NewMessage) -> None:
    received = engine.engine.receive_all("accounts", [expected.body])[0]
    if replace(received, created=expected.created) != expected:
        raise WrongResult(f"the intake would have stored {received}, not {expected}")


def _customer(number: int) -> str:
    return f"C{number:07}"


# --- costs -----------------------------------------------------------------------------------------------------------


class _RetainedRun:
    """A store with so many messages, and what it cost to ask about some of them."""

    def __init__(self, engine: RunningEngine, size: int) -> None:
        self.size = size
        self.microseconds: dict[str, list[float]] = {queue: [] for queue in READS}
        """For each message, by the queue it arrives in; one figure for each run."""
        self._engine = engine
        self._customers = random.Random(SEED).sample(range(size // PER_SLICE), PER_RUN * (RUNS + 1))

    def run(self, warming_up: bool) -> None:
        customers = [_customer(self._customers.pop()) for _ in range(PER_RUN)]
        for queue in READS:
            name = queue.removesuffix("s")
            bodies = [f"<{name}><customer>{customer}</customer></{name}>".encode() for customer in customers]
            before = self._engine.made["answer"]
            started = time.perf_counter()
            self._engine.receive(queue, bodies)
            self._engine.work()
            if not warming_up:
                self.microseconds[queue].append((time.perf_counter() - started) / PER_RUN * 1e6)
            if self._engine.made["answer"] - before != PER_RUN:
                raise WrongResult(f"{PER_RUN} messages in queue {queue} were not answered once each")


# --- starting --------------------------------------------------------------------------------------------------------


def _starts(store: Path, retained: int, folder: Path, say: Callable[[str], None]) -> Iterator[Figure]:
    group = "a node starts, until its first message is processed"
    empty = folder / "empty" / "store"
    for name, where in (("on an empty store", empty), (f"on {retained:,} messages", store)):
        say(f"the start of a node {name}")
        where.parent.mkdir(exist_ok=True)
        _forget_cached(where)
        yield Figure(name, start_seconds(where), "s", group=group)


def start_seconds(store: Path) -> float:
    """From starting `demaq run` until it has processed one new message."""
    started = time.perf_counter()
    node = NodeProcess(APPLICATION, store)
    try:
        remote = node.wait_until_running(START_SECONDS_MAX)
        body = b"<question><customer>C0000000</customer></question>"
        asked = remote.enqueue("questions", body, {}, None)
        reader = SqliteStore.open_readonly(store)
        try:
            while not reader.caused_by(asked):
                if time.perf_counter() - started > START_SECONDS_MAX:
                    raise WrongResult(f"a node did not start within {START_SECONDS_MAX:g} s")
                time.sleep(POLL_SECONDS)
        finally:
            reader.close()
        seconds = time.perf_counter() - started
        node.stop()
        return seconds
    finally:
        node.kill()


def _forget_cached(store: Path) -> None:
    """Ask the system to read the file from the disk again."""
    file = store / FILE_NAME
    if file.exists() and hasattr(os, "posix_fadvise"):
        descriptor = os.open(file, os.O_RDONLY)
        try:
            os.fsync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)
