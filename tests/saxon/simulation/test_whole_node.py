"""Seeded runs of a whole node: threads, worker processes, pipeline, slow lanes and outbox, with faults and restarts.

Each run draws an application, clients, faults, and the order in which threads take turns. More runs, or one again:

    NODE_SEEDS=1000 ./test tests/saxon/simulation/test_whole_node.py
    NODE_SEED=17 ./test tests/saxon/simulation/test_whole_node.py
"""

from __future__ import annotations

import gc
import os
import random
from collections import Counter

import pytest

from demaq import xml_name_count
from demaq.errors import StoreError
from demaq.server.gateways import Gateways
from tests.support.drawing import example_count, run_seed
from tests.support.simulation import worker_processes
from tests.support.simulation.scheduler import Scheduler
from tests.support.simulation.simulated_node import run_seed_in_memory
from tests.support.simulation.worker_processes import Fate, WorkerProcesses

SEEDS_FEW, SEEDS_MANY = 5, 24
SEEDS_FOR_SHARES = 60
SEEDS_PER_COLLECTION = 20
"""So often garbage is collected: threads and stores of a run refer to each other."""
NEEDED = (
    "rounds ahead",
    "evaluated again",
    "worker: died",
    "worker: hung",
    "deferred",
    "Spark: rounds",
    "Spark: job failed",
    "Spark: task lost",
    "store: full",
    "store: lost",
    "retried deliveries",
    "receiver: forgotten",
    "crashes in flight",
    "stops with drain",
    "repeated requests",
    "folded",
)
"""What must have happened in some of many runs for them to say anything."""


def run_seeds(first: int, count: int) -> Counter[str]:
    """Run so many seeds. Return how many runs each thing happened in."""
    happened: Counter[str] = Counter()
    for seed in range(first, first + count):
        print(f"to repeat it: NODE_SEED={seed}", flush=True)
        happened.update([what for what, times in run_seed_in_memory(seed).counts.items() if times])
        if seed % SEEDS_PER_COLLECTION == 0:
            gc.collect()
    return happened


def chosen_seeds(usual: int) -> tuple[int, int]:
    """Return the first seed, and how many there are."""
    if "NODE_SEED" in os.environ:
        return int(os.environ["NODE_SEED"]), 1
    return run_seed(), example_count(usual, "NODE_SEEDS")


@pytest.mark.draws
def test_whatever_happens_a_node_does_what_a_serial_execution_does() -> None:
    happened = run_seeds(*chosen_seeds(SEEDS_FEW))
    print(dict(happened))


@pytest.mark.slow
@pytest.mark.draws
def test_among_many_runs_everything_happens() -> None:
    first, count = chosen_seeds(SEEDS_MANY)
    happened = run_seeds(first + SEEDS_FEW, count)
    print(dict(happened))
    if count >= SEEDS_MANY:
        missing = [needed for needed in NEEDED if not happened[needed]]
        assert len(missing) <= 3, f"{missing}: {dict(happened)}"
    if count >= SEEDS_FOR_SHARES:
        for needed in NEEDED:
            assert happened[needed] > count // 20, f"{needed}: {dict(happened)}"


@pytest.mark.draws
def test_a_seed_repeats_a_run_exactly() -> None:
    seed = chosen_seeds(1)[0]
    print(f"to repeat it: NODE_SEED={seed}")
    first, second = run_seed_in_memory(seed), run_seed_in_memory(seed)
    assert first.counts["switches"] > 0
    assert (first.trace, first.counts) == (second.trace, second.counts)


@pytest.mark.draws
def test_a_run_does_not_depend_on_the_runs_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    seed, _ = chosen_seeds(1)
    while not (first := run_seed_in_memory(seed)).counts["retried deliveries"]:  # their pauses are drawn
        seed += 1
    print(f"to repeat it: NODE_SEED={seed}")
    monkeypatch.setattr(xml_name_count, "WHOLE_CHARACTERS", 0)  # as after many texts
    worker_processes._compile.cache_clear()
    second = run_seed_in_memory(seed)
    worker_processes._compile.cache_clear()
    assert (first.trace, first.counts) == (second.trace, second.counts)


@pytest.mark.draws
def test_a_node_whose_gateways_have_not_started_leaves_its_store_to_the_next_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    start = Gateways.start

    def fail_once(gateways: Gateways) -> None:
        monkeypatch.setattr(Gateways, "start", start)
        raise StoreError("the epochs cannot be read")

    monkeypatch.setattr(Gateways, "start", fail_once)
    seed = chosen_seeds(1)[0]
    print(f"to repeat it: NODE_SEED={seed}")
    assert run_seed_in_memory(seed).counts["gateways not started"]


def test_a_process_that_is_killed_before_it_runs_has_closed_its_connection() -> None:
    scheduler = Scheduler(random.Random(0))
    processes = WorkerProcesses(scheduler, Fate())
    ends: list[bool] = []

    def act() -> None:
        ours, theirs = processes.socket.socketpair()
        reading, writing = os.pipe()
        process = processes.subprocess.Popen(["python", "-P", "-c", "", str(theirs.fileno()), str(reading)])
        os.close(reading)
        process.kill()
        process.kill()
        ends.append(processes.connection(ours).poll(60.0))
        with pytest.raises(BrokenPipeError):
            os.write(writing, b"all others have closed it")
        os.close(writing)

    scheduler.run(act)
    assert ends == [True]
    assert scheduler.now < 1060.0
