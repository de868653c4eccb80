"""Run work on Spark's executors: each worker compiles the program once and reads the store itself.

A task that ends its worker is bisected until the item is found that does it; the caller says what becomes of that item.
"""

from __future__ import annotations

import hashlib
import os
import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from demaq.bisection import bisect_batches
from demaq.errors import OperatorError
from demaq.evaluation.saxon.compiled import compile_program
from demaq.evaluation.saxon.saxon_evaluator import SaxonEvaluator
from demaq.language.loader import load_program_texts
from demaq.spark.jobs import JobFailed, TasksFailed, Work, run_tasks
from demaq.store.opening import address_for_executors, identify_file, open_store_readonly
from demaq.store.protocol import Store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WORKER_ENDED = "its properties cannot be computed: the process that did it came to its end"
"""The error of an item that ends its worker."""

Item = TypeVar("Item")
Result = TypeVar("Result")


class ExecutorsFailed(OperatorError):
    """Tasks fail on the executors for a reason that is not one of their items."""

    code = "DQ9307"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramOnStore:
    """A program and its store, for a worker on any machine."""

    files: Mapping[str, str]
    """The program's modules by path."""
    store: str

    @staticmethod
    def of(files: Mapping[str, str], store: str | Path) -> ProgramOnStore:
        return ProgramOnStore(files=dict(files), store=address_for_executors(store))

    @property
    def name(self) -> str:
        """A digest: equal for the same program on the same store."""
        return hashlib.sha256(repr((sorted(self.files.items()), self.store)).encode()).hexdigest()


class OpenProgram:
    """A compiled program and its store, open for reading."""

    def __init__(self, place: ProgramOnStore) -> None:
        os.environ["TZ"] = "UTC"
        self.evaluator = SaxonEvaluator(compile_program(load_program_texts(place.files)))
        self.plan = self.evaluator.compiled.plan
        self.store: Store = open_store_readonly(place.store)


_opened: dict[tuple[str, tuple[int, int] | None], OpenProgram] = {}
"""By the name of a ProgramOnStore and the identity of its file. At most one, kept as long as the worker lives."""


def open_program(place: ProgramOnStore) -> OpenProgram:
    known = place.name, identify_file(place.store)
    if known not in _opened:
        for other in _opened.values():
            other.store.close()
        _opened.clear()  # another program, store or file
        _opened[known] = OpenProgram(place)
    return _opened[known]


def run_with_bisection(
    session: SparkSession,
    batches: Sequence[Sequence[Item]],
    encode: Callable[[Sequence[Item]], bytes],
    work: Work,
    isolate: Callable[[Item], Result],
) -> list[Result]:
    """Return the results for all items, in order, from one task for each batch.

    `work` is given an encoded batch and returns a pickled list with one result for each item. `isolate` returns the
    result for an item that ends the worker. Raises ExecutorsFailed if a task fails for any other reason.
    """

    def run(batches: Sequence[Sequence[Item]]) -> list[list[Result] | Exception]:
        assignments = [encode(batch) for batch in batches]
        try:
            return [pickle.loads(answer) for answer in run_tasks(session, assignments, work)]
        except TasksFailed as failed:
            if failed.failures.keys() - failed.lost:
                raise ExecutorsFailed(f"the executors cannot do their work: {failed}") from None
            return [failed if n in failed.lost else pickle.loads(failed.answers[n]) for n in range(len(batches))]
        except JobFailed as failure:
            raise ExecutorsFailed(str(failure)) from None

    return bisect_batches(batches, run, lambda batch, _: [isolate(batch[0])])
