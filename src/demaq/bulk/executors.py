"""Work that is spread over Spark's executors: each reads the store by itself, under one program.

A task that ends its worker is divided until it is one item. What becomes of that one, whoever asked decides.
"""

from __future__ import annotations

import hashlib
import os
import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from demaq.errors import OperatorError
from demaq.evaluation.saxon.compiled import compile_program
from demaq.evaluation.saxon.saxon_evaluator import SaxonEvaluator
from demaq.language.loader import load_program_texts
from demaq.spark.jobs import JobFailed, TasksFailed, Work, run_tasks
from demaq.store.opening import address_for_executors, identify_file, open_store_readonly
from demaq.store.protocol import Store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Item = TypeVar("Item")
Answer = TypeVar("Answer")


class SpreadFailed(OperatorError):
    """The executors cannot do what they are asked."""

    code = "DQ9307"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramOnStore:
    """A program and the store it is about, for those who are somewhere else."""

    files: Mapping[str, str]
    """The program's modules by path."""
    store: str

    @staticmethod
    def of(files: Mapping[str, str], store: str | Path) -> ProgramOnStore:
        return ProgramOnStore(files=dict(files), store=address_for_executors(store))

    @property
    def name(self) -> str:
        """The same for the same program on the same store."""
        return hashlib.sha256(repr((sorted(self.files.items()), self.store)).encode()).hexdigest()


class OpenProgram:
    """A program, compiled, and a store that is open for reading."""

    def __init__(self, place: ProgramOnStore) -> None:
        os.environ["TZ"] = "UTC"
        self.evaluator = SaxonEvaluator(compile_program(load_program_texts(place.files)))
        self.plan = self.evaluator.compiled.plan
        self.store: Store = open_store_readonly(place.store)


_opened: dict[tuple[str, tuple[int, int] | None], OpenProgram] = {}
"""By the name of a place and the file of its store. Lives as long as the worker."""


def open_program(place: ProgramOnStore) -> OpenProgram:
    known = place.name, identify_file(place.store)
    if known not in _opened:
        for other in _opened.values():
            other.store.close()
        _opened.clear()  # another program, store or file: what was there is history
        _opened[known] = OpenProgram(place)
    return _opened[known]


def spread(
    session: SparkSession,
    parts: Sequence[Sequence[Item]],
    assignment: Callable[[Sequence[Item]], bytes],
    work: Work,
    alone: Callable[[Item], Answer],
) -> list[Answer]:
    """The answers for all items, in order. `work` answers a pickled list, with as many answers as it was given items.

    `alone` answers for an item whose evaluation ends the worker.
    """
    try:
        answers = dict(enumerate(run_tasks(session, [assignment(part) for part in parts], work)))
        lost: frozenset[int] = frozenset()
    except TasksFailed as failed:
        if failed.failures.keys() - failed.lost:
            raise SpreadFailed(f"the executors cannot do their work: {failed}") from None
        answers, lost = failed.answers, failed.lost
    except JobFailed as failure:
        raise SpreadFailed(str(failure)) from None
    found: list[Answer] = []
    for number, part in enumerate(parts):
        if number not in lost:
            found += pickle.loads(answers[number])
        elif len(part) == 1:
            found.append(alone(part[0]))
        else:
            middle = len(part) // 2
            found += spread(session, [part[:middle], part[middle:]], assignment, work, alone)
    return found
