"""One of the systems that are compared, in a process of its own, that does the turns it is asked to do.

So no system shares an interpreter, its garbage collector or its memory with another one, and what its processes take of
the CPU is known. Messages are made before the clock runs, and answers are checked after it: each that there
must be is there, once, and no other.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Protocol, Self

from lxml import etree

from demaq.errors import DemaqError
from demaq_bench.baseline import Arriving, StoringProgram
from demaq_bench.figures import WrongResult, cpu_seconds, written_bytes
from demaq_bench.fused_baseline import FusingPool, FusingProgram
from demaq_bench.processes import descendants
from demaq_bench.running_node import RunningNode
from demaq_bench.workloads import Workload, find_workload, with_size

HAND_WRITTEN = "hand-written"
FUSED, FUSED_POOL = "hand-written, fused", "hand-written, fused, 2 evaluators"
NODE, NODE_SAXON, NODE_SPARK, NODE_AUTO = "node, inline", "node, Saxon", "node, spark", "node, auto"
BASELINES = (HAND_WRITTEN, FUSED, FUSED_POOL)
NODES = {"inline": NODE, "spark": NODE_SPARK, "auto": NODE_AUTO}
"""By the pipeline."""


class System(Protocol):
    """What is compared."""

    def run(self, arriving: Sequence[Arriving], per_commit: int) -> None:
        """Process messages, so many of which arrive in one transaction, until nothing is left to do."""

    def take_answers(self) -> list[str]:
        """Return what has come out since this was last called."""

    def count_waiting(self) -> int:
        """Return how many messages are there that should not be there."""

    def close(self) -> None: ...


MAKERS: dict[str, Callable[[Workload, Path], System]] = {
    HAND_WRITTEN: StoringProgram,
    FUSED: FusingProgram,
    FUSED_POOL: FusingPool,
    NODE: RunningNode,
    NODE_SAXON: lambda workload, folder: RunningNode(workload, folder, evaluator="saxon"),
    NODE_SPARK: lambda workload, folder: RunningNode(workload, folder, pipeline="spark"),
    NODE_AUTO: lambda workload, folder: RunningNode(workload, folder, pipeline="auto"),
}


@dataclass(frozen=True, slots=True)
class WorkloadName:
    """What a process needs to know to find its workload."""

    name: str
    invoices: int = 0
    size: int = 0
    """Of messages of W1, if it is another one than usual."""

    def __str__(self) -> str:
        words = [self.name]
        words += [f"among {self.invoices:,} invoices"] if self.invoices else []
        words += [f"with {self.size / 1000:g} KB"] if self.size else []
        return " ".join(words)

    def find(self) -> Workload:
        return with_size(self.size) if self.size else find_workload(self.name, self.invoices)


@dataclass(frozen=True, slots=True)
class Turn:
    """What a system needed for some messages."""

    messages: int
    seconds: float
    own_cpu_seconds: float
    """Of the process that stores messages: a node's own, or the whole hand-written program."""
    other_cpu_seconds: float
    """Of all processes that it has started."""
    written: float
    """Bytes."""

    @property
    def speed(self) -> float:
        """Messages that arrive and are dealt with in a second."""
        return self.messages / self.seconds


class Contestant:
    """A system in its process. Must be closed."""

    def __init__(self, system: str, workload: WorkloadName, folder: Path) -> None:
        self.name = system
        self._about = f"{workload}, {system}"
        started = time.perf_counter()
        context = get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=serve, args=(theirs, system, workload, folder))
        self._process.start()
        theirs.close()
        self._receive()
        self.start_seconds = time.perf_counter() - started
        """What it took to be ready, with Spark where it is used, and with all invoices in its store."""

    def turn(self, numbers: range, per_commit: int) -> Turn:
        """Deal with the messages of some numbers. Raises WrongResult."""
        self._connection.send((numbers, per_commit))
        found = self._receive()
        assert isinstance(found, Turn), "it answers a turn with one"
        return found

    def close(self) -> None:
        self._connection.close()
        self._process.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _receive(self) -> Turn | None:
        try:
            found: Turn | str | None = self._connection.recv()
        except EOFError:
            found = "its process has ended"
        if isinstance(found, str):
            raise WrongResult(f"{self._about}: {found}")
        return found


def serve(connection: Connection, system: str, name: WorkloadName, folder: Path) -> None:
    """Do what is asked for until the connection is closed."""
    workload = name.find()
    try:
        running = MAKERS[system](workload, folder)
    except (DemaqError, WrongResult) as error:
        connection.send(str(error))
        return
    try:
        connection.send(None)
        while True:
            numbers, per_commit = connection.recv()
            connection.send(take_turn(running, workload, numbers, per_commit))
    except EOFError:
        pass
    finally:
        running.close()


def take_turn(system: System, workload: Workload, numbers: range, per_commit: int) -> Turn | str:
    """Return what a system needed for some messages, or what is wrong with its answers."""
    arriving = [(workload.key(number), workload.message(number)) for number in numbers]
    others, written, own, started = _cpu_of_others(), written_bytes(), time.process_time(), time.perf_counter()
    try:
        system.run(arriving, per_commit)
    except (DemaqError, WrongResult) as error:
        return str(error)
    seconds = time.perf_counter() - started
    own, written = time.process_time() - own, written_bytes() - written
    other = sum([cpu - others.get(pid, 0.0) for pid, cpu in _cpu_of_others().items()])
    problem = find_problem(workload, numbers, system.take_answers()) or _find_left(system.count_waiting())
    return problem or Turn(len(numbers), seconds, own, other, written)


def find_problem(workload: Workload, numbers: range, answers: Sequence[str]) -> str | None:
    """Return what is wrong with the answers to the messages of some numbers, if anything is."""
    expected = Counter([answer for number in numbers if (answer := workload.answer(number)) is not None])
    found = Counter(answers)
    if found == expected:
        return None
    found, expected = (Counter([etree.canonicalize(text) for text in each.elements()]) for each in (found, expected))
    if found == expected:
        return None
    wrong, missing = list((found - expected).elements()), list((expected - found).elements())
    shown = f"such as {wrong[0]}" if wrong else f"without {missing[0]}"
    return f"{found.total():,} answers for {expected.total():,} that there must be, {shown}"


def _find_left(count: int) -> str | None:
    return f"{count:,} messages are left" if count else None


def _cpu_of_others() -> dict[int, float]:
    return {pid: cpu_seconds(pid) for pid in descendants(os.getpid())}
