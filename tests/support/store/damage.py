"""Stores as a killed node leaves them, and bits that flip in their files."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).parents[3]
SECRET = "Wednesday's secret"
"""In the bodies of all messages."""
WRITE_AND_DIE = """
import os, random, sys
from datetime import timedelta
from pathlib import Path
from demaq.messages import PropertyValue
from demaq.store import SqliteStore
from demaq.store.protocol import StoredAnswer, Postponed, SequenceChanges, Step, Timer
from tests.support.store.contract import MORNING, attempt, new, next_program
from tests.support.store.sequence_contract import held, pending, sequence

folder, seed, checkpoint = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
chance = random.Random(seed)
store = SqliteStore(folder)
properties = {"customer": PropertyValue.string("Wednesday's secret customer")}

def message(number):
    body = f"<m>Wednesday's secret {number}{'x' * chance.choice([0, 100, 6000])}</m>"
    kind = chance.randrange(6)
    return new(
        queue=["orders", "later", "out", "orders", "box", "orders"][kind],
        body=body,
        properties=properties,
        priority=0 if kind in (0, 3, 5) else None,
        slices=(("order", str(chance.randrange(9))),),
        entries=(("orders/name", str(number)),),
        timer=Timer(due=MORNING + timedelta(hours=1), target="orders") if kind == 1 else None,
        undelivered=kind == 2,
        request=f"Wednesday's secret request {number}" if chance.random() < 0.3 else None,
    )

store.load_collection("prices", ["<p>Wednesday's secret price</p>"])
store.activate(next_program(files={"a.dmq": "(: Wednesday's secret :)"}, indexes=("orders/name",)), MORNING)
for turn in range(30):
    secret = "Wednesday's secret"
    changes = SequenceChanges(
        sequences=(sequence(f"in {turn % 7}", content=secret), sequence(f"out {turn % 7}", "out", content=secret)),
        added=(held(turn + 1, f"in {turn % 7}", secret), pending(turn + 1, turn + 1, f"out {turn % 7}")),
        replay_keys={f"{secret} {turn}": MORNING + timedelta(days=9999)},
    )
    store.append([message(f"{turn}-{n}") for n in range(10)], changes)
    waiting = store.pending(4)
    resets = (("order", str(chance.randrange(9))),)
    store.commit([Step(processed=m.seq, resets=resets) for m in waiting], elide=chance.random() < 0.5)
    unsent = store.unsent("out", None, 2)
    if unsent:
        tried = attempt(unsent[0].message, unsent[0].attempts + 1, "again")
        store.postpone([Postponed(message=unsent[0].message, due=MORNING, attempt=tried)])
        answer = StoredAnswer(connection=f"c{turn}", status=200, content_type="text/xml", body="<a>Wednesday's secret</a>")
        store.commit([Step(delivered=unsent[-1].message, answer=answer)])
    if turn == 20 and checkpoint == "half":
        store._database.rows("PRAGMA wal_checkpoint(PASSIVE)")
print(store.snapshot(), flush=True)
if checkpoint == "closed":
    store.close()
os._exit(9)
"""


def written_store(folder: Path, seed: int, checkpoint: str) -> int:
    """Make a store with some hundred messages, whose node is killed; return its newest number.

    What was written is all in the log ("no" checkpoint), some of it in the database ("half"), or all ("closed").
    """
    command = [sys.executable, "-c", WRITE_AND_DIE, str(folder), str(seed), checkpoint]
    done = subprocess.run(command, capture_output=True, text=True, cwd=PROJECT)
    assert done.stdout, done.stderr
    return int(done.stdout)


def flip_bits(file: Path, chance: random.Random, count: int) -> list[int]:
    """Flip so many bits; return where."""
    data = bytearray(file.read_bytes())
    places = [chance.randrange(len(data) * 8) for _ in range(count)]
    for place in places:
        data[place // 8] ^= 1 << place % 8
    file.write_bytes(data)
    return places


def copy_of(folder: Path, name: str) -> Path:
    copy = folder.with_name(name)
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(folder, copy)
    return copy
