"""W3: what a message costs that looks something up in a queue, by how much lies there.

All sizes are asked in turns, so that what else the machine does is shared by all. Stores are filled in bulk, as the
intake would fill them one by one; the first message is checked against it.
"""

from __future__ import annotations

import shutil
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from demaq.engine.engine import Engine
from demaq.messages import PropertyValue
from demaq.spark.pipeline import PipelineName
from demaq.store.protocol import NewMessage
from demaq_bench.baseline import LookUpBaseline
from demaq_bench.comparison import Comparison, Runs
from demaq_bench.figures import Figure, Place, WrongResult
from demaq_bench.running_engine import RunningEngine
from demaq_bench.running_node import RunningNode
from demaq_bench.throughput import HAND_WRITTEN, PER_COMMIT_AIM, arrivals, count_started, node_name
from demaq_bench.workloads import invoice, invoice_customer, questions_among

LOOK_UPS = 1000
"""So many messages in each run."""
FILL_BATCH = 5_000
COST_TARGET = 2.0
"""How many times the cost of hand-written code."""
FLAT_TARGET = 1.5
"""How many times the cost among the fewest it may cost among the most."""
GROUP = "look-ups"
COST, RATIO, FLAT = "cost", "cost, hand-written = 1", "among the most, among the fewest = 1"


def measure(
    sizes: Sequence[int],
    pipelines: Sequence[PipelineName],
    look_ups: int,
    runs: int,
    folder: Path,
    say: Callable[[str], None],
) -> Iterator[Figure]:
    """With so many invoices, in rising order.

    Inline is always measured; other pipelines with the most invoices only, because there is one Spark at a time.
    """
    with ExitStack() as stack:
        among: dict[int, Comparison] = {}
        for size in sizes:
            say(f"W3 look-up: {size:,} invoices are stored")
            others = pipelines if size == sizes[-1] else ()
            nodes = _nodes(size, tuple(dict.fromkeys(("inline", *others))), folder / f"W3-{size}", stack)
            if size == sizes[-1]:
                for name, node in nodes.items():
                    yield count_started(node, questions_among(size), name)
            hand = _start_baseline(size, folder / f"W3-{size}", stack)
            among[size] = Comparison(questions_among(size), {**nodes, HAND_WRITTEN: hand})
        say(f"W3 look-up, {runs} runs of {look_ups:,}, in turns")
        for comparison in among.values():
            comparison.warm_up(arrivals(look_ups))
        for _ in range(runs):
            for comparison in among.values():
                comparison.run(arrivals(look_ups))
    for size, comparison in among.items():
        for per_commit, found in comparison.runs.items():
            yield from _costs({"workload": "W3", "invoices": size, "per_commit": per_commit}, found)
    if len(sizes) > 1:
        fewest, most = [among[size].runs[PER_COMMIT_AIM] for size in (sizes[0], sizes[-1])]
        for name, each in fewest.items():
            at: Place = {"workload": "W3", "per_commit": PER_COMMIT_AIM, "system": name}
            aim = f"at most {FLAT_TARGET}" if name != HAND_WRITTEN else ""
            growth = most[name].times(each)
            yield Figure(FLAT, statistics.median(growth), "", aim, GROUP, at=at, runs=growth)


def _costs(where: Place, found: Mapping[str, Runs]) -> Iterator[Figure]:
    for name, each in found.items():
        at: Place = {**where, "system": name}
        milliseconds = tuple([microseconds / 1e3 for microseconds in each.microseconds])
        yield Figure(COST, statistics.median(milliseconds), "ms", group=GROUP, at=at, runs=milliseconds)
        if name != HAND_WRITTEN:
            aim = f"at most {COST_TARGET}" if where["per_commit"] == PER_COMMIT_AIM else ""
            ratios = each.times(found[HAND_WRITTEN])
            yield Figure(RATIO, statistics.median(ratios), "", aim, GROUP, at=at, runs=ratios)


def _nodes(size: int, pipelines: Sequence[PipelineName], folder: Path, stack: ExitStack) -> dict[str, RunningNode]:
    workload = questions_among(size)
    with RunningEngine(workload.application, folder / "filled") as engine:
        fill(engine.engine, size)
    found: dict[str, RunningNode] = {}
    for pipeline in pipelines:
        store = shutil.copytree(folder / "filled", folder / pipeline)
        found[node_name(pipeline)] = stack.enter_context(RunningNode(workload, store, pipeline))
    shutil.rmtree(folder / "filled")
    return found


def _start_baseline(size: int, folder: Path, stack: ExitStack) -> LookUpBaseline:
    hand = stack.enter_context(LookUpBaseline(folder / "hand"))
    for first in range(0, size, FILL_BATCH):
        bodies = [invoice(number) for number in range(first, min(first + FILL_BATCH, size))]
        hand.receive("invoices", bodies, FILL_BATCH)
    return hand


def fill(engine: Engine, size: int) -> None:
    """So many invoices lie in the store of an engine."""
    now = datetime.now(UTC)
    received = engine.receive_all("invoices", [invoice(0)])[0]
    if replace(received, created=now) != _make_message(0, now):
        raise WrongResult(f"the intake would have stored {received}, not {_make_message(0, now)}")
    for first in range(0, size, FILL_BATCH):
        engine.append([_make_message(number, now) for number in range(first, min(first + FILL_BATCH, size))])


def _make_message(number: int, now: datetime) -> NewMessage:
    properties: dict[str, PropertyValue] = {}
    entries = (("invoices /invoice/customerID", f"s{invoice_customer(number)}"),)  # s: compared as a string
    return NewMessage(
        queue="invoices", body=invoice(number).decode(), properties=properties, created=now, entries=entries
    )
