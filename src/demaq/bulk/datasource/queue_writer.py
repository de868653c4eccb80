"""Write rows into a queue: tasks check them, the driver stores all rows of a batch or none.

A task checks its rows like any incoming message and returns messages. The driver stores those of all tasks in one
transaction, or sends them to the node that runs on the store. The request of a row is made of the batch, its content
and the number of equal rows before it. So a batch that is written again adds nothing, even if its rows have another
order or come from other tasks.
"""

from __future__ import annotations

import hashlib
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import lru_cache
from itertools import islice
from typing import Any

from pyspark.sql.datasource import DataSourceStreamWriter, DataSourceWriter, WriterCommitMessage
from pyspark.sql.types import AtomicType, BinaryType, StringType, StructType, TimestampType

from demaq.bulk.columns import property_columns
from demaq.bulk.datasource.options import Options, WrongOption
from demaq.bulk.datasource.schema import FIXED, format_value
from demaq.bulk.datasource.source_store import expect_queue, load_program_on, open_for_reading
from demaq.bulk.message_sink import split_batches
from demaq.control.client import running_node
from demaq.engine.intake import IncomingMessage
from demaq.engine.message_factory import MessageFactory
from demaq.errors import MessageError, OperatorError, StoreError
from demaq.evaluation.saxon.compiled import compile_program
from demaq.evaluation.saxon.saxon_evaluator import SaxonEvaluator
from demaq.language.program.program import Program
from demaq.store.location import place_of
from demaq.store.opening import open_store
from demaq.store.protocol import NewMessage
from demaq.suggestions import Suggestions

CHECK_ROWS_MAX = 500
"""How many rows a task checks at a time."""
PROGRAMS_KEPT = 4
"""How many compiled programs a worker keeps between tasks."""
NODE_BYTES_MAX = 64 * 1024 * 1024
"""How much a running node is sent at a time; it stores that in one transaction."""
SHOWN_CHARACTERS = 60
"""How much of a refused row is shown."""


class RowRefused(OperatorError):
    """A row cannot become a message. Nothing of its batch was stored."""

    code = "DQ9323"


@dataclass
class CheckedPartition(WriterCommitMessage):
    """The result of a task, for the driver."""

    digest: str
    """Of the program that checked the rows."""
    messages: list[NewMessage] = field(default_factory=list)
    given: list[dict[str, str]] = field(default_factory=list)
    """The properties that the rows set."""
    refused: tuple[int, str, str] | None = None
    """The first row that is refused: its position among those of the task, the reason, and its beginning."""


class _PartitionWriter:
    """Checks and stores rows, for batches and for streams."""

    def __init__(self, options: Options, schema: StructType) -> None:
        with open_for_reading(options.store) as store:
            _, program = load_program_on(store, options.store)
        expect_queue(program, options.queue, options.store)
        self._options = options
        self._properties = _map_columns(program, options.queue, schema)
        self._zoned = frozenset([field.name for field in schema.fields if isinstance(field.dataType, TimestampType)])

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        queue = self._options.queue
        with open_for_reading(self._options.store) as store:
            digest, _ = load_program_on(store, self._options.store)
            factory = _open_intake(self._options.store, digest)
        checked = CheckedPartition(digest)
        place = 0
        while rows := list(islice(iterator, CHECK_ROWS_MAX)):
            sent = [self._make_incoming(row) for row in rows]
            for each, answer in zip(sent, factory.receive_all(queue, sent, datetime.now(UTC)), strict=True):
                place += 1
                if isinstance(answer, MessageError):
                    checked.refused = (place, f"{answer.kind}: {answer.message}", _abbreviate(each.body))
                    return checked
                checked.messages.append(answer)
                checked.given.append(dict(each.properties))
        return checked

    def _make_incoming(self, row: Any) -> IncomingMessage:
        given: dict[str, str] = {}
        for column, (name, type_) in self._properties.items():
            value = row[column]
            if isinstance(value, datetime) and column in self._zoned:
                value = value.astimezone(UTC)  # Spark passes the local time
            if value is not None:
                given[name] = format_value(value, type_)
        body = row["body"]
        return IncomingMessage("" if body is None else bytes(body) if isinstance(body, bytearray) else body, given)

    def _store(self, parts: Sequence[WriterCommitMessage | None], batch: str) -> None:
        tasks = [part for part in parts if isinstance(part, CheckedPartition)]
        for number, task in enumerate(tasks):
            if task.refused is not None:
                row, why, beginning = task.refused
                raise RowRefused(
                    f"nothing was written to queue {self._options.queue}: row {row} of partition {number} "
                    f"is refused ({why}): {beginning}"
                )
        messages = _assign_requests(tasks, batch)
        if not messages:
            return
        node = running_node(self._options.store)
        if node is None:
            self._store_offline([message for message, _ in messages], tasks[0].digest)
            return
        for part in split_batches(messages, len(messages), NODE_BYTES_MAX, lambda pair: len(pair[0].body)):
            node.enqueue_all(self._options.queue, [IncomingMessage(m.body, given, m.request) for m, given in part])

    def _store_offline(self, messages: list[NewMessage], digest: str) -> None:
        store = open_store(self._options.store)
        try:
            known = store.program()
            if known is None or known[1] != digest:
                place = place_of(self._options.store)
                raise StoreError(f"the application on {place} has changed meanwhile: write again")
            store.append(messages)
        finally:
            store.close()


class QueueWriter(_PartitionWriter, DataSourceWriter):
    """Writes one batch, under a random name unless it was given one."""

    def __init__(self, options: Options, schema: StructType) -> None:
        super().__init__(options, schema)
        self._batch = options.batch or uuid.uuid4().hex

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        self._store(messages, f"spark/{self._options.queue}/{self._batch}")


class QueueStreamWriter(_PartitionWriter, DataSourceStreamWriter):
    """Writes a stream of batches, which Spark numbers and may write again after a crash."""

    def __init__(self, options: Options, schema: StructType, name: str) -> None:
        super().__init__(options, schema)
        self._name = name

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803, Spark's name
        self._store(messages, f"spark/{self._options.queue}/{self._name}/{batchId}")


def _map_columns(program: Program, queue: str, schema: StructType) -> dict[str, tuple[str, str]]:
    """Return the columns that set properties, with their names and types. Raises WrongOption for any other column."""
    known = {column.column: (column.property, column.type) for column in property_columns(program, queue)}
    names = schema.fieldNames()
    if "body" not in names:
        raise WrongOption(f"there is no column body, which has the text of a message; there are {', '.join(names)}")
    found: dict[str, tuple[str, str]] = {}
    for each in schema.fields:
        if each.name == "body":
            if not isinstance(each.dataType, StringType | BinaryType):
                raise WrongOption(f"the column body is a text, not of type {each.dataType.simpleString()}")
        elif each.name not in known:
            raise WrongOption(_unknown_column(queue, each.name, list(known)))
        elif not isinstance(each.dataType, AtomicType):
            raise WrongOption(f"the column {each.name} sets a property, which {each.dataType.simpleString()} cannot be")
        elif program.properties[known[each.name][0]].variant == "fixed":
            raise WrongOption(f"property {known[each.name][0]} is fixed and cannot be set: leave out the column")
        else:
            found[each.name] = known[each.name]
    return found


def _unknown_column(queue: str, column: str, known: list[str]) -> str:
    if column in [name for name, _, _ in FIXED]:
        return f"the column {column} is set by the system: write body and properties alone"
    hint = Suggestions().did_you_mean(column, known)
    return f"queue {queue} has no property {column}" + (f"; {hint}" if hint else "")


@lru_cache(PROGRAMS_KEPT)
def _open_intake(address: str, digest: str) -> MessageFactory:
    """Return what checks messages of a program, compiled once in a worker."""
    with open_for_reading(address) as store:
        found, program = load_program_on(store, address)
    if found != digest:
        raise StoreError(f"the application on {place_of(address)} has changed meanwhile: write again")
    compiled = compile_program(program)
    return MessageFactory(compiled.plan, SaxonEvaluator(compiled))


def _assign_requests(tasks: Iterable[CheckedPartition], batch: str) -> list[tuple[NewMessage, dict[str, str]]]:
    """Return the messages of all tasks with their requests, and the properties that were set."""
    seen: Counter[str] = Counter()
    found: list[tuple[NewMessage, dict[str, str]]] = []
    for task in tasks:
        for message, given in zip(task.messages, task.given, strict=True):
            content = hashlib.sha256(repr((message.body, sorted(given.items()))).encode()).hexdigest()
            found.append((replace(message, request=f"{batch}/{content}/{seen[content]}"), given))
            seen[content] += 1
    return found


def _abbreviate(body: str | bytes) -> str:
    text = body.decode("utf-8", "replace") if isinstance(body, bytes) else body
    flat = " ".join(text[: 2 * SHOWN_CHARACTERS].split())
    return (flat if len(flat) <= SHOWN_CHARACTERS else flat[: SHOWN_CHARACTERS - 1] + "…") or "an empty body"
