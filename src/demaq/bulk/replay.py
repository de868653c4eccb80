"""Run messages again: find them, make copies, store these. On Spark where there are many, else beside the command.

Each copy has a name, made of what it is a copy of and of the name of the run. One whose name is known is not stored
again, so a replay that was interrupted is run again and goes on.
"""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol

from demaq.bulk.executors import ProgramOnStore, open_program, spread
from demaq.bulk.load import TRANSACTION_BYTES_MAX, TRANSACTION_MESSAGES_MAX, parts
from demaq.bulk.message_search import Filters, Finder, Found, SearchResult, ranges
from demaq.compiler.plan import Plan
from demaq.engine.error_routing import read_error
from demaq.engine.message_factory import MessageFactory
from demaq.engine.replay import REQUESTS, Original, arrival, copy, failed_original, stored_original
from demaq.errors import MessageError
from demaq.evaluation.round_request import PropertyEvaluator
from demaq.evaluation.workers.process import FURTHER_MESSAGE_SECONDS, RULE_TIMEOUT_SECONDS
from demaq.evaluation.workers.time_limit import at_most
from demaq.spark.jobs import cores
from demaq.store.protocol import NewMessage, Store, StoredMessage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RANGE_NUMBERS = 50_000
"""So many numbers of the store are looked through in one task."""
TASK_MESSAGES_MAX = 1000
"""So many copies are made in one task."""
WAVE_TASKS_FOR_EACH_CORE = 2
LOOK_UP_MAX = 1000
"""Of so many messages it is looked up one by one whether they were run again before; of more, at once."""
EXAMPLES_MAX = 5

_NOT_COMPUTED = "its properties cannot be computed: the process that did it came to its end"


class ReplaySink(Protocol):
    """Where copies are stored: a running node, or a store at rest."""

    def append(self, messages: Sequence[NewMessage], digest: str, watch: str | None = None) -> list[bool]:
        """Store messages, all or none; the answer is which of them are new."""


@dataclass(slots=True)
class ReplayReport:
    """What a replay has done."""

    stored: int = 0
    known: int = 0
    """Messages that a replay of this name has run again before."""
    refused: Counter[str] = field(default_factory=Counter)
    """Messages that the application does not take any more, by the kind of error."""
    examples: list[str] = field(default_factory=list)


class ReplayBackend(Protocol):
    """Who does the work."""

    def find(self, filters: Filters, last: int, advance: Callable[[int], None]) -> SearchResult:
        """What there is up to a number; `advance` hears how many numbers are looked through."""

    def copies(self, found: Sequence[Found], name: str) -> Iterator[list[NewMessage | MessageError]]:
        """A copy of each message, or why there can be none, in order and some at a time."""


class LocalBackend:
    """One process, for few messages."""

    def __init__(self, plan: Plan, store: Store, evaluator: PropertyEvaluator) -> None:
        self._plan = plan
        self._store = store
        self._evaluator = evaluator

    def find(self, filters: Filters, last: int, advance: Callable[[int], None]) -> SearchResult:
        finding = SearchResult()
        for after, up_to in ranges(last, RANGE_NUMBERS):
            finding.add(Finder(self._plan, filters).find(self._store, after, up_to))
            advance(up_to - after)
        return finding

    def copies(self, found: Sequence[Found], name: str) -> Iterator[list[NewMessage | MessageError]]:
        copier = Copier(MessageFactory(self._plan, self._evaluator), self._evaluator, self._store)
        for start in range(0, len(found), TASK_MESSAGES_MAX):
            yield copier.copies(found[start : start + TASK_MESSAGES_MAX], name, datetime.now(UTC))


class OnSpark:
    """Spark's executors, for many."""

    def __init__(self, session: SparkSession, place: ProgramOnStore) -> None:
        self._session = session
        self._place = place
        self._wave = WAVE_TASKS_FOR_EACH_CORE * max(cores(session), 1)

    def find(self, filters: Filters, last: int, advance: Callable[[int], None]) -> SearchResult:
        finding = SearchResult()
        tasks = [[part] for part in ranges(last, RANGE_NUMBERS)]
        for start in range(0, len(tasks), self._wave):
            wave = tasks[start : start + self._wave]

            def assignment(part: Sequence[tuple[int, int]]) -> bytes:
                return pickle.dumps((self._place, filters, part[0]))

            for answer in spread(self._session, wave, assignment, find_some, _cannot_look):
                finding.add(answer)
            advance(wave[-1][0][1] - wave[0][0][0])
        return finding

    def copies(self, found: Sequence[Found], name: str) -> Iterator[list[NewMessage | MessageError]]:
        def assignment(part: Sequence[Found]) -> bytes:
            return pickle.dumps((self._place, part, name, datetime.now(UTC)))

        tasks = [found[start : start + TASK_MESSAGES_MAX] for start in range(0, len(found), TASK_MESSAGES_MAX)]
        for start in range(0, len(tasks), self._wave):
            wave = tasks[start : start + self._wave]
            yield spread(self._session, wave, assignment, copy_some, _cannot_copy)


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """Stores the copies of one run."""

    store: Store
    """For reading."""
    target: ReplaySink
    digest: str
    """Of the program that the copies are made for."""
    name: str
    watch: str | None = None
    advance: Callable[[int], None] = lambda messages: None

    def run(self, hands: ReplayBackend, found: Sequence[Found], report: ReplayReport) -> list[int]:
        """Store copies of what was found and note it in the report. The answer is the numbers of those that wait."""
        before = self.known(found)
        report.known += len(before)
        self.advance(len(before))
        new = [item for item in found if item not in before]
        position = 0
        for wave in hands.copies(new, self.name):
            items = new[position : position + len(wave)]
            position += len(wave)
            self._append(list(zip(items, wave, strict=True)), report)
        numbers = sorted(self.known(found).values())
        return [message.seq for message in self.store.messages(numbers) if message.processed is None]

    def known(self, found: Sequence[Found]) -> dict[Found, int]:
        """Those that a run of this name has run again already, with the numbers of their copies."""
        if len(found) > LOOK_UP_MAX:
            requests = self.store.requested(REQUESTS)
            return {f: requests[f.request(self.name)] for f in found if f.request(self.name) in requests}
        looked_up = [(f, self.store.requested(f.request(self.name)).get(f.request(self.name))) for f in found]
        return {f: seq for f, seq in looked_up if seq is not None}

    def _append(self, wave: Sequence[tuple[Found, NewMessage | MessageError]], report: ReplayReport) -> None:
        copies: list[NewMessage] = []
        for item, answer in wave:
            if isinstance(answer, NewMessage):
                copies.append(answer)
                continue
            report.refused[answer.kind] += 1
            if len(report.examples) < EXAMPLES_MAX:
                report.examples.append(f"message {item.first} of {item.queue}: {answer.kind}: {answer.message}")
        for part in parts(copies, TRANSACTION_MESSAGES_MAX, TRANSACTION_BYTES_MAX, lambda message: len(message.body)):
            new = self.target.append(part, self.digest, self.watch)
            report.stored += sum(new)
            report.known += len(new) - sum(new)
        self.advance(len(wave))


class Copier:
    """Makes copies under one program."""

    def __init__(self, maker: MessageFactory, evaluator: PropertyEvaluator, store: Store) -> None:
        self._maker = maker
        self._evaluator = evaluator
        self._store = store

    def copies(self, found: Sequence[Found], name: str, now: datetime) -> list[NewMessage | MessageError]:
        """A copy of each message, or why there can be none."""
        originals = self._originals(found)
        there = [original for original in originals if original is not None]
        program = self._maker.program
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
                made.append(copy(self._maker, original, answer, now, item.request(name), item.rule))
        return made

    def _originals(self, found: Sequence[Found]) -> list[Original | None]:
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


def _same_queue(message: StoredMessage | None, item: Found) -> StoredMessage | None:
    return message if message is not None and message.queue == item.queue else None


def _cannot_look(part: tuple[int, int]) -> SearchResult:
    raise AssertionError(f"looking through messages {part} ends the process that does it")


def _cannot_copy(item: Found) -> NewMessage | MessageError:
    return MessageError("propertyError", _NOT_COMPUTED)


# --- on an executor --------------------------------------------------------------------------------------------------


def find_some(assignment: bytes) -> bytes:
    place, filters, (after, last) = pickle.loads(assignment)
    here = open_program(place)
    return pickle.dumps([Finder(here.plan, filters).find(here.store, after, last)])


def copy_some(assignment: bytes) -> bytes:
    place, found, name, now = pickle.loads(assignment)
    here = open_program(place)
    copier = Copier(MessageFactory(here.plan, here.evaluator), here.evaluator, here.store)
    with _time_for(len(found)):
        return pickle.dumps(copier.copies(found, name, now))


def _time_for(messages: int) -> AbstractContextManager[None]:
    return at_most(RULE_TIMEOUT_SECONDS + messages * FURTHER_MESSAGE_SECONDS)
