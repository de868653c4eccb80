"""On the executors: turn documents into messages to be stored, with properties, index entries and slices.

A document that its queue refuses becomes an error message for an error queue. A worker compiles a program once and
keeps it for the tasks that follow.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from demaq.bulk.sources import Item
from demaq.engine.error_routing import RefusedMessage
from demaq.engine.intake import IncomingMessage
from demaq.engine.message_factory import MessageFactory
from demaq.errors import MessageError
from demaq.evaluation.saxon.compiled import compile_program
from demaq.evaluation.saxon.saxon_evaluator import SaxonEvaluator
from demaq.evaluation.workers.process import FURTHER_MESSAGE_SECONDS, RULE_TIMEOUT_SECONDS
from demaq.evaluation.workers.time_limit import at_most
from demaq.language.loader import load_program_texts
from demaq.spark.packaging import unpack_files
from demaq.store.protocol import NewMessage


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """Documents for one queue, checked in one task."""

    files: Mapping[str, str]
    """The program's modules by path."""
    companions: Mapping[str, bytes]
    """Files that the modules refer to, if the executors cannot read them."""
    digest: str
    queue: str
    now: datetime
    items: tuple[Item, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedDocument:
    """A message to be stored: the document, or the error message about a document that was refused."""

    where: str
    message: NewMessage
    refusal: MessageError | None = None


def check(assignment: bytes) -> bytes:
    """Check the documents of a pickled Assignment. Return a pickled list of CheckedDocument, in order."""
    work: Assignment = pickle.loads(assignment)
    checker = _checker(work)
    with at_most(RULE_TIMEOUT_SECONDS + len(work.items) * FURTHER_MESSAGE_SECONDS):
        return pickle.dumps(checker.check(work))


class Checker:
    """Checks documents under one program."""

    def __init__(self, files: Mapping[str, str]) -> None:
        os.environ["TZ"] = "UTC"
        self._evaluator = SaxonEvaluator(compile_program(load_program_texts(files)))
        self._factory = MessageFactory(self._evaluator.compiled.plan, self._evaluator)

    def check(self, work: Assignment) -> list[CheckedDocument]:
        readable = [item for item in work.items if item.problem is None]
        incoming = [IncomingMessage(item.body, item.properties, item.request(work.queue)) for item in readable]
        results = iter(self._factory.receive_all(work.queue, incoming, work.now))
        found: list[CheckedDocument] = []
        for item in work.items:
            result = item.problem if item.problem is not None else next(results)
            if isinstance(result, MessageError):
                found.append(self._refuse(work, item, result))
            else:
                found.append(CheckedDocument(where=item.where, message=result))
        return found

    def _refuse(self, work: Assignment, item: Item, error: MessageError) -> CheckedDocument:
        about = RefusedMessage.of(work.queue, item.body, error, None)
        named = MessageError(error.kind, f"{item.where}: {error.message}", error.code)
        # Not the request of the message itself, which may be accepted under the next program.
        request = f"refused:{item.request(work.queue)}"
        return CheckedDocument(
            where=item.where, message=self._factory.make_refusal(named, about, work.now, request), refusal=error
        )


_checkers: dict[str, Checker] = {}


def _checker(work: Assignment) -> Checker:
    if work.digest not in _checkers:
        from pyspark import SparkFiles

        _checkers.clear()  # another program
        files, _ = unpack_files(work.files, work.companions, Path(SparkFiles.getRootDirectory()))
        _checkers[work.digest] = Checker(files)
    return _checkers[work.digest]
