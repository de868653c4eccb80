"""The worker, a local process or a task on Spark: replies to requests (`worker_protocol`)."""

from __future__ import annotations

import contextlib
import gc
import os
import resource
import signal
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from demaq.errors import MessageError, OperatorError, ProgramError, StoreError
from demaq.evaluation.arrival_evaluator import ArrivalEvaluator
from demaq.evaluation.arrival_request import ArrivalRequest
from demaq.evaluation.native.health import NativeReport
from demaq.evaluation.native.ledger import NativeNotes
from demaq.evaluation.native.native_settings import DEFAULT, NativeSettings
from demaq.evaluation.native.self_check import SelfCheck
from demaq.evaluation.outcomes import Outcome
from demaq.evaluation.round_request import PropertyRequest, PropertyResult
from demaq.evaluation.saxon.compiled import compile_program
from demaq.evaluation.saxon.saxon_evaluator import SaxonEvaluator
from demaq.evaluation.state.snapshot_reader import Documents, SnapshotReader
from demaq.evaluation.workers.progress import Progress
from demaq.evaluation.workers.socket_channel import SocketChannel
from demaq.evaluation.workers.worker_connection import Channel
from demaq.evaluation.workers.worker_protocol import (
    CheckNative,
    ComputeEach,
    ComputeProperties,
    EvaluateEach,
    EvaluateMessages,
    EvaluateRule,
    ListRules,
    MigrateProperties,
    ReplyKind,
    Request,
    RunRound,
    Streamed,
    Withdraw,
)
from demaq.gc_tuning import tune_gc
from demaq.language.loader import load_program_texts
from demaq.messages import Message
from demaq.store.opening import open_store_readonly

GROWTH_MAX_MEGABYTES = 1000
"""A worker that has grown by so much is replaced: every call of Saxon leaks a little."""
GARBAGE_AFTER = 50_000
"""With so many objects left of requests, garbage is collected before the next one."""
GARBAGE_MEANWHILE = 2_000_000
"""With so many, also during a request: a cascade needs many objects until its end."""
ORPHAN_SECONDS = 60
"""How long after the time limit of a request a worker ends by itself, if its node was killed."""


def main(descriptor: int, shared: int) -> None:
    """Reply to requests on a socket, and note the progress in shared memory."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the node handles them; they reach the whole process group
    connection = SocketChannel(socket.socket(fileno=descriptor))
    with contextlib.suppress(EOFError, OSError):
        serve(connection, connection.recv(), Progress(shared))


def serve(
    connection: Channel,
    start: tuple[dict[str, str], str, float, NativeSettings],
    progress: Progress,
    restore: Callable[[Any], None] = lambda answer: None,
) -> None:
    """Reply to requests until the caller says that there are no more. Raises EOFError or OSError if it is gone.

    `start` has what `Start` says. Each answer is given to `restore` before it is sent.
    """
    os.environ["TZ"] = "UTC"
    files, store, limit_seconds, native = start
    try:
        worker = Worker(files, store, native, progress)
    except ProgramError as error:
        connection.send([error, *error.others])
        return
    except OperatorError as error:  # such as an unavailable store; the caller starts another worker later
        connection.send([error])
        return
    connection.send([])
    while (request := connection.recv()) is not None:
        # Python cannot interrupt a rule, a signal can. The caller may have been killed meanwhile: where the system does
        # not tell, this ends the worker in the end.
        signal.alarm(int(limit_seconds) + ORPHAN_SECONDS)
        try:
            if isinstance(request, Streamed):
                for item in worker.answer_each(request):
                    restore(item)
                    connection.send((ReplyKind.ITEM, item, None))
                connection.send((ReplyKind.END, worker.has_grown(), worker.notes()))
                continue
            connection.end_with_peer(True)
            try:
                answer = worker.answer(request)
            finally:
                connection.end_with_peer(False)
        except StoreError as error:  # no rule's fault
            connection.send((ReplyKind.STORE_ERROR, error, worker.notes()))
            continue
        finally:
            signal.alarm(0)
        restore(answer)
        connection.send((ReplyKind.RESULT_RECYCLE if worker.has_grown() else ReplyKind.RESULT, answer, worker.notes()))
        del answer


class Worker:
    """A compiled program and a store to read, in a process that does nothing else."""

    def __init__(
        self,
        files: dict[str, str],
        store: str | Path,
        native: NativeSettings = DEFAULT,
        progress: Progress | None = None,
    ) -> None:
        """The messages being evaluated are noted in `progress`."""
        self._progress = progress
        compiled = compile_program(load_program_texts(files))
        self._self_check = SelfCheck(native)
        self._evaluator = SaxonEvaluator(
            compiled, native=native.is_native, progress=progress, self_check=self._self_check
        )
        self._arrivals = ArrivalEvaluator(self._evaluator, progress)
        self._reports: list[NativeReport] = []
        self._evaluator.health.report = self._reports.append
        self._noted = NativeNotes()
        self._store = open_store_readonly(store)
        self._documents = Documents()
        self._at_start = _resident_megabytes()
        tune_gc(GARBAGE_MEANWHILE)

    def answer(self, request: Request) -> Any:
        """Return the result of a request that is not streamed."""
        if gc.get_count()[0] > GARBAGE_AFTER:
            gc.collect()
        evaluator = self._evaluator
        match request:
            case RunRound():
                messages, reader = self._messages(request.seqs), self._reader(request.snapshot)
                settings = request.deep, request.fold, request.paused, request.whole
                return evaluator.cascade(messages, reader, request.now, *settings)
            case ArrivalRequest():
                return self._arrivals.run(request, self._reader(request.snapshot))
            case EvaluateMessages():
                return evaluator.evaluate(self._messages(request.seqs), self._reader(request.snapshot), request.now)
            case ListRules():
                return evaluator.rules(self._message(request.seq))
            case EvaluateRule():
                message, reader = self._message(request.seq), self._reader(request.snapshot)
                return evaluator.evaluate_rule(message, request.rule, reader, request.now)
            case ComputeProperties():
                return self._compute_properties(request.requests)
            case MigrateProperties():
                return evaluator.migrate_properties(request.requests)
            case CheckNative():
                return evaluator.check()
            case Withdraw():
                return self.withdraw(request.rules)
            case _:
                raise AssertionError(f"unknown request {request!r}")

    def answer_each(self, request: Streamed) -> Iterator[Outcome | PropertyResult | MessageError]:
        """Yield the items of a streamed request."""
        match request:
            case EvaluateEach():
                yield from self._evaluate_each(request)
            case ComputeEach():
                for each in request.requests:
                    yield from self._compute_properties([each])

    def _compute_properties(self, requests: Sequence[PropertyRequest]) -> list[PropertyResult | MessageError]:
        if self._progress is not None:
            self._progress.begin(f"arrivals in {requests[0].queue}", ())
        found = self._evaluator.compute_properties(requests)
        if self._progress is not None:
            self._progress.end()
        return found

    def _evaluate_each(self, request: EvaluateEach) -> Iterator[Outcome]:
        """Evaluate messages one by one as long as there is time."""
        end = time.monotonic() + request.seconds
        for message in self._messages(request.seqs):
            yield self._evaluator.evaluate([message], self._reader(request.snapshot), request.now)[0]
            if time.monotonic() > end:
                return

    def _messages(self, seqs: Sequence[int]) -> list[Message]:
        found = {stored.seq: stored for stored in self._store.messages(seqs)}
        return [self._documents.next_message(found[seq]) for seq in seqs]

    def _message(self, seq: int) -> Message:
        stored = self._store.message(seq)
        if stored is None:  # the node was killed, and the next one has processed it
            raise StoreError(f"message {seq} is no longer in the store")
        return self._documents.message(stored)

    def _reader(self, snapshot: int) -> SnapshotReader:
        return SnapshotReader(self._store, snapshot, self._documents)

    # native rules

    def withdraw(self, rules: Mapping[str, str]) -> None:
        """Leave rules to Saxon, because of what another worker has found."""
        self._evaluator.health.withdrawn |= rules

    def notes(self) -> NativeNotes:
        """Return what has happened to rules since the last call."""
        health, check, before = self._evaluator.health, self._self_check, self._noted
        exceptions = sum(health.faults.values())
        self._noted = NativeNotes(
            answers=health.answers,
            fallbacks=health.fallbacks,
            exceptions=exceptions,
            checked=check.checked,
            skipped=check.skipped,
            withdrawn=tuple(health.withdrawn.items()),
        )
        reports = tuple(self._reports)
        self._reports.clear()
        return NativeNotes(
            answers=health.answers - before.answers,
            fallbacks=health.fallbacks - before.fallbacks,
            exceptions=exceptions - before.exceptions,
            checked=check.checked - before.checked,
            skipped=check.skipped - before.skipped,
            waiting=len(check),
            reports=reports,
            withdrawn=tuple([each for each in self._noted.withdrawn if each not in before.withdrawn]),
            work=self._evaluator.work.take(),
        )

    def has_grown(self) -> bool:
        """Return whether the worker is to be replaced: for its memory, or for the names that Saxon keeps."""
        if self._evaluator.compiled.saxon.names.is_full:
            return True
        return _resident_megabytes() - self._at_start > GROWTH_MAX_MEGABYTES


def _resident_megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
