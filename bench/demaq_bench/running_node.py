"""A node as a benchmark drives it: with its own thread, fed through its own interface, in this process.

Messages arrive while it works, as they do with its users. Spark is started beforehand where the pipeline uses it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from demaq.gc_tuning import tune_gc
from demaq.server.node import Node
from demaq.spark.pipeline import PipelineName
from demaq.store.protocol import StoredMessage
from demaq_bench.figures import WrongResult
from demaq_bench.workloads import Workload

POLL_SECONDS = 0.0002
POLL_BATCH_SECONDS = 0.002
"""How often to poll for the end of one message, or of many: polling takes time from the node."""
WAIT_SECONDS_MAX = 120.0
"""How long a node may make no progress at all."""
PAGE = 1000


class RunningNode:
    """Must be closed."""

    def __init__(
        self, workload: Workload, folder: Path, pipeline: PipelineName = "inline", watched: bool = False
    ) -> None:
        """With `watched` every answer is heard of, also where none stays; a node that is watched does more."""
        self._answers: list[str] | None = [] if watched else None
        self._last_answer = 0
        self._workload = workload
        started = time.perf_counter()
        self.node = Node(workload.application, folder, pipeline=pipeline)
        try:
            self.node.pipeline.start()
        except BaseException:
            self.node.stop()
            raise
        self.start_seconds = time.perf_counter() - started
        """What it took to be ready, with Spark where it is used."""
        if watched:
            self.node.subscribe(workload.answers, self._note_answer)
        tune_gc()  # as `demaq run` does
        self.node.start()

    def process_all(self, queue: str, bodies: Sequence[bytes], per_commit: int) -> int:
        """Let messages arrive in groups while others are processed; one at a time comes when the last one is done.

        Return how many were processed. What is done with is removed in the end.
        """
        before = self.node.steps
        if per_commit == 1:
            for number, body in enumerate(bodies, 1):
                self.node.enqueue(queue, body)
                self._wait(before + number * self._workload.steps, POLL_SECONDS)
        else:
            self.receive(queue, bodies, per_commit)
            self._wait(before + len(bodies) * self._workload.steps, POLL_BATCH_SECONDS)
        self.node.collect_garbage()
        return self.node.steps - before

    def new_answers(self) -> list[str] | None:
        """Return what has come out since it was last asked; None if that is unknown."""
        if self._answers is not None:
            found, self._answers = self._answers, []
            return found
        if not self._workload.answers_stay:
            return None
        stored: list[str] = []
        while page := self.node.store.stored(self._workload.answers, self._last_answer, PAGE):
            stored += [message.body for message in page]
            self._last_answer = page[-1].seq
        return stored

    def receive(self, queue: str, bodies: Sequence[bytes], per_commit: int) -> None:
        for start in range(0, len(bodies), per_commit):
            self.node.enqueue_all(queue, list(bodies[start : start + per_commit]))

    def close(self) -> None:
        self.node.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _note_answer(self, message: StoredMessage) -> None:
        assert self._answers is not None, "only a node that is watched tells"
        self._answers.append(message.body)

    def _wait(self, steps: int, look_every_seconds: float) -> None:
        seen, since = -1, time.monotonic()
        while (done := self.node.steps) < steps:
            if done > seen:
                seen, since = done, time.monotonic()
            elif self.node.failure is not None or time.monotonic() - since > WAIT_SECONDS_MAX:
                reason = self.node.failure or self.node.fault or f"nothing has happened for {WAIT_SECONDS_MAX:g} s"
                raise WrongResult(f"the node does not go on: {reason}")
            time.sleep(look_every_seconds)
