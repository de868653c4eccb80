"""How many steps a second, and how many bytes written for each: a node compared with hand-written code.

A step is one message processed; the time includes that messages arrive durably and that what is done with is removed.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from demaq.spark.pipeline import PipelineName
from demaq_bench.baseline import BASELINES
from demaq_bench.comparison import Comparison, System
from demaq_bench.figures import Figure, Place
from demaq_bench.running_node import RunningNode
from demaq_bench.workloads import RESTRICTIONS, W2, Workload, invoices

HAND_WRITTEN = "hand-written"
PER_COMMIT = (1, 100, 1000)
"""So many messages arrive in one transaction."""
PER_COMMIT_AIM = 100
"""The targets are about this one."""
ALONE_SHARE = 20
"""Where each message comes alone, one in so many will do."""
CHECKED = 231
"""How many messages are enough to meet all cases of W2."""
TARGETS = {"W1": 0.5, "W2": 1.0}
"""How fast a node is to be; hand-written code = 1."""
SPEED, RATIO, WRITTEN = "speed", "ratio", "written"
GROUP = "throughput"


def measure(
    workload: Workload,
    pipelines: Sequence[PipelineName],
    messages: int,
    runs: int,
    folder: Path,
    say: Callable[[str], None],
) -> Iterator[Figure]:
    """How many messages are processed in each run."""
    say(f"{workload.name} {workload.about}, {runs} runs of {messages:,} steps, in turns")
    if not workload.answers_stay:
        check_answers(workload, folder / f"{workload.name}-checked")
    with ExitStack() as stack:
        nodes = {name: node_name(name) for name in pipelines}
        systems: dict[str, System] = {}
        for pipeline, name in nodes.items():
            node = stack.enter_context(RunningNode(workload, folder / f"{workload.name}-{pipeline}", pipeline))
            systems[name] = node
            prepare(workload, node)
            yield count_started(node, workload, name)
        hand = stack.enter_context(BASELINES[workload.name](folder / f"{workload.name}-hand"))
        if workload is W2:
            hand.receive("invoices", invoices(), PER_COMMIT_AIM)
        comparison = Comparison(workload, {**systems, HAND_WRITTEN: hand})
        comparison.measure(arrivals(messages // workload.steps), runs)
    for per_commit, found in comparison.runs.items():
        for name, each in found.items():
            at: Place = {"workload": workload.name, "per_commit": per_commit, "system": name}
            speed = statistics.median(each.speeds)
            yield Figure(SPEED, speed, "steps/s", group=GROUP, at=at, runs=each.speeds)
            yield Figure(WRITTEN, statistics.median(each.written), "bytes/step", group=GROUP, at=at)
            if name != HAND_WRITTEN:
                aim = f"at least {TARGETS[workload.name]}" if per_commit == PER_COMMIT_AIM else ""
                ratios = found[HAND_WRITTEN].times(each)
                yield Figure(RATIO, statistics.median(ratios), "", aim, GROUP, at=at, runs=ratios)


def check_answers(workload: Workload, folder: Path) -> None:
    """A node that is watched comes to the same answers as the hand-written code. Raises WrongResult."""
    baseline = BASELINES[workload.name]
    with RunningNode(workload, folder / "node", watched=True) as node, baseline(folder / "hand") as hand:
        prepare(workload, node)
        hand.receive("invoices", invoices(), PER_COMMIT_AIM)
        Comparison(workload, {"a node": node, HAND_WRITTEN: hand}).run({PER_COMMIT_AIM: CHECKED})


def node_name(pipeline: PipelineName) -> str:
    return f"node, {pipeline}"


def arrivals(messages: int) -> dict[int, int]:
    """Return how many messages arrive in a run, by how many come in one transaction."""
    return {n: max(1, messages // ALONE_SHARE if n == 1 else messages) for n in PER_COMMIT}


def prepare(workload: Workload, node: RunningNode) -> None:
    """What is there before the first message arrives."""
    if workload is W2:
        node.node.load_collection("legal", [RESTRICTIONS])
        node.receive("invoices", invoices(), PER_COMMIT_AIM)


def count_started(node: RunningNode, workload: Workload, name: str) -> Figure:
    """Return what is not counted."""
    return Figure("ready", node.start_seconds, "s", group="start", at={"workload": workload.name, "system": name})
