"""A real node under load, killed with SIGKILL at random moments, and checked message by message."""

from __future__ import annotations

import random
import re
import threading
import time
from collections import Counter
from pathlib import Path

from demaq.errors import DemaqError
from demaq.store.sqlite import SqliteStore
from tests.server.running import RunningNode

ROUNDS = 20
PROGRAM = """
create queue orders create queue checks create queue results create queue done create queue alarms
create queue later kind echo
create property id as xs:string queue results value //id
create slicing both on id
create rule split for orders if (/order) then (
  do enqueue <check part="a">{//id}</check> into checks,
  do enqueue <check part="b">{//id}</check> into checks,
  do enqueue <alarm>{//id}</alarm> into later with timeout value 0.05 with target value "alarms"
)
create rule work for checks if (/check) then do enqueue <result>{/check/@part, //id}</result> into results
create rule join for both if (count(qs:slice()) = 2) then (do enqueue <done>{//id}</done> into done, do reset)
"""


def test_a_node_that_is_killed_again_and_again_loses_nothing_and_does_nothing_twice(tmp_path: Path) -> None:
    application, store = tmp_path / "app.dmq", tmp_path / "store"
    application.write_text(PROGRAM, encoding="utf-8")
    chance = random.Random(7)
    accepted: set[str] = set()
    attempted: set[str] = set()
    number = 0
    for _ in range(ROUNDS):
        node = RunningNode(application, store)
        killer = threading.Timer(chance.uniform(0.0, 0.6), node.kill)
        killer.start()
        while killer.is_alive() or not killer.finished.is_set():
            number += 1
            name = f"o{number}"
            attempted.add(name)
            try:
                node.remote.enqueue("orders", f"<order><id>{name}</id></order>".encode(), {}, name)
            except (OSError, DemaqError):
                break
            accepted.add(name)
        killer.join()
    node = RunningNode(application, store)
    wait_until_idle(store)
    assert node.stop() == 0
    done = Counter(names(store, "done"))
    alarms = Counter(names(store, "alarms"))
    assert accepted
    assert accepted <= done.keys() <= attempted
    assert set(done.values()) == {1}
    assert alarms == done


def wait_until_idle(store: Path) -> None:
    reader = SqliteStore.open_readonly(store)
    until = time.monotonic() + 120
    while reader.pending(1) or reader.next_due() is not None:
        assert time.monotonic() < until, "the node is not getting anywhere"
        time.sleep(0.05)
    reader.close()


def names(store: Path, queue: str) -> list[str]:
    reader = SqliteStore.open_readonly(store)
    found: list[str] = []
    after = 0
    while page := reader.stored(queue, after, 1000):
        found += [match.group(1) for message in page if (match := re.search("<id>(.*?)</id>", message.body))]
        after = page[-1].seq
    reader.close()
    return found
