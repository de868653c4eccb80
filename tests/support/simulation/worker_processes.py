"""Worker processes of a simulated node: threads that run the worker's own loop over a connection in memory.

What a process would do by itself, a `Fate` decides: how long a request takes, whether the process dies before or after
it, does not come back, or grows.
"""

from __future__ import annotations

import itertools
import os
import pickle
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from demaq.errors import StoreError
from demaq.evaluation.native.native_settings import DEFAULT, NativeSettings
from demaq.evaluation.saxon.compiled import CompiledProgram, compile_program
from demaq.evaluation.workers import worker
from demaq.evaluation.workers.progress import Progress
from demaq.evaluation.workers.worker import Worker
from demaq.evaluation.workers.worker_protocol import (
    ComputeEach,
    EvaluateEach,
    EvaluateMessages,
    ListRules,
    Request,
    RunRound,
    Streamed,
)
from demaq.language.loader import load_program_texts
from demaq.language.program.program import Program
from tests.support.simulation.primitives import Pipe
from tests.support.simulation.scheduler import Scheduler, Task

RULE_TIMEOUT_SECONDS = 5.0
SLOW_SECONDS = 2.0
"""Longer than a round waits for one call, shorter than the limit."""
DEATHS_MAX = 3
"""So often a process dies of one request: fewer than make the request fail for good."""
MUCH_MEMORY = 4_000_000_000


@dataclass
class Fate:
    """What becomes of worker processes: shares of requests, all 0 if nothing goes wrong."""

    dies: float = 0.0
    hangs: float = 0.0
    grows: float = 0.0
    fails_to_start: float = 0.0
    store_fails: float = 0.0
    is_replaced: float = 0.0
    counts: Counter[str] = field(default_factory=Counter)

    def calm(self) -> None:
        self.dies = self.hangs = self.grows = self.fails_to_start = self.store_fails = self.is_replaced = 0.0


class WorkerProcesses:
    """Stands for the operating system that a node starts worker processes with."""

    def __init__(self, scheduler: Scheduler, fate: Fate) -> None:
        self._scheduler = scheduler
        self.fate = fate
        self._pids = itertools.count(1)
        self._numbers = itertools.count(1)
        self._ends: dict[int, Pipe] = {}
        self.resident: dict[int, int] = {}
        self._deaths: Counter[bytes] = Counter()
        self.kept: list[object] = []
        """What holds nodes of Saxon, which must be released in the main thread: `clear` it there."""
        self.socket = SimpleNamespace(socketpair=self._socketpair, socket=lambda fileno: _Socket(fileno))
        self.subprocess = SimpleNamespace(Popen=self._popen, DEVNULL=None)

    def connection(self, peer: _Socket) -> Pipe:
        """Stands for SocketChannel."""
        return self._ends.pop(peer.number)

    def resident_bytes(self, pid: int) -> int:
        return self.resident.get(pid, 1)

    def _socketpair(self) -> tuple[_Socket, _Socket]:
        ends = Pipe.pair(self._scheduler)
        numbers = next(self._numbers), next(self._numbers)
        self._ends.update(zip(numbers, ends, strict=True))
        return _Socket(numbers[0]), _Socket(numbers[1])

    def _popen(self, command: list[str], **options: Any) -> SimulatedProcess:
        return SimulatedProcess(self, self._scheduler, next(self._pids), int(command[4]), int(command[5]))

    def starts(self, pid: int) -> None:
        if self._scheduler.chance.random() < self.fate.fails_to_start:
            self.fate.counts["not started"] += 1
            self._scheduler.die()

    def before(self, process: SimulatedWorker, request: Request) -> bool:
        """Decide about a request. Return whether the process dies after it."""
        scheduler, fate = self._scheduler, self.fate
        chance = scheduler.chance
        scheduler.sleep(chance.choice((0.0, 0.0001, 0.001, 0.01, 0.05)))
        if isinstance(request, ListRules):
            return False
        if chance.random() < fate.dies:
            known = pickle.dumps(request)
            if self._deaths[known] < DEATHS_MAX:
                self._deaths[known] += 1
                fate.counts["died"] += 1
                if chance.random() < 0.5:
                    scheduler.die()
                return True
        if chance.random() < fate.hangs:
            fate.counts["hung"] += 1
            seqs = request.seqs if isinstance(request, RunRound | EvaluateEach | EvaluateMessages) else ()
            named = [chance.choice(list(seqs))] if seqs and chance.random() < 0.7 else []
            process.note_busy(named)
            if isinstance(request, RunRound) and chance.random() < 0.5:
                scheduler.wait(lambda: False)  # until it is killed
            scheduler.sleep(SLOW_SECONDS * chance.random())
        if isinstance(request, RunRound) and chance.random() < fate.grows:
            fate.counts["grew"] += 1
            process.note_busy([])
            self.resident[process.pid] = MUCH_MEMORY
            scheduler.sleep(1.0)
            self.resident.pop(process.pid, None)
        if isinstance(request, RunRound | EvaluateMessages) and chance.random() < fate.store_fails:
            fate.counts["store not read"] += 1
            raise StoreError("the store cannot be read now")
        return False


@dataclass
class _Socket:
    number: int

    def fileno(self) -> int:
        return self.number

    def __enter__(self) -> _Socket:
        return self

    def __exit__(self, *error: object) -> None:
        pass


class SimulatedProcess:
    """Stands for subprocess.Popen: the process is a thread that runs `worker.main`."""

    def __init__(self, system: WorkerProcesses, scheduler: Scheduler, pid: int, number: int, shared: int) -> None:
        self.pid = pid
        self._scheduler = scheduler
        self._shared = os.dup(shared)  # its caller closes that one
        self._is_released = False
        self._end = system._ends[number]
        self._system = system
        starter = scheduler.current
        group = starter.group if starter is not None and starter.group is not None else scheduler.group
        self._task: Task = scheduler.start(lambda: self._run(number), f"worker-{pid}", group)

    def _run(self, number: int) -> None:
        SimulatedWorker.system = self._system
        try:
            self._system.starts(self.pid)
            worker.main(number, self._shared)
        finally:
            self._release()

    def _release(self) -> None:
        """Close what the process had open, as its end does."""
        if not self._is_released:
            self._is_released = True
            self._end.close()
            os.close(self._shared)

    def poll(self) -> int | None:
        return 0 if self._task.is_done else None

    def kill(self) -> None:
        self._scheduler.vanish([self._task])
        self._release()  # it may have been killed before it ran at all

    def wait(self) -> None:
        pass


class SimulatedWorker(Worker):
    """A worker whose work is done in the main thread, which Saxon belongs to."""

    system: WorkerProcesses

    def __init__(
        self,
        files: dict[str, str],
        store: str | Path,
        native: NativeSettings = DEFAULT,
        progress: Progress | None = None,
    ) -> None:
        scheduler = self.system._scheduler
        task = scheduler.current
        assert task is not None
        self.pid = int(task.name.removeprefix("worker-"))
        self.system.kept.append(self)
        start = super().__init__
        scheduler.sleep(scheduler.chance.choice((0.001, 0.1, 1.0)))
        scheduler.in_main(lambda: start(files, store, native, progress))

    def note_busy(self, seqs: list[int]) -> None:
        assert self._progress is not None
        self._progress.begin("simulated", seqs)

    def answer(self, request: Request) -> Any:
        dies_after = self.system.before(self, request)
        work = super().answer
        # Copies, because documents keep what Saxon makes of them, and that must not be released in another thread.
        packed = pickle.dumps(request)
        done = self.system._scheduler.in_main(lambda: pickle.dumps(work(pickle.loads(packed))))
        if dies_after:
            self.system._scheduler.die()
        return pickle.loads(done)

    def answer_each(self, request: Streamed) -> Iterator[Any]:
        scheduler = self.system._scheduler
        work = super().answer_each
        items: Any = scheduler.in_main(lambda: iter(work(pickle.loads(pickle.dumps(request)))))
        self.system.kept.append(items)
        while True:
            dies_after = self.system.before(self, request)
            done = scheduler.in_main(lambda: pickle.dumps(next(items, None)))
            if dies_after:
                scheduler.die()
            item = pickle.loads(done)
            if item is None:
                return
            yield item
            if isinstance(request, ComputeEach):
                scheduler.point()

    def has_grown(self) -> bool:
        is_replaced = self.system._scheduler.chance.random() < self.system.fate.is_replaced
        self.system.fate.counts["replaced"] += is_replaced
        return is_replaced


@lru_cache(maxsize=50)
def _load(files: tuple[tuple[str, str], ...]) -> Program:
    return load_program_texts(dict(files))


@lru_cache(maxsize=50)
def _compile(files: tuple[tuple[str, str], ...]) -> CompiledProgram:
    return compile_program(_load(files))


def load_once(files: Mapping[str, str]) -> Any:
    """Stands for the worker's `load_program_texts`: what identifies the program."""
    return tuple(sorted(files.items()))


def compile_once(files: Any) -> CompiledProgram:
    """Stands for the worker's `compile_program`. Workers of one program share the result, which takes a second."""
    return _compile(files)
