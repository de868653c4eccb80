"""Load a queue: documents go to Spark in waves, come back as messages, and are stored in large transactions.

While one wave is checked on the executors, the one before is stored and the next is read. Each message has a name made
of where its document was found and what it says, so whatever a load has stored before it was interrupted is not stored
again when it is run again.
"""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol, TypeVar

from demaq.bulk.document_checks import Assignment, CheckedDocument, check
from demaq.bulk.executors import spread
from demaq.bulk.sources import Item
from demaq.errors import MessageError, OperatorError
from demaq.spark.jobs import cores
from demaq.store.protocol import NewMessage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TASK_MESSAGES_MAX = 1000
TASK_BYTES_MAX = 8_000_000
"""A task is given so many documents, or fewer where they are large."""
TASKS_FOR_EACH_CORE = 2
WAVE_BYTES_MAX = 100_000_000
"""Three waves are in memory at a time: one is read, one is checked, one is stored."""
TRANSACTION_MESSAGES_MAX = 1000
TRANSACTION_BYTES_MAX = 32_000_000
EXAMPLES_MAX = 5
"""Of so many refused documents it is told where they are and what is wrong."""

T = TypeVar("T")

_NOT_CHECKED = "its properties cannot be computed: the process that did it came to its end"


class LoadFailed(OperatorError):
    """The executors cannot do what they are asked."""

    code = "DQ9304"


class DocumentRefused(Exception):
    """A strict load has come to a document that the queue does not take."""

    def __init__(self, where: str, error: MessageError) -> None:
        super().__init__(f"{where}: refused ({error.kind}): {error.message}")


class MessageSink(Protocol):
    """Where messages are stored: a running node, or a store at rest."""

    def append(self, messages: Sequence[NewMessage], digest: str) -> list[bool]:
        """Store messages, all or none; the answer is which of them are new."""


@dataclass(slots=True)
class LoadReport:
    """What a load has done."""

    stored: int = 0
    """Messages that are new in the queue."""
    known: int = 0
    """Documents that an earlier load had stored, or refused, already."""
    refused: Counter[str] = field(default_factory=Counter)
    """Documents that became error messages, by the kind of error."""
    examples: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Loads one queue under one program."""

    session: SparkSession
    target: MessageSink
    files: Mapping[str, str]
    """The program's modules by path."""
    companions: Mapping[str, bytes] = field(default_factory=dict)
    """The files that these name, where the executors do not have them."""
    digest: str
    queue: str
    strict: bool = False
    """Whether to stop at the first document that is refused."""
    advance: Callable[[int], None] = lambda documents: None
    """Hears how many further documents are done with."""

    def run(self, items: Iterable[Item], report: LoadReport) -> None:
        """Store the messages and note it in the report, which holds also where this raises."""
        with ThreadPoolExecutor(1, "demaq-load") as pool:
            checking: Future[list[CheckedDocument]] | None = None
            for wave in self._waves(items):
                following = pool.submit(self._checked, wave)
                if checking is not None:
                    self._store(checking.result(), report)
                checking = following
            if checking is not None:
                self._store(checking.result(), report)

    def _waves(self, items: Iterable[Item]) -> Iterator[list[tuple[Item, ...]]]:
        tasks = TASKS_FOR_EACH_CORE * max(cores(self.session), 1)
        small = parts(items, TASK_MESSAGES_MAX, TASK_BYTES_MAX, _size)
        tuples = (tuple(part) for part in small)
        return parts(tuples, tasks, WAVE_BYTES_MAX, lambda part: sum([_size(item) for item in part]))

    # on Spark

    def _checked(self, wave: Sequence[Sequence[Item]]) -> list[CheckedDocument]:
        """The messages of a wave, in order."""
        return spread(self.session, wave, self._assignment, check, self._not_checked)

    def _not_checked(self, item: Item) -> CheckedDocument:
        """The message about a document that ends whoever checks it."""
        if item.problem is not None:
            raise LoadFailed(f"{item.where}: not even the message about it can be made: {_NOT_CHECKED}")
        problem = MessageError("propertyError", _NOT_CHECKED)
        [checked] = self._checked([(replace(item, properties={}, problem=problem),)])
        return checked

    def _assignment(self, part: Sequence[Item]) -> bytes:
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

    def _store(self, wave: Sequence[CheckedDocument], report: LoadReport) -> None:
        stop = next(iter([n for n, checked in enumerate(wave) if checked.refusal is not None]), None)
        if stop is None or not self.strict:
            self._append(wave, report)
            return
        self._append(wave[:stop], report)
        refusal = wave[stop].refusal
        assert refusal is not None
        raise DocumentRefused(wave[stop].where, refusal)

    def _append(self, wave: Sequence[CheckedDocument], report: LoadReport) -> None:
        for part in parts(wave, TRANSACTION_MESSAGES_MAX, TRANSACTION_BYTES_MAX, lambda item: len(item.message.body)):
            new = self.target.append([checked.message for checked in part], self.digest)
            self._note(part, new, report)
            self.advance(len(part))

    def _note(self, part: Sequence[CheckedDocument], new: Sequence[bool], report: LoadReport) -> None:
        for checked, is_new in zip(part, new, strict=True):
            if not is_new:
                report.known += 1
            elif checked.refusal is None:
                report.stored += 1
            else:
                report.refused[checked.refusal.kind] += 1
                if len(report.examples) < EXAMPLES_MAX:
                    report.examples.append(f"{checked.where}: {checked.refusal.kind}: {checked.refusal.message}")


def _size(item: Item) -> int:
    return len(item.body)


def parts(items: Iterable[T], count_max: int, bytes_max: int, size: Callable[[T], int]) -> Iterator[list[T]]:
    """Consecutive items in lists that are neither long nor large."""
    part: list[T] = []
    total = 0
    for item in items:
        if part and (len(part) == count_max or total + size(item) > bytes_max):
            yield part
            part, total = [], 0
        part.append(item)
        total += size(item)
    if part:
        yield part
