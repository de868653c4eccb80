"""Evaluate rules in a process beside the node: a rule that never ends or ends its process costs its own message only.

The process is given the program's files and the folder of the store, reads messages and state there by itself at the
snapshot it is told, and answers with outcomes. When it does not answer in time, or is gone, it is replaced and asked
again in halves, until the message is found that it is about.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import resource
import signal
import threading
from collections.abc import Mapping, Sequence
from datetime import datetime
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from demaq.documents import Document
from demaq.errors import EvaluatorUnavailable, MessageError, ProgramError
from demaq.messages import Message, PropertyValue
from demaq.rounds.outcomes import Outcome, Received, StateReader
from demaq.scheduler.reading import Documents, SnapshotReader

RULE_TIMEOUT_SECONDS = 30.0
START_TIMEOUT_SECONDS = 120.0
ATTEMPTS_MAX = 5
"""So often a message is tried that is alone in a process when that ends."""
GROWTH_MAX_MEGABYTES = 1000
"""A process that has grown by so much is replaced: every crossing into Saxon leaks a little."""


class EvaluatorGone(Exception):
    """The process did not answer in time, or is no more."""

    def __init__(self, reason: str, died: bool = False) -> None:
        super().__init__(reason)
        self.died = died
        """Whether it ended by itself or by others, which need not be the message's fault."""


class ProcessEvaluator:
    """An Evaluator in another process. Must be closed."""

    def __init__(
        self, files: Mapping[str, str], store: Path, rule_timeout_seconds: float = RULE_TIMEOUT_SECONDS
    ) -> None:
        """`files` are the program's modules by path, as they were when it was checked."""
        self._files = dict(files)
        self._store = store
        self._rule_timeout_seconds = rule_timeout_seconds
        self._context = multiprocessing.get_context("spawn")
        self.replaced = 0
        """How many processes had to be replaced because of what they were asked to evaluate."""
        self._asking = threading.Lock()
        """One request at a time; who asks from another thread waits for his turn."""
        self._process: Any = None
        self._connection: Connection | None = None
        self._is_welcome = False
        """Whether the process has said that it is ready."""

    def launch(self) -> None:
        """Let the process begin to start, without waiting for it."""
        if self._connection is None:
            ours, theirs = self._context.Pipe()
            self._process = self._context.Process(
                target=_work, args=(theirs, self._files, str(self._store)), daemon=True, name="demaq-evaluator"
            )
            self._process.start()
            theirs.close()
            self._connection = ours
            self._is_welcome = False

    def start(self) -> None:
        """Start the process, if it does not run. Raises a ProgramError where the program cannot be compiled."""
        self._connected()

    # an Evaluator

    def evaluate(self, messages: Sequence[Message], reader: StateReader, now: datetime) -> list[Outcome]:
        """Outcomes of stored messages; `reader` must be a SnapshotReader."""
        assert isinstance(reader, SnapshotReader), "the other process reads the store itself"
        return self._evaluate([message.sequence for message in messages], reader.snapshot, now)

    def _evaluate(self, seqs: list[int], snapshot: int, now: datetime, attempt: int = 1) -> list[Outcome]:
        limit = self._rule_timeout_seconds if len(seqs) == 1 else self._rule_timeout_seconds + len(seqs) * 0.01
        try:
            found: list[Outcome] = self._ask(("evaluate", seqs, snapshot, now), limit)
            return found
        except EvaluatorGone as gone:
            if len(seqs) == 1 and gone.died and attempt < ATTEMPTS_MAX:
                return self._evaluate(seqs, snapshot, now, attempt + 1)
            if len(seqs) == 1:
                return [_lost(f"evaluating the message failed: {gone}")]
        middle = len(seqs) // 2
        return self._evaluate(seqs[:middle], snapshot, now) + self._evaluate(seqs[middle:], snapshot, now)

    def receive(
        self,
        queue: str,
        document: Document,
        explicit: Mapping[str, PropertyValue],
        now: datetime,
        inherited: Mapping[str, PropertyValue] | None = None,
    ) -> Received:
        request = ("receive", queue, document, dict(explicit), now, dict(inherited or {}))
        try:
            answer: Received | MessageError = self._ask(request, self._rule_timeout_seconds)
        except EvaluatorGone as gone:
            raise MessageError("propertyError", f"its properties cannot be computed: {gone}") from None
        if isinstance(answer, MessageError):
            raise answer
        return answer

    # the process

    def _ask(self, request: tuple[Any, ...], limit_seconds: float) -> Any:
        with self._asking:
            return self._asked(request, limit_seconds)

    def _asked(self, request: tuple[Any, ...], limit_seconds: float) -> Any:
        connection = self._connected()
        try:
            connection.send(request)
            if not connection.poll(limit_seconds):
                raise EvaluatorGone(f"it did not end within {limit_seconds:g} s")
            kind, answer = connection.recv()
        except (EOFError, OSError):
            self._replace()
            raise EvaluatorGone("the process that evaluated it came to its end", died=True) from None
        except EvaluatorGone:
            self._replace()
            raise
        if kind == "recycle":
            self.close()
        return answer

    def _connected(self) -> Connection:
        self.launch()
        assert self._connection is not None
        if not self._is_welcome:
            self._welcome(self._connection)
            self._is_welcome = True
        return self._connection

    def _welcome(self, connection: Connection) -> None:
        try:
            refused: list[ProgramError] | None = connection.recv() if connection.poll(START_TIMEOUT_SECONDS) else None
        except (EOFError, OSError):
            refused = None
        if refused is None:
            self.close()
            raise EvaluatorUnavailable("the process that evaluates rules did not start")
        if refused:
            self.close()
            refused[0].others = tuple(refused[1:])
            raise refused[0]

    def _replace(self) -> None:
        self.replaced += 1
        self.close()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if self._process is not None:
            self._process.kill()  # it holds nothing that is not in the store
            self._process.join()
            self._process = None


def _lost(reason: str) -> Outcome:
    outcome = Outcome()
    outcome.lost = reason
    return outcome


# --- in the process --------------------------------------------------------------------------------------------------


def _work(connection: Connection, files: dict[str, str], store_folder: str) -> None:
    """Answer requests until nobody asks any more."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # both are the node's to handle, and reach the whole group
    os.environ["TZ"] = "UTC"
    try:
        worker = _Worker(files, Path(store_folder))
    except ProgramError as error:
        connection.send([error, *error.others])
        return
    connection.send([])
    with contextlib.suppress(EOFError, OSError):
        while True:
            answer = worker.answer(connection.recv())
            connection.send(("recycle" if worker.has_grown() else "fine", answer))


class _Worker:
    def __init__(self, files: dict[str, str], store_folder: Path) -> None:
        from demaq.language.load import load_program_texts  # imported here: only this process needs them
        from demaq.rounds.compiled import compile_program
        from demaq.rounds.evaluator import SaxonEvaluator
        from demaq.store.sqlite import SqliteStore

        self._evaluator = SaxonEvaluator(compile_program(load_program_texts(files)))
        self._store = SqliteStore.open_readonly(store_folder)
        self._documents = Documents()
        self._at_start = _resident_megabytes()

    def answer(self, request: tuple[Any, ...]) -> Any:
        if request[0] == "evaluate":
            _, seqs, snapshot, now = request
            found = [self._store.message(seq) for seq in seqs]
            messages = [self._documents.message(stored) for stored in found if stored is not None]
            return self._evaluator.evaluate(messages, SnapshotReader(self._store, snapshot, self._documents), now)
        _, queue, document, explicit, now, inherited = request
        try:
            return self._evaluator.receive(queue, document, explicit, now, inherited)
        except MessageError as error:
            return error

    def has_grown(self) -> bool:
        return _resident_megabytes() - self._at_start > GROWTH_MAX_MEGABYTES


def _resident_megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
