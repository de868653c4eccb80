"""Load a queue: documents are checked on Spark in waves of tasks and stored in large transactions.

While one wave is checked on the executors, the one before is stored and the next is read. The request of each message
is made of where its document was found and of its content, so a load that was interrupted can be repeated: what it has
stored is not stored again.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from demaq.bulk.document_checks import Assignment, CheckedDocument, check
from demaq.bulk.executors import WORKER_ENDED, run_with_bisection
from demaq.bulk.message_sink import BulkReport, MessageSink, split_batches, split_transactions
from demaq.bulk.sources import Item
from demaq.errors import MessageError, OperatorError
from demaq.spark.jobs import cores

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TASK_MESSAGES_MAX = 1000
TASK_BYTES_MAX = 8_000_000
"""How many documents a task checks; fewer if they are large."""
TASKS_FOR_EACH_CORE = 2
WAVE_BYTES_MAX = 100_000_000
"""Three waves are in memory at a time: one is read, one is checked, one is stored."""


class LoadFailed(OperatorError):
    """The executors cannot check a document."""

    code = "DQ9304"


class DocumentRefused(Exception):
    """A strict load has found a document that the queue does not accept."""

    def __init__(self, where: str, error: MessageError) -> None:
        super().__init__(f"{where}: refused ({error.kind}): {error.message}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Loads one queue under one program."""

    session: SparkSession
    target: MessageSink
    files: Mapping[str, str]
    """The program's modules by path."""
    companions: Mapping[str, bytes] = field(default_factory=dict)
    """Files that the modules refer to, if the executors cannot read them."""
    digest: str
    queue: str
    strict: bool = False
    """Whether to stop at the first document that is refused."""
    advance: Callable[[int], None] = lambda documents: None
    """Called with the number of further documents that are done."""

    def run(self, items: Iterable[Item], report: BulkReport) -> None:
        """Store the messages and count them in the report, which is right also if this raises."""
        with ThreadPoolExecutor(1, "demaq-load") as pool:
            checking: Future[list[CheckedDocument]] | None = None
            for wave in self._split_into_waves(items):
                following = pool.submit(self._check, wave)
                if checking is not None:
                    self._store(checking.result(), report)
                checking = following
            if checking is not None:
                self._store(checking.result(), report)

    def _split_into_waves(self, items: Iterable[Item]) -> Iterator[list[tuple[Item, ...]]]:
        tasks = TASKS_FOR_EACH_CORE * max(cores(self.session), 1)
        batches = (tuple(batch) for batch in split_batches(items, TASK_MESSAGES_MAX, TASK_BYTES_MAX, _size))
        return split_batches(batches, tasks, WAVE_BYTES_MAX, lambda batch: sum([_size(item) for item in batch]))

    # on Spark

    def _check(self, wave: Sequence[Sequence[Item]]) -> list[CheckedDocument]:
        """Return the messages of a wave, in order."""
        return run_with_bisection(self.session, wave, self._encode_assignment, check, self._refuse)

    def _refuse(self, item: Item) -> CheckedDocument:
        """Return the error message about a document that ends the worker which checks it."""
        if item.problem is not None:
            raise LoadFailed(f"{item.where}: not even the message about it can be made: {WORKER_ENDED}")
        problem = MessageError("propertyError", WORKER_ENDED)
        [checked] = self._check([(replace(item, properties={}, problem=problem),)])
        return checked

    def _encode_assignment(self, part: Sequence[Item]) -> bytes:
        now = datetime.now(UTC)
        return pickle.dumps(
            Assignment(
                files=self.files,
                companions=self.companions,
                digest=self.digest,
                queue=self.queue,
                now=now,
                items=tuple(part),
            )
        )

    # into the store

    def _store(self, wave: Sequence[CheckedDocument], report: BulkReport) -> None:
        stop = next(iter([n for n, checked in enumerate(wave) if checked.refusal is not None]), None)
        if stop is None or not self.strict:
            self._append(wave, report)
            return
        self._append(wave[:stop], report)
        refusal = wave[stop].refusal
        assert refusal is not None
        raise DocumentRefused(wave[stop].where, refusal)

    def _append(self, wave: Sequence[CheckedDocument], report: BulkReport) -> None:
        for batch in split_transactions(wave, lambda checked: len(checked.message.body)):
            new = self.target.append([checked.message for checked in batch], self.digest)
            for checked, is_new in zip(batch, new, strict=True):
                if not is_new:
                    report.known += 1
                elif checked.refusal is None:
                    report.stored += 1
                else:
                    report.add_refusal(checked.where, checked.refusal)
            self.advance(len(batch))


def _size(item: Item) -> int:
    return len(item.body)
