"""How long commands take to start: `demaq check`, and `demaq run` until it is ready, on a new store and after a kill.

CPU time is that of all processes of the command until then. It says more than the time on a machine that has other
work, and less where processes wait for each other.
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from demaq.control.client import RemoteNode
from demaq_bench.figures import Figure, Place, WrongResult, cpu_seconds
from demaq_bench.latency import APPLICATION, STEPS, order
from demaq_bench.node_process import NodeProcess
from demaq_bench.processes import descendants
from demaq_bench.workloads import APPLICATIONS

GATEWAYS = APPLICATIONS / "gateways.dmq"
GROUP = "start"
CHECK, READY, RESTART, FIRST = "check", "run, ready", "run after a kill, ready", "run, first message processed"
TARGETS = {CHECK: 0.4, READY: 1.5, RESTART: 1.5}
"""Seconds."""
SYSTEMS: Mapping[str, tuple[Path, tuple[str, ...]]] = {
    "small": (APPLICATION, ()),
    "HTTP gateways": (GATEWAYS, ("--http", "127.0.0.1:0")),
}
"""Applications, with options of `demaq run`."""
PROCESSED_SECONDS_MAX = 60.0
POLL_SECONDS = 0.002

Taken = tuple[float, float]
"""Seconds, and seconds of CPU."""


def measure(runs: int, folder: Path | None, say: Callable[[str], None]) -> Iterator[Figure]:
    """A run that is not counted goes before: files are cached then, and Python has compiled its modules."""
    say(f"the start of commands, {runs} runs")
    found: dict[tuple[str, str], list[Taken]] = {}
    for number in range(runs + 1):
        for name, (application, options) in SYSTEMS.items():
            with TemporaryDirectory(dir=folder, prefix="demaq-bench-") as own:
                for what, each in _starts(application, Path(own) / "store", options):
                    if number:
                        found.setdefault((what, name), []).append(each)
    for (what, name), taken in found.items():
        at: Place = {"system": what, "application": name}
        seconds = tuple([wall for wall, _ in taken])
        target = f"at most {TARGETS[what]}" if what in TARGETS else ""
        yield Figure("seconds", statistics.median(seconds), "s", target, GROUP, at=at, runs=seconds)
        cpu = tuple([used for _, used in taken])
        yield Figure("CPU", statistics.median(cpu), "s", group=GROUP, at=at, runs=cpu)


def _starts(application: Path, store: Path, options: tuple[str, ...]) -> Iterator[tuple[str, Taken]]:
    yield CHECK, _check(application)
    node, remote, taken = _run(application, store, options)
    try:
        yield READY, taken
        yield FIRST, _first_message(node, remote, taken)
    finally:
        node.kill()
    node, remote, taken = _run(application, store, options)
    try:
        yield RESTART, taken
    finally:
        node.kill()


def _check(application: Path) -> Taken:
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(
        [sys.executable, "-P", "-m", "demaq.cli", "check", str(application)], check=True, stdout=subprocess.DEVNULL
    )
    seconds = time.perf_counter() - started
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _run(application: Path, store: Path, options: tuple[str, ...]) -> tuple[NodeProcess, RemoteNode, Taken]:
    """A node is ready when it says so: everything is connected, and it answers commands."""
    said = (store.parent / "node.log").stat().st_size if (store.parent / "node.log").exists() else 0
    started = time.perf_counter()
    node = NodeProcess(application, store, *options)
    try:
        node.wait_until_said("running on", said)
        seconds = time.perf_counter() - started
        return node, node.wait_until_running(), (seconds, _cpu(node.pid))
    except BaseException:
        node.kill()
        raise


def _first_message(node: NodeProcess, remote: RemoteNode, ready: Taken) -> Taken:
    """Return what it took from the start until a message has gone through all of its steps."""
    started = time.perf_counter()
    remote.enqueue("orders", order(1), {}, None)
    while remote.status()["processed"] < STEPS:
        if time.perf_counter() - started > PROCESSED_SECONDS_MAX:
            raise WrongResult(f"no message was processed within {PROCESSED_SECONDS_MAX:g} s: {node.said()}")
        time.sleep(POLL_SECONDS)
    return ready[0] + time.perf_counter() - started, _cpu(node.pid)


def _cpu(pid: int) -> float:
    return sum([cpu_seconds(each) for each in (pid, *descendants(pid))])
