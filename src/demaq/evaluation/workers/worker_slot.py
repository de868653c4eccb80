"""The worker of an evaluator: a local process, or one elsewhere as soon as one waits; replaced if it is lost."""

from __future__ import annotations

import threading

from demaq.errors import EvaluatorUnavailable
from demaq.evaluation.workers.child import Spares, Start
from demaq.evaluation.workers.worker_connection import WaitingWorkers, WorkerConnection


class NoWorker(EvaluatorUnavailable):
    """No worker waits elsewhere, for an evaluator that has no local process. Another one is to be asked."""


class WorkerSlot:
    """One worker at a time. Must be closed."""

    def __init__(self, start: Start, spares: Spares, elsewhere: WaitingWorkers | None) -> None:
        self._start = start
        self._spares = spares
        self._elsewhere = elsewhere
        self.has_process = True
        """Whether a process is started if no worker waits elsewhere."""
        self.replaced = 0
        """How many workers were replaced because of a request."""
        self._asking = threading.Lock()
        """Held during a request: there is one at a time."""
        self._process: WorkerConnection | None = None
        self._withdrawn: dict[str, str] = {}
        """What is left to Saxon, as far as the worker was informed of it."""
        self._checks_waiting = 0
        """How many native answers of the worker wait to be checked."""
        self._was_on_spark = False
        """Whether the last worker that was replaced was a task on Spark."""
        self._is_stopped = False

    def launch(self) -> None:
        """Start the worker without waiting for it."""
        self._launched()

    def launch_spares(self) -> None:
        """Start spare workers, for when one has to be replaced."""
        self._spares.launch(self._start)

    def is_ready(self) -> bool:
        """Return whether the worker is ready. Raises like `start` if it did not start."""
        self._adopt()
        try:
            return self._process is not None and self._process.is_ready()
        except Exception:
            self._process = None
            raise

    @property
    def pid(self) -> int | None:
        """The process id of the worker, if one runs on this machine."""
        return self._process.pid if self._process is not None else None

    @property
    def is_on_spark(self) -> bool:
        """Whether the worker is a task on Spark."""
        return self._process is not None and self._process.is_on_spark

    def start(self) -> None:
        """Start the worker if it does not run. Raises a ProgramError if the program cannot be compiled."""
        self._connected()

    def _launched(self) -> WorkerConnection:
        self._adopt()
        if self._process is None and not self._is_stopped:
            if not self.has_process:
                raise NoWorker("no worker waits elsewhere")
            self._process = self._spares.take(self._start)
            self._withdrawn = {}
        # Asked last, because `stop` has not seen a process that was not there yet.
        if self._process is None or self._is_stopped:
            self._end_process()
            raise EvaluatorUnavailable("the node stops")
        return self._process

    def _adopt(self) -> None:
        """Use a worker elsewhere from now on, if one waits, and none that has been lost meanwhile."""
        if self._process is not None and self.is_on_spark and not self._process.is_alive():
            self._end_process()
        if self._elsewhere and not self.is_on_spark and not self._is_stopped:
            found = self._elsewhere.take()
            if found is not None:
                self._end_process()
                self._process = found
                self._withdrawn = {}

    def _connected(self) -> WorkerConnection:
        process = self._launched()
        try:
            process.wait_until_ready()
        except Exception:
            self._process = None
            raise
        return process

    def _replace(self) -> None:
        self.replaced += 1
        self._was_on_spark = self.is_on_spark
        self._end_process()

    def stop(self) -> None:
        """Kill the worker for good. A thread that waits for a reply gets an error."""
        self._is_stopped = True
        process = self._process
        if process is not None:
            process.kill()

    def close(self) -> None:
        """End the worker for good. A thread that waits for a reply gets an error, and so does one that asks later."""
        self.stop()
        with self._asking:  # that thread still looks at the process
            self._end_process()

    def _end_process(self) -> None:
        self._checks_waiting = 0
        if self._process is not None:
            self._process.close()
            self._process = None
