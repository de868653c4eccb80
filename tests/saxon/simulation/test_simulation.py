"""Seeded runs: arrivals, time, restarts, garbage and a store that fails for a while, in any order.

Every run draws others. More of them, or one of them again:

    SIMULATION_SEEDS=1000 ./test tests/saxon/simulation
    SIMULATION_SEED=17 ./test tests/saxon/simulation
"""

from __future__ import annotations

import os
import random
import tempfile
from collections import Counter
from pathlib import Path

import pytest

from demaq.store import SqliteStore
from tests.support.drawing import example_count, run_seed
from tests.support.reference.comparing import EngineSide, Event, InterpreterSide, assert_same
from tests.support.simulation.applications import APPLICATIONS, Simulated
from tests.support.store.consistency import ALL, assert_consistent

MEMORY = Path("/dev/shm")
SEEDS = 24
ACTIONS = 14
HOPS_MAX = 6
HOPS_BEYOND_MAX = 5
"""What still happens at the limit: a timer ends, and errors are reported, at most once on each of four levels."""
MESSAGES_MAX = 1000
"""More than a run makes: these applications all come to an end."""
SECONDS = (0.25, 1, 2, 5, 5, 30, 3600, 100_000)
WEIGHTS = {"arrive": 8, "run": 3, "advance": 4, "crash": 2, "collect": 2, "take": 2, "fail": 2}


@pytest.fixture(autouse=True)
def stores_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """This is about answers, not about disks."""
    if MEMORY.is_dir():
        monkeypatch.setattr(tempfile, "tempdir", str(MEMORY))


def seeds() -> list[int]:
    """Return consecutive seeds, so that each application has its turn."""
    if "SIMULATION_SEED" in os.environ:
        return [int(os.environ["SIMULATION_SEED"])]
    return [run_seed() + number for number in range(example_count(SEEDS, "SIMULATION_SEEDS"))]


@pytest.mark.draws
@pytest.mark.parametrize("seed", seeds())
def test_whatever_happens_the_engine_does_what_the_interpreter_does(seed: int) -> None:
    application = APPLICATIONS[seed % len(APPLICATIONS)]
    print(f"to repeat it: SIMULATION_SEED={seed}; application {application.name}")
    interpreter = InterpreterSide(application.text, HOPS_MAX, frozenset(), MESSAGES_MAX)
    mailboxes = [queue for queue in interpreter.interpreter.program.queues if interpreter.is_mailbox(queue)]
    events = drawn(application, mailboxes, random.Random(seed))
    engine = EngineSide(application.text, HOPS_MAX, frozenset(), on_disk=True)
    with engine.lab:
        for event in events:
            print(event)
            expected = interpreter.do(event)
            assert engine.do(event) == expected
            if event.what in ("crash", "fail"):
                assert_same(engine, interpreter)
        assert_same(engine, interpreter)
        assert_invariants(engine)


def drawn(application: Simulated, mailboxes: list[str], chance: random.Random) -> list[Event]:
    events = [application.arrival(chance)]
    for what in chance.choices([*WEIGHTS], [*WEIGHTS.values()], k=ACTIONS):
        if what == "arrive":
            events += [application.arrival(chance) for _ in range(chance.randint(1, 3))]
        elif what == "advance":
            events.append(Event(what, seconds=chance.choice(SECONDS)))
        elif what == "crash":
            down = chance.random() < 0.5
            events.append(Event(what, seconds=chance.choice(SECONDS) if down else 0))
        elif what == "take":
            events.append(Event(what, chance.choice(mailboxes)))
        elif what == "fail":
            refused = application.arrival(chance)
            events.append(Event(what, refused.queue, refused.body, refused.properties))
        else:
            events.append(Event(what))
    return [*events, Event("run")]


def assert_invariants(engine: EngineSide) -> None:
    store = engine.lab.store
    assert isinstance(store, SqliteStore)
    assert_consistent(store)
    assert store.pending(1) == []
    echoes = [name for name, queue in engine.lab.program.queues.items() if queue.kind == "echo"]
    fired = {message.id for queue in echoes for message in engine.lab.read_created(queue)}
    made = [message for queue in engine.lab.program.queues for message in engine.lab.read_created(queue)]
    came_back = Counter([message.trigger for message in made if message.trigger in fired])
    assert all([times == 1 for times in came_back.values()]), came_back
    for message in store.stored(None, 0, ALL):
        assert message.hops <= HOPS_MAX + HOPS_BEYOND_MAX, message
        if message.timer is not None:
            assert (message.processed is None) == (message.timer.due > engine.lab.now), message
