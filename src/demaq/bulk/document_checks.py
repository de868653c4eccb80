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
from demaq.documents import Document, parse_document
from demaq.engine.error_routing import RefusedMessage
from demaq.engine.intake import explicit_properties
from demaq.engine.message_factory import MessageFactory
from demaq.errors import MessageError
from demaq.evaluation.round_request import PropertyRequest
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
        parsed = [self._parse(work, item) for item in work.items]
        arrivals = [each for each in parsed if isinstance(each, PropertyRequest)]
        answers = iter(self._evaluator.compute_properties(arrivals))
        found: list[CheckedDocument] = []
        for item, each in zip(work.items, parsed, strict=True):
            if isinstance(each, MessageError):
                found.append(self._refuse(work, item, each))
                continue
            answer = next(answers)
            if isinstance(answer, MessageError):
                found.append(self._refuse(work, item, answer, each.document))
                continue
            request = item.request(work.queue)
            message = self._factory.new(
                work.queue, answer.document, answer.properties, answer.entries, work.now, request=request
            )
            found.append(CheckedDocument(where=item.where, message=message))
        return found

    def _parse(self, work: Assignment, item: Item) -> PropertyRequest | MessageError:
        if item.problem is not None:
            return item.problem
        try:
            document = parse_document(item.body)
            explicit = explicit_properties(self._factory.program, work.queue, item.properties)
        except MessageError as error:
            return error
        return PropertyRequest(queue=work.queue, document=document, explicit=explicit, now=work.now)

    def _refuse(
        self, work: Assignment, item: Item, error: MessageError, document: Document | None = None
    ) -> CheckedDocument:
        about = RefusedMessage.of(work.queue, item.body, error, document)
        named = MessageError(error.kind, f"{item.where}: {error.message}", error.code)
        # Not the request of the message itself, which may be accepted under the next program.
        request = f"refused:{item.request(work.queue)}"
        return CheckedDocument(
            where=item.where, message=self._factory.refused(named, about, work.now, request), refusal=error
        )


_checkers: dict[str, Checker] = {}


def _checker(work: Assignment) -> Checker:
    if work.digest not in _checkers:
        from pyspark import SparkFiles

        _checkers.clear()  # another program
        files, _ = unpack_files(work.files, work.companions, Path(SparkFiles.getRootDirectory()))
        _checkers[work.digest] = Checker(files)
    return _checkers[work.digest]
