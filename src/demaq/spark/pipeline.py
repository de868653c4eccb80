"""Decide for each round where it is evaluated: in local worker processes or on Spark.

A job has a fixed cost. It pays off if the round is so large that dividing it among the executors saves more. The cost
of a job is measured when Spark starts, the cost of a message in every round.

If Spark cannot run a job, because the cluster has failed, rounds are evaluated locally until it can.
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
"""How many messages in one round make `auto` start Spark; until it runs they are evaluated locally."""
PROBES = 3
"""How many empty jobs are run to measure the cost of a job."""
MESSAGE_SECONDS_FIRST = 0.0005
"""The assumed cost of a message before any was measured."""
RECOVERY_BACKOFF = Backoff(seconds_first=0.5, seconds_max=10.0)
"""Between two probes whether Spark works again."""
WEIGHT = 0.3
"""The weight of the newest round in the moving average of a message's cost."""
WORTH_IT = 0.8
"""Spark is chosen if a message costs less than this share there.

Hysteresis: else the choice would change every round.
"""
ROUNDS_BEFORE_ANOTHER_TRY = 200
"""After how many full rounds Spark is tried again if it was slower."""

_log = logging.getLogger("demaq.node")


@dataclass(slots=True)
class Counts:
    """How many rounds and messages were evaluated where."""

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
        """`start` starts Spark and returns its evaluator and a function that stops it.

        `tell` is called with status lines.
        """
        self.name = name
        self._tell = tell
        self.counts = Counts()
        self._counting = threading.Lock()
        """Protects the counts: several rounds may end at the same time."""
        self.why = "every round is evaluated locally"
        """The reason for the last choice."""
        self.job_seconds: float | None = None
        """The cost of an empty job, once Spark runs."""
        self.message_seconds = MESSAGE_SECONDS_FIRST
        self.spark_message_seconds: float | None = None
        """The cost of a message on Spark without the job's, once there were rounds."""
        self._rounds_not_tried = 0
        self._was_on_spark = False
        """Whether the last round was evaluated on Spark."""
        self.fault: str | None = None
        """Why Spark is not used at present, although it was started."""
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
        """Start Spark now, if it may be used, instead of at the first large round."""
        if self.name == "auto" and self._spark is None:
            self._start_now()

    @property
    def messages_max(self) -> int:
        """How many messages a round may have: many only if it can be divided.

        `auto` needs a large round to start Spark.
        """
        is_slower = self.name == "auto" and self._spark is not None and self.threshold is None
        return ROUND_MESSAGES_MAX if self.name == "inline" or is_slower else SparkEvaluator.messages_max

    @property
    def rounds_max(self) -> int:
        """How many rounds run at a time: one on Spark, which divides it, or one in each local worker process."""
        is_inline = self.name == "inline" or (self.name == "auto" and not self._was_on_spark)
        return self._inline.rounds_max if is_inline else 1

    @property
    def threshold(self) -> int | None:
        """The number of messages from which on a round goes to Spark; None if Spark does not pay off."""
        if self._spark is None or self.job_seconds is None or self._spark.tasks < 2:
            return None
        if self.spark_message_seconds is None:  # not measured yet: assume that all tasks run in parallel
            saved_by_each = self.message_seconds * (1 - 1 / self._spark.tasks)
        else:
            local = self.message_seconds / self._inline.rounds_max
            saved_by_each = local * WORTH_IT - self.spark_message_seconds
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
        chosen = self._choose(messages)
        self._was_on_spark = chosen is not None
        started = time.perf_counter()
        try:
            result = (chosen or self._inline).run(request)
        except JobFailed as failed:
            self._start_recovery(failed)
            return self.run(request)
        seconds = (time.perf_counter() - started) / messages
        with self._counting:
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

    def _choose(self, messages: int) -> SparkEvaluator | None:
        """Return Spark's evaluator if the round is worth a job, else None."""
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
            return self._try_again(messages)
        is_worth_it = messages >= threshold
        self.why = f"{messages:,} messages, {'at least' if is_worth_it else 'fewer than'} {threshold:,}"
        return self._spark if is_worth_it else None

    def _try_again(self, messages: int) -> SparkEvaluator | None:
        """Return Spark's evaluator now and then although it did not pay off, to measure whether that has changed."""
        assert self._spark is not None, "without Spark there is no measurement"
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
        """Update the cost of a message on Spark after a round there."""
        each = max(0.0, seconds_each - (self.job_seconds or 0.0) / messages)
        known = self.spark_message_seconds
        self.spark_message_seconds = each if known is None else known + WEIGHT * (each - known)

    def _start_later(self) -> None:
        try:
            self._start_now()
        except OperatorError as error:
            self.why = f"Spark could not be started: {error}"
            _log.warning("%s; evaluating locally", error)

    def _start_now(self) -> None:
        spark, self._stop = self._start()
        try:
            self._measure(spark)
        except JobFailed as failed:  # the cluster may have executors for us later
            self._start_recovery(failed)
        self._spark = spark
        if self.fault is None:
            self._tell(self._describe(spark))

    def _measure(self, spark: SparkEvaluator) -> None:
        spark.warm_up()
        self.job_seconds = min([spark.probe() for _ in range(PROBES)])

    def _describe(self, spark: SparkEvaluator) -> str:
        runs = f"Spark runs with {spark.tasks} tasks, and a job costs {(self.job_seconds or 0) * 1000:.0f} ms"
        if self.name == "spark":
            return f"{runs}: every round goes there"
        threshold = self.threshold
        if threshold is None:
            return f"{runs}: no round is worth that"
        return f"{runs}: rounds of {threshold:,} messages and more go there"

    # faults

    def _start_recovery(self, failed: JobFailed) -> None:
        _log.warning("%s; evaluating locally until Spark works again", failed)
        self.fault = str(failed)
        self._recovering = threading.Thread(target=self._recover, name="demaq-recovery", daemon=True)
        self._recovering.start()

    def _recover(self) -> None:
        """Probe Spark until it works again; start it again if it has ended."""
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
