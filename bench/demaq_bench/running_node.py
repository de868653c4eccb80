"""A node as a benchmark drives it: with its own thread, fed through its public interface, in this process.

Messages arrive while it works, as they do with its users. Spark is started beforehand where the pipeline uses it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from demaq import Node
from demaq.gc_tuning import tune_gc
from demaq_bench.baseline import Arriving
from demaq_bench.figures import WrongResult
from demaq_bench.workloads import Workload

if TYPE_CHECKING:
    from demaq.evaluation.native.native_settings import EvaluatorName
    from demaq.spark.pipeline import PipelineName

FILL_BATCH = 5_000
IDLE_SECONDS_MAX = 300.0
TAKEN = 1_000


class RunningNode:
    """Must be closed."""

    def __init__(
        self, workload: Workload, folder: Path, pipeline: PipelineName = "inline", evaluator: EvaluatorName = "auto"
    ) -> None:
        self._workload = workload
        self.node = Node(workload.application, folder, pipeline=pipeline, evaluator=evaluator)
        try:
            self.node.pipeline.start()
            stock = workload.stock()
            while batch := [body for _, body in islice(stock, FILL_BATCH)]:
                self.node.enqueue_all("invoices", batch)
        except BaseException:
            self.node.stop()
            raise
        tune_gc()  # as `demaq run` does
        self.node.start()

    def run(self, arriving: Sequence[Arriving], per_commit: int) -> None:
        """Let messages arrive in groups, while others are processed. They are done when the node has nothing to do."""
        queue = self._workload.queue
        bodies = [body for _, body in arriving]
        if per_commit == 1:
            for body in bodies:
                self.node.enqueue(queue, body)
        else:
            for first in range(0, len(bodies), per_commit):
                self.node.enqueue_all(queue, bodies[first : first + per_commit])
        if not self.node.wait_until_idle(IDLE_SECONDS_MAX):
            raise WrongResult(f"the node does not go on: {self.node.fault or f'busy for {IDLE_SECONDS_MAX:g} s'}")

    def take_answers(self) -> list[str]:
        found: list[str] = []
        while taken := self.node.take(self._workload.answers, TAKEN):
            found += [message.body for message in taken]
        return found

    def count_waiting(self) -> int:
        """Return how many messages are left besides answers, invoices, timers and those that are retained."""
        left_out = {self._workload.answers, "invoices", "later", *self._workload.retained}
        queues = [name for name in self.node.program.queues if name not in left_out]
        return sum([1 for name in queues for _ in self.node.read_queue(name)])

    def close(self) -> None:
        self.node.stop()
