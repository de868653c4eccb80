"""Where a node evaluates rules: its worker processes, their spares and lanes, and Spark if it is wanted."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from demaq.evaluation.native.ledger import NativeLedger
from demaq.evaluation.native.native_settings import NativeSettings
from demaq.evaluation.workers.child import Spares, Start
from demaq.evaluation.workers.pool import EvaluatorPool, evaluators_here, slow_lanes_here
from demaq.evaluation.workers.process import ProcessEvaluator
from demaq.evaluation.workers.receiver import Receiver
from demaq.evaluation.workers.worker_connection import WaitingWorkers
from demaq.server.self_check_thread import SelfCheckThread
from demaq.spark.evaluator_tasks import ATTEMPTS_OF_TASKS, EvaluatorTasks, local_tasks
from demaq.spark.master import is_local
from demaq.spark.pipeline import Pipeline, PipelineName
from demaq.spark.session import start_spark
from demaq.store.opening import address_for_executors

SPARES = 2
"""So many processes, one for rounds and one for what is apart, are ready to replace others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkWish:
    """Whether rules are to be evaluated on Spark, and how it is reached."""

    pipeline: PipelineName
    master: str
    options: Mapping[str, str] | None
    folder: Path


class NodeEvaluators:
    """Starts the worker processes of a node, and ends them when it is closed."""

    def __init__(
        self,
        files: Mapping[str, str],
        where: str | Path,
        limits: tuple[float, int | None],
        native: NativeSettings,
        spark: SparkWish,
        tell: Callable[[str], None],
    ) -> None:
        """`files` are the texts of the application, `where` is the store; `limits` are seconds and bytes for a rule."""
        self.native = NativeLedger()
        self._files, self._where, self._seconds, self._native = dict(files), where, limits[0], native
        self._spark, self._tell = spark, tell
        self._rounds, self._arrivals = WaitingWorkers(), WaitingWorkers()
        with contextlib.ExitStack() as opened:
            spares = Spares(SPARES)
            opened.callback(spares.close)
            # Two processes, so that senders do not wait for slow rules.
            given = self._files, where, *limits, spares
            self.rules = ProcessEvaluator(*given, False, native, self.native, self._rounds)
            self._arriving = ProcessEvaluator(*given, True, native, self.native, self._arrivals)
            opened.callback(self.rules.close)
            opened.callback(self._arriving.close)
            self.rules.launch()
            slow_arrivals = self._arriving.twin(is_local=True)
            opened.callback(slow_arrivals.close)
            self._arriving.launch()
            self.rules.start()
            self._arriving.start()
            self.receiver = Receiver(self._arriving, slow_arrivals)

            pool = EvaluatorPool(self.rules, evaluators_here(), self._note_round)
            opened.callback(pool.close)
            # Local, also if other rules are evaluated on Spark.
            sifting = self.rules.twin(is_patient=True, is_local=True)
            self.lanes = [sifting, *[sifting.twin(is_urgent=False) for _ in range(slow_lanes_here())]]
            for lane in self.lanes:
                opened.callback(lane.close)
            is_elsewhere = not is_local(spark.master)
            self.pipeline = Pipeline(spark.pipeline, pool, self._start_tasks, tell, is_elsewhere=is_elsewhere)
            opened.callback(self.pipeline.close)
            self.self_check = SelfCheckThread(pool.check_when_idle)
            opened.callback(self.self_check.close)
            self.close = opened.pop_all().close

    @property
    def replaced(self) -> int:
        """How many processes had to be replaced because of what they were asked to evaluate."""
        return sum([evaluator.replaced for evaluator in (self.rules, self._arriving, *self.lanes)])

    @property
    def pids(self) -> dict[str, int | None]:
        """The worker processes: of rules, and of messages from outside."""
        return {"rules": self.rules.pid, "arrivals": self._arriving.pid}

    def _start_tasks(self) -> tuple[EvaluatorTasks, Callable[[], None]]:
        wish = self._spark
        tasks = local_tasks(wish.master)
        spark = start_spark(
            wish.master,
            options=wish.options,
            folder=wish.folder,
            tell=self._tell,
            slots=tasks or 0,
            attempts=ATTEMPTS_OF_TASKS,
        )
        with contextlib.ExitStack() as started:
            started.callback(spark.close)
            shared = address_for_executors(self._where)
            begin = Start(files=self._files, store=shared, orphan_seconds=self._seconds, native=self._native)
            found = EvaluatorTasks(spark.session, begin, self._rounds, self._arrivals, spark.private_folder, tasks)
            started.callback(found.close)
            return found, started.pop_all().close

    def _note_round(self, messages: int, is_on_spark: bool) -> None:
        self.pipeline.note_round(messages, is_on_spark)
