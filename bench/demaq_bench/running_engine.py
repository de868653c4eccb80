"""The engine as a benchmark drives it: on a store in a folder, with its evaluator process, and with a watch in hand.

What a node's thread does between messages (rounds, and some garbage every few of them) is done here by the
benchmark, so that nothing else runs meanwhile.
"""

from __future__ import annotations

import re
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from demaq.compiler.planner import make_plan
from demaq.engine.engine import Engine
from demaq.engine.migration.migrate_store import migrate_store
from demaq.engine.round import THROUGHPUT
from demaq.evaluation.workers.process import ProcessEvaluator
from demaq.language.loader import load_program
from demaq.server.node_thread import GARBAGE_EVERY_TURNS, GARBAGE_STEP
from demaq.store.protocol import Committed, Step
from demaq.store.sqlite import SqliteStore

ARRIVALS_PER_COMMIT = 100
"""So many arriving messages are stored in one transaction."""

_ROOT = re.compile(r"<([\w.-]+)")


class RunningEngine:
    """An application on a store. Must be closed."""

    def __init__(self, application: Path, folder: Path) -> None:
        self.made: Counter[str] = Counter()
        """How many messages that are stored rules have made, by the name of their root elements."""
        self.seconds: defaultdict[str, float] = defaultdict(float)
        """Where the time went."""
        program = load_program(application)
        self.store = SqliteStore(folder)
        self._evaluator = ProcessEvaluator({str(file): text for file, text in program.files().items()}, folder)
        plan = make_plan(program)
        try:
            self._evaluator.start()
            migrate_store(plan, self._evaluator, self.store, _utc_now)  # a node that comes later finds its own program
        except BaseException:
            self.close()
            raise
        evaluator: Any = _Timed(self._evaluator, self._time, {"run": "evaluate"})
        store: Any = _Timed(self.store, self._time, {"append": "store arrivals", "commit": "commit"}, "read")
        policy = replace(THROUGHPUT, ahead=False)
        self.engine = Engine(
            plan, evaluator, store, _utc_now, observe=self._count, receiver=self._evaluator, policy=policy
        )

    @property
    def evaluator_pid(self) -> int:
        self._evaluator.start()
        assert self._evaluator.pid is not None, "it has just been started"
        return self._evaluator.pid

    def receive(self, queue: str, bodies: Sequence[bytes]) -> None:
        """Messages arrive: they are checked and stored, a group at a time."""
        for start in range(0, len(bodies), ARRIVALS_PER_COMMIT):
            with self._time("receive"):
                received = self.engine.receive_all(queue, list(bodies[start : start + ARRIVALS_PER_COMMIT]))
            self.engine.append(received)

    def work(self) -> int:
        """Process until nothing is left, and remove what is done with. Return how many messages there were."""
        steps = rounds = 0
        while done := self.engine.run_round():
            steps += done
            rounds += 1
            if rounds % GARBAGE_EVERY_TURNS == 0:
                self._collect_garbage()
        while self._collect_garbage():
            pass
        return steps

    def close(self) -> None:
        self._evaluator.close()
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _collect_garbage(self) -> int:
        with self._time("garbage"):
            return self.engine.collect_garbage(limit=GARBAGE_STEP)

    def _count(self, steps: Sequence[Step], committed: Sequence[Committed]) -> None:
        for step in steps:
            for message in step.created:
                root = _ROOT.match(message.body)
                assert root is not None, "a message has a root element"
                self.made[root[1]] += 1

    @contextmanager
    def _time(self, part: str) -> Iterator[None]:
        started = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[part] += time.perf_counter() - started


class _Timed:
    """Something whose methods are timed: under the names that are given, or all others under one."""

    def __init__(self, inner: object, timed: Callable[[str], Any], parts: dict[str, str], others: str = "") -> None:
        self._inner = inner
        self._time = timed
        self._parts = parts
        self._others = others

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._inner, name)
        part = self._parts.get(name, self._others)
        if not callable(value) or not part:
            return value

        def call(*args: Any, **kwargs: Any) -> Any:
            with self._time(part):
                return value(*args, **kwargs)

        self.__dict__[name] = call  # found at once the next time
        return call


def _utc_now() -> datetime:
    return datetime.now(UTC)
