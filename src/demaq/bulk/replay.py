"""Replay messages: find them, make copies, store the copies. On Spark if there are many, else in the command's process.

The request of a copy is made of its original and of the name of the replay. A copy with a known request is not stored
again, so a replay that was interrupted can be repeated.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol

from demaq.bulk.executors import WORKER_ENDED, ProgramOnStore, open_program, run_with_bisection
from demaq.bulk.message_search import Filters, Finder, FoundMessage, SearchResult, split_range
from demaq.bulk.message_sink import BulkReport, MessageSink, split_transactions
from demaq.compiler.plan import Plan
from demaq.documents import Document
from demaq.engine.error_routing import read_error
from demaq.engine.message_factory import MessageFactory
from demaq.engine.replay import REQUESTS, Original, arrival, copy, failed_original, repair, stored_original
from demaq.errors import MessageError
from demaq.evaluation.round_request import PropertyEvaluator, PropertyRequest, PropertyResult
from demaq.evaluation.workers.process import FURTHER_MESSAGE_SECONDS, RULE_TIMEOUT_SECONDS
from demaq.evaluation.workers.time_limit import at_most
from demaq.spark.jobs import cores
from demaq.store.protocol import NewMessage, Store, StoredMessage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RANGE_NUMBERS = 50_000
"""How many numbers of the store are searched in one task."""
TASK_MESSAGES_MAX = 1000
"""How many copies are made in one task."""
WAVE_TASKS_FOR_EACH_CORE = 2
LOOK_UP_MAX = 1000
"""How many messages are looked up one by one in the store's requests. For more, all requests of replays are read."""


class ReplayBackend(Protocol):
    """Where messages are searched and copied."""

    def find(self, filters: Filters, last: int, advance: Callable[[int], None]) -> SearchResult:
        """Return what there is up to a number; `advance` is called with how many further numbers were searched."""

    def make_copies(self, found: Sequence[FoundMessage], name: str) -> Iterator[list[NewMessage | MessageError]]:
        """Yield a copy of each message, or the error why there is none, in order and in batches."""


class LocalBackend:
    """This process, for few messages."""

    def __init__(self, plan: Plan, store: Store, evaluator: PropertyEvaluator) -> None:
        self._plan = plan
        self._store = store
        self._evaluator = evaluator

    def find(self, filters: Filters, last: int, advance: Callable[[int], None]) -> SearchResult:
        finding = SearchResult()
        for after, up_to in split_range(last, RANGE_NUMBERS):
            finding.add(Finder(self._plan, filters).find(self._store, after, up_to))
            advance(up_to - after)
        return finding

    def make_copies(self, found: Sequence[FoundMessage], name: str) -> Iterator[list[NewMessage | MessageError]]:
        copier = Copier(MessageFactory(self._plan, self._evaluator), self._evaluator, self._store)
        for start in range(0, len(found), TASK_MESSAGES_MAX):
            yield copier.make_copies(found[start : start + TASK_MESSAGES_MAX], name, datetime.now(UTC))


class SparkBackend:
    """Spark's executors, for many messages."""

    def __init__(self, session: SparkSession, place: ProgramOnStore) -> None:
        self._session = session
        self._place = place
        self._wave = WAVE_TASKS_FOR_EACH_CORE * max(cores(session), 1)

    def find(self, filters: Filters, last: int, advance: Callable[[int], None]) -> SearchResult:
        finding = SearchResult()
        tasks = [[part] for part in split_range(last, RANGE_NUMBERS)]
        for start in range(0, len(tasks), self._wave):
            wave = tasks[start : start + self._wave]

            def encode(batch: Sequence[tuple[int, int]]) -> bytes:
                return pickle.dumps((self._place, filters, batch[0]))

            for result in run_with_bisection(self._session, wave, encode, find_in_range, _fail_search):
                finding.add(result)
            advance(wave[-1][0][1] - wave[0][0][0])
        return finding

    def make_copies(self, found: Sequence[FoundMessage], name: str) -> Iterator[list[NewMessage | MessageError]]:
        def encode(batch: Sequence[FoundMessage]) -> bytes:
            return pickle.dumps((self._place, batch, name, datetime.now(UTC)))

        tasks = [found[start : start + TASK_MESSAGES_MAX] for start in range(0, len(found), TASK_MESSAGES_MAX)]
        for start in range(0, len(tasks), self._wave):
            wave = tasks[start : start + self._wave]
            yield run_with_bisection(self._session, wave, encode, copy_batch, _refuse_copy)


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """Stores the copies of one replay."""

    store: Store
    """For reading."""
    target: MessageSink
    digest: str
    """Of the program that the copies are made for."""
    name: str
    watch: str | None = None
    advance: Callable[[int], None] = lambda messages: None

    def run(self, backend: ReplayBackend, found: Sequence[FoundMessage], report: BulkReport) -> list[int]:
        """Store copies of what was found and count them in the report.

        Return the numbers of those not yet processed.
        """
        before = self.find_known(found)
        report.known += len(before)
        self.advance(len(before))
        new = [item for item in found if item not in before]
        position = 0
        for wave in backend.make_copies(new, self.name):
            items = new[position : position + len(wave)]
            position += len(wave)
            self._append(list(zip(items, wave, strict=True)), report)
        numbers = sorted(self.find_known(found).values())
        return [message.seq for message in self.store.messages(numbers) if message.processed is None]

    def find_known(self, found: Sequence[FoundMessage]) -> dict[FoundMessage, int]:
        """Return those that a replay of this name has copied before, with the numbers of the copies."""
        if len(found) > LOOK_UP_MAX:
            requests = self.store.requested(REQUESTS)
            return {f: requests[f.request(self.name)] for f in found if f.request(self.name) in requests}
        looked_up = [(f, self.store.requested(f.request(self.name)).get(f.request(self.name))) for f in found]
        return {f: seq for f, seq in looked_up if seq is not None}

    def _append(self, wave: Sequence[tuple[FoundMessage, NewMessage | MessageError]], report: BulkReport) -> None:
        copies: list[NewMessage] = []
        for item, answer in wave:
            if isinstance(answer, NewMessage):
                copies.append(answer)
                continue
            report.add_refusal(f"message {item.first} of {item.queue}", answer)
        for batch in split_transactions(copies, lambda message: len(message.body)):
            new = self.target.append(batch, self.digest, self.watch)
            report.stored += sum(new)
            report.known += len(new) - sum(new)
        self.advance(len(wave))


class Copier:
    """Makes copies under one program."""

    def __init__(self, factory: MessageFactory, evaluator: PropertyEvaluator, store: Store) -> None:
        self._factory = factory
        self._evaluator = evaluator
        self._store = store

    def make_copies(
        self, found: Sequence[FoundMessage], name: str, now: datetime, text: str | None = None
    ) -> list[NewMessage | MessageError]:
        """Return a copy of each message, with another text if one is given, or the error why there is none."""
        originals = self._read_originals(found)
        if text is not None:
            originals = [self._repair(each, text, now) if each is not None else None for each in originals]
        there = [original for original in originals if original is not None]
        program = self._factory.program
        answers = iter(self._evaluator.compute_properties([arrival(program, original, now) for original in there]))
        made: list[NewMessage | MessageError] = []
        for item, original in zip(found, originals, strict=True):
            if original is None:
                made.append(MessageError("enqueueError", "it was removed meanwhile"))
                continue
            answer = next(answers)
            if isinstance(answer, MessageError):
                made.append(answer)
            else:
                made.append(copy(self._factory, original, answer, now, item.request(name), item.rule))
        return made

    def _repair(self, original: Original, text: str, now: datetime) -> Original:
        asked = PropertyRequest(queue=original.queue, document=Document(original.body), now=now)
        [computed] = self._evaluator.migrate_properties([asked])
        if isinstance(computed, MessageError):
            computed = PropertyResult(queue=original.queue, document=asked.document, properties={}, entries=())
        return repair(self._factory.program, original, text, computed)

    def _read_originals(self, found: Sequence[FoundMessage]) -> list[Original | None]:
        stored = {message.seq: message for message in self._store.messages([item.seq for item in found])}
        reports = {item.seq: read_error(stored[item.seq].body) for item in found if item.code and item.seq in stored}
        numbers = [report.message for report in reports.values() if report is not None and report.message is not None]
        about = {message.seq: message for message in self._store.messages(sorted(numbers))}
        originals: list[Original | None] = []
        for item in found:
            message, report = stored.get(item.seq), reports.get(item.seq)
            if message is None:
                originals.append(None)
            elif item.code is None:
                originals.append(stored_original(message))
            else:
                assert report is not None, "it was read when it was found"
                originals.append(failed_original(message, report, _same_queue(about.get(report.message or 0), item)))
        return originals


def _same_queue(message: StoredMessage | None, item: FoundMessage) -> StoredMessage | None:
    return message if message is not None and message.queue == item.queue else None


def _fail_search(numbers: tuple[int, int]) -> SearchResult:
    raise AssertionError(f"searching messages {numbers} ends the worker")


def _refuse_copy(item: FoundMessage) -> NewMessage | MessageError:
    return MessageError("propertyError", WORKER_ENDED)


# --- on an executor --------------------------------------------------------------------------------------------------


def find_in_range(assignment: bytes) -> bytes:
    place, filters, (after, last) = pickle.loads(assignment)
    here = open_program(place)
    return pickle.dumps([Finder(here.plan, filters).find(here.store, after, last)])


def copy_batch(assignment: bytes) -> bytes:
    place, found, name, now = pickle.loads(assignment)
    here = open_program(place)
    copier = Copier(MessageFactory(here.plan, here.evaluator), here.evaluator, here.store)
    with at_most(RULE_TIMEOUT_SECONDS + len(found) * FURTHER_MESSAGE_SECONDS):
        return pickle.dumps(copier.make_copies(found, name, now))
