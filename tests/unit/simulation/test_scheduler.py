"""The scheduler of simulations: one thread at a time, an order of the seed's choice, and a clock that waits for none."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.simulation.event_loop import EventLoops
from tests.support.simulation.primitives import Pipe, SimulatedExecutor, Synchronisation
from tests.support.simulation.scheduler import Scheduler, SimulationFailed, Vanished

TIMES = 5


def run(seed: int, act: Callable[[Scheduler, Any], None], preempted: tuple[str, ...] = ()) -> Scheduler:
    """Run a function with a scheduler and its stand-in for `threading`."""
    scheduler = Scheduler(random.Random(seed), preempted)
    scheduler.run(lambda: act(scheduler, Synchronisation(scheduler)))
    return scheduler


def count_without_lock(threading: Any, counts: list[int]) -> None:
    def count() -> None:
        for _ in range(TIMES):
            known = counts[0]
            more = known + 1
            counts[0] = more

    threads = [threading.Thread(count) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_a_deadlock_is_found_and_shown() -> None:
    def act(scheduler: Scheduler, threading: Any) -> None:
        one, other = threading.Lock(), threading.Lock()

        def cross() -> None:
            with other:
                scheduler.sleep(1)
                with one:
                    pass

        threading.Thread(cross, name="crossing").start()
        with one:
            scheduler.sleep(1)
            with other:
                pass

    with pytest.raises(SimulationFailed, match=r"(?s)deadlock.*crossing.*cross"):
        run(0, act)


def test_a_thread_that_dies_fails_the_run() -> None:
    def act(scheduler: Scheduler, threading: Any) -> None:
        threading.Thread(lambda: 1 // 0, name="dividing").start()
        scheduler.sleep(100)

    with pytest.raises(SimulationFailed, match=r"(?s)dividing.*ZeroDivisionError"):
        run(0, act)


def test_a_lost_update_is_found_by_some_seed_and_repeated_by_it() -> None:
    def lose(seed: int) -> int:
        counts = [0]
        run(seed, lambda scheduler, threading: count_without_lock(threading, counts), ("test_scheduler.py",))
        return counts[0]

    found = {seed: lose(seed) for seed in range(50)}
    assert 3 * TIMES in found.values()
    seed = next(seed for seed, count in found.items() if count < 3 * TIMES)
    assert lose(seed) == found[seed]


def test_the_clock_moves_to_the_earliest_deadline() -> None:
    woken: list[tuple[str, float]] = []

    def act(scheduler: Scheduler, threading: Any) -> None:
        def sleep(name: str, seconds: float) -> None:
            scheduler.sleep(seconds)
            woken.append((name, round(scheduler.now - 1000.0)))

        for name, seconds in (("long", 3600.0), ("short", 5.0)):
            threading.Thread(sleep, args=(name, seconds)).start()

    run(0, act)
    assert woken == [("short", 5), ("long", 3600)]


def test_threads_of_a_killed_process_end_and_release_what_they_hold() -> None:
    ended: list[str] = []

    def act(scheduler: Scheduler, threading: Any) -> None:
        lock, process = threading.Lock(), object()
        scheduler.group = process

        def hold() -> None:
            try:
                with lock:
                    scheduler.sleep(1000)
                ended.append("by itself")
            except Vanished:
                ended.append("killed")
                raise

        threading.Thread(hold).start()
        scheduler.sleep(1)
        scheduler.vanish(scheduler.tasks_of(process))
        assert scheduler.now < 1100
        assert lock.acquire(blocking=False)

    run(0, act)
    assert ended == ["killed"]


def test_a_connection_ends_with_the_other_side() -> None:
    got: list[object] = []

    def act(scheduler: Scheduler, threading: Any) -> None:
        ours, theirs = Pipe.pair(scheduler)

        def answer() -> None:
            theirs.send(theirs.recv() + 1)
            theirs.close()

        threading.Thread(answer).start()
        ours.send(1)
        assert ours.poll(10)
        got.append(ours.recv())
        assert ours.poll(10)
        with pytest.raises(EOFError):
            ours.recv()
        with pytest.raises(BrokenPipeError):
            ours.send(2)

    run(0, act)
    assert got == [2]


@pytest.mark.parametrize("seed", range(5))
def test_an_event_loop_waits_for_timers_and_other_threads(seed: int) -> None:
    got: list[object] = []

    def act(scheduler: Scheduler, threading: Any) -> None:
        executor = SimulatedExecutor(scheduler, 1)

        def work() -> str:
            scheduler.sleep(7)
            return "done"

        async def main() -> None:
            loop = asyncio.get_running_loop()
            began = loop.time()
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(asyncio.Event().wait(), 30)
            got.append(round(loop.time() - began))
            got.append(await loop.run_in_executor(executor, work))
            got.append(round(loop.time() - began))

        EventLoops(scheduler).run(main())
        executor.shutdown()

    run(seed, act)
    assert got == [30, "done", 37]
