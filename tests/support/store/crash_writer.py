"""A process that appends and commits as fast as it can until it is killed, and writes down each acknowledgement it got.

python crash_writer.py FOLDER ACKNOWLEDGED
"""

from __future__ import annotations

import os
import random
import sys
from datetime import UTC, datetime
from pathlib import Path

from demaq.store import SqliteStore
from demaq.store.protocol import NewMessage, SequenceChanges, SequenceMessage, Step, StoredSequence


def message(queue: str, body: str, trigger: int | None = None) -> NewMessage:
    """In a slice and an index that can be checked against the body."""
    return NewMessage(
        queue=queue,
        body=body,
        properties={},
        created=datetime.now(UTC),
        trigger=trigger,
        priority=0 if queue == "orders" else None,
        slices=(("body", body),),
        entries=(("body", body),),
    )


def changes(number: int) -> SequenceChanges:
    """The sequence says what it holds back, which is the message of this number alone."""
    sequence = StoredSequence(
        direction="in", name="s", queue="q", peer="p", has_ended=False, content=str(number), changed=datetime.now(UTC)
    )
    return SequenceChanges(
        sequences=(sequence,),
        added=(SequenceMessage(direction="in", sequence="s", number=number, held=f"<held>{'x' * number}</held>"),),
        removed=(("in", "s", number - 1),),
    )


def main(folder: Path, acknowledged: int) -> None:
    store = SqliteStore(folder)
    chance = random.Random()
    number = max([int(each.content) for each in store.sequences()], default=0)
    while True:
        bodies = [f"<order>{chance.random()}{'x' * chance.choice([0, 500, 9000])}</order>" for _ in range(3)]
        number += 1
        stored = store.append([message("orders", body) for body in bodies], changes(number))
        os.write(acknowledged, f"received {number} in a sequence\n".encode())
        for seq, body in zip(stored, bodies, strict=True):
            os.write(acknowledged, f"appended {seq} {body}\n".encode())
        waiting = store.pending(chance.randint(1, 5))
        store.commit([step(waiting.seq, waiting.body) for waiting in waiting])
        for each in waiting:
            os.write(acknowledged, f"processed {each.seq} {each.body}\n".encode())
        if chance.random() < 0.2:
            store.collect_garbage(datetime.now(UTC), 2)


def step(seq: int, body: str) -> Step:
    """Every third message is released, so that it retires and can be removed; each makes two others."""
    resets = (("body", body),) if seq % 3 == 0 else ()
    return Step(processed=seq, resets=resets, created=(message("one", str(seq), seq), message("two", str(seq), seq)))


if __name__ == "__main__":
    main(Path(sys.argv[1]), os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT | os.O_APPEND))
