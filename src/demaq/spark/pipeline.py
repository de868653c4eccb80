"""Where rounds are evaluated: in the process beside the node, or on Spark. Decided anew for each round.

A job costs the same whatever it holds. It pays off when the round is so large that dividing it among the executors
saves more than that. What a job costs is measured when Spark is started, what a message costs in every round.

Where Spark cannot do a job at all, because the cluster is gone, rounds are evaluated beside the node until it can.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from demaq.backoff import Backoff
from demaq.errors import OperatorError
from demaq.evaluation.round_request import RoundEvaluator, RoundRequest, RoundResult
from demaq.evaluation.saxon.saxon_evaluator import ROUND_MESSAGES_MAX
from demaq.spark.jobs import JobFailed
from demaq.spark.spark_evaluator import SparkEvaluator

PipelineName = Literal["auto", "spark", "inline"]
START_MESSAGES = 1000
"""So many messages in one round let `auto` start Spark; until it runs they are evaluated beside the node."""
PROBES = 3
"""So many empty jobs tell what a job costs."""
MESSAGE_SECONDS_FIRST = 0.0005
"""What a message is taken to cost before any was seen."""
RECOVERY_BACKOFF = Backoff(seconds_first=0.5, seconds_max=10.0)
"""Between two questions whether Spark works again."""
WEIGHT = 0.3
"""How much the newest round says about what a message costs."""
WORTH_IT = 0.8
"""A message must cost less than this part on Spark: what is nearly the same would be decided anew in every round."""
ROUNDS_BEFORE_ANOTHER_TRY = 200
"""Where Spark was slower, so many full rounds later it is tried again."""

_log = logging.getLogger("demaq.node")


@dataclass(slots=True)
class Counts:
    """What went where."""

    inline_rounds: int = 0
    inline_messages: int = 0
    spark_rounds: int = 0
    spark_messages: int = 0


class Pipeline:
    """A RoundEvaluator that chooses between two. Must be closed."""

    def __init__(
        self,
        name: PipelineName,
        inline: RoundEvaluator,
        start: Callable[[], tuple[SparkEvaluator, Callable[[], None]]],
        tell: Callable[[str], None] = lambda line: None,
    ) -> None:
        """`start` starts Spark, and answers with how to stop it too. `tell` hears when it runs, and what goes there."""
        self.name = name
        self._tell = tell
        self.counts = Counts()
        self._noting = threading.Lock()
        """Held by whoever counts: several rounds may end at once."""
        self.why = "every round is evaluated beside the node"
        """The reason for the last choice."""
        self.job_seconds: float | None = None
        """What an empty job costs, once Spark runs."""
        self.message_seconds = MESSAGE_SECONDS_FIRST
        self.spark_message_seconds: float | None = None
        """What a message costs on Spark besides the job, once there were rounds."""
        self._rounds_not_tried = 0
        self._was_on_spark = False
        """Where the last round went."""
        self.fault: str | None = None
        """Why nothing goes to Spark at present, though it was started."""
        self._inline = inline
        self._start = start
        self._spark: SparkEvaluator | None = None
        self._stop: Callable[[], None] | None = None
        self._starting: threading.Thread | None = None
        self._recovering: threading.Thread | None = None
        self._closing = threading.Event()
        if name == "spark":
            self._start_now()

    def start(self) -> None:
        """Start Spark now, where it can be of use, instead of when a round calls for it."""
        if self.name == "auto" and self._spark is None:
            self._start_now()

    @property
    def messages_max(self) -> int:
        """Large rounds only where they can be divided; `auto` must see one to start Spark."""
        is_slower = self.name == "auto" and self._spark is not None and self.threshold is None
        return ROUND_MESSAGES_MAX if self.name == "inline" or is_slower else SparkEvaluator.messages_max

    @property
    def rounds_max(self) -> int:
        """Spark divides a round by itself; the processes beside the node take one each."""
        is_inline = self.name == "inline" or (self.name == "auto" and not self._was_on_spark)
        return self._inline.rounds_max if is_inline else 1

    @property
    def threshold(self) -> int | None:
        """From how many messages on a round goes to Spark, as things are; None where it never would."""
        if self._spark is None or self.job_seconds is None or self._spark.tasks < 2:
            return None
        if self.spark_message_seconds is None:  # nobody knows yet: as if all tasks could work at the same time
            saved_by_each = self.message_seconds * (1 - 1 / self._spark.tasks)
        else:
            here = self.message_seconds / self._inline.rounds_max
            saved_by_each = here * WORTH_IT - self.spark_message_seconds
        return max(1, int(self.job_seconds / saved_by_each)) if saved_by_each > 0 else None

    def close(self) -> None:
        self._closing.set()
        for thread in (self._starting, self._recovering):
            if thread is not None:
                thread.join()
        if self._stop is not None:
            self._stop()
            self._stop = None
        self._spark = None

    def run(self, request: RoundRequest) -> RoundResult:
        messages = len(request.batch)
        chosen = self._chosen(messages)
        self._was_on_spark = chosen is not None
        started = time.perf_counter()
        try:
            result = (chosen or self._inline).run(request)
        except JobFailed as failed:
            self._lost(failed)
            return self.run(request)
        seconds = (time.perf_counter() - started) / messages
        with self._noting:
            if chosen is not None:
                self.counts.spark_rounds += 1
                self.counts.spark_messages += messages
                self._note_spark(messages, seconds)
            else:
                self.counts.inline_rounds += 1
                self.counts.inline_messages += messages
                self.message_seconds += WEIGHT * (seconds - self.message_seconds)
        return result

    # the choice

    def _chosen(self, messages: int) -> SparkEvaluator | None:
        """Spark's evaluator where the round is worth a job."""
        if self.name == "inline":
            return None
        if self.fault is not None:
            self.why = f"Spark is out of reach: {self.fault}"
            return None
        if self.name == "spark":
            self.why = "every round goes to Spark"
            return self._spark
        if self._spark is None:
            self.why = f"Spark is started when a round has {START_MESSAGES:,} messages"
            if messages >= START_MESSAGES and self._starting is None:
                self._starting = threading.Thread(target=self._start_later, name="demaq-spark", daemon=True)
                self._starting.start()
            return None
        threshold = self.threshold
        if threshold is None:
            return self._another_try(messages)
        is_worth_it = messages >= threshold
        self.why = f"{messages:,} messages, {'at least' if is_worth_it else 'fewer than'} {threshold:,}"
        return self._spark if is_worth_it else None

    def _another_try(self, messages: int) -> SparkEvaluator | None:
        """Spark does not pay off, as far as one knows: now and then a full round tells whether that is still so."""
        assert self._spark is not None, "nobody knows before it runs"
        tasks, processes = self._spark.tasks, self._inline.rounds_max
        if tasks < 2:
            self.why = "Spark has one core only"
        else:
            self.why = f"Spark was slower than {'the process' if processes == 1 else f'{processes} processes'} here"
        if tasks < 2 or messages * processes < ROUND_MESSAGES_MAX:
            return None
        self._rounds_not_tried += 1
        if self._rounds_not_tried < ROUNDS_BEFORE_ANOTHER_TRY:
            return None
        self._rounds_not_tried = 0
        self.why += ", and is tried again"
        return self._spark

    def _note_spark(self, messages: int, seconds_each: float) -> None:
        """Learn from a round on Spark what a message costs there."""
        each = max(0.0, seconds_each - (self.job_seconds or 0.0) / messages)
        known = self.spark_message_seconds
        self.spark_message_seconds = each if known is None else known + WEIGHT * (each - known)

    def _start_later(self) -> None:
        try:
            self._start_now()
        except OperatorError as error:
            self.why = f"Spark could not be started: {error}"
            _log.warning("%s; going on beside the node", error)

    def _start_now(self) -> None:
        spark, self._stop = self._start()
        try:
            self._measure(spark)
        except JobFailed as failed:  # the cluster may have executors for us later
            self._lost(failed)
        self._spark = spark
        if self.fault is None:
            self._tell(self._described(spark))

    def _measure(self, spark: SparkEvaluator) -> None:
        spark.warm_up()
        self.job_seconds = min([spark.probe() for _ in range(PROBES)])

    def _described(self, spark: SparkEvaluator) -> str:
        runs = f"Spark runs with {spark.tasks} tasks, and a job costs {(self.job_seconds or 0) * 1000:.0f} ms"
        if self.name == "spark":
            return f"{runs}: every round goes there"
        threshold = self.threshold
        if threshold is None:
            return f"{runs}: no round is worth that"
        return f"{runs}: rounds of {threshold:,} messages and more go there"

    # faults

    def _lost(self, failed: JobFailed) -> None:
        _log.warning("%s; evaluating beside the node until Spark works again", failed)
        self.fault = str(failed)
        self._recovering = threading.Thread(target=self._recover, name="demaq-recovery", daemon=True)
        self._recovering.start()

    def _recover(self) -> None:
        """Ask Spark until it works again; where it has ended, start it anew."""
        attempt = 1
        while not self._closing.wait(RECOVERY_BACKOFF.delay_seconds(attempt)):
            attempt += 1
            spark = self._spark
            try:
                if spark is None or spark.has_ended():
                    if self._stop is not None:
                        self._stop()
                        self._stop = None
                    spark, self._stop = self._start()
                    self._spark = spark
                self._measure(spark)
            except OperatorError as error:
                self.fault = str(error)
                continue
            self.fault = None
            _log.warning("Spark works again, with %d tasks", spark.tasks)
            return
