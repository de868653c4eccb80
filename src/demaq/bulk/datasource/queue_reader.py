"""Read a queue at a snapshot, or as a stream: ranges of numbers, each read from the store by an executor.

A message's number never changes, and what became of it later is known by number too. So tasks that read at different
times give one picture, while others write.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, Filter, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from demaq.bulk.datasource.filters import Pushed
from demaq.bulk.datasource.options import Options, WrongOption
from demaq.bulk.datasource.schema import TypedPropertyColumn, row_of
from demaq.bulk.datasource.source_store import reading
from demaq.store.location import place_of
from demaq.store.protocol import Store, StoredMessage

PAGE_MESSAGES = 200
"""So many messages a task holds at a time."""
PARTITION_NUMBERS_MIN = 10_000
"""A task of its own is not worth it for fewer numbers."""
PARTITIONS_DEFAULT_MAX = 32

_NUMBER = "number"


@dataclass
class Range(InputPartition):
    """The numbers behind `after` up to `last`."""

    after: int
    last: int
    snapshot: int


class QueueReader(DataSourceReader):
    """Reads the messages of a queue that are visible at a snapshot."""

    def __init__(self, options: Options, properties: Sequence[TypedPropertyColumn], schema: StructType) -> None:
        self._options = options
        self._properties = properties
        self._schema = schema
        self._pushed = Pushed()

    def partitions(self) -> Sequence[InputPartition]:
        snapshot = self._snapshot()
        after = max(self._options.after, self._pushed.after)
        last = snapshot if self._pushed.last is None else min(snapshot, self._pushed.last)
        return ranges(after, last, snapshot, self._options.partitions)

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        assert isinstance(partition, Range), "we made it"
        names = self._schema.fieldNames()
        with reading(self._options.store) as store:
            for message in messages_in(store, self._options.queue, partition):
                if not self._options.everything and not _visible(message, partition.snapshot):
                    continue
                row = row_of(message, partition.snapshot, self._properties, self._options.as_text)
                if self._pushed.meets(row):
                    yield tuple([row[name] for name in names])

    def _snapshot(self) -> int:
        with reading(self._options.store) as store:
            newest = store.snapshot()
        asked = self._options.snapshot
        if asked is not None and asked > newest:
            place = place_of(self._options.store)
            raise WrongOption(f"there is no snapshot {asked} yet: the newest number in {place} is {newest}")
        return newest if asked is None else asked


class NarrowingQueueReader(QueueReader):
    """Reads only what meets the conditions of the query, as far as they can be decided here.

    Apart from the other, because Spark 4.3 keeps what is planned for one query beside the data frame: a further use of
    it in the same query, or later without a condition, would be answered by that.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802, Spark's name
        return list(self._pushed.take(filters, self._schema))


class QueueStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads what comes into a queue, each message once, in order. An offset is the number that was reached.

    Messages that have retired meanwhile are read too, as long as they are there: a batch that is read again must be
    the same.
    """

    def __init__(self, options: Options, properties: Sequence[TypedPropertyColumn], schema: StructType) -> None:
        self._options = options
        self._properties = properties
        self._schema = schema
        self._end: int | None = None

    def initialOffset(self) -> dict[str, int]:  # noqa: N802, Spark's name
        return {_NUMBER: self._options.after}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802, Spark's name
        most = self._options.messages_per_trigger
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802, Spark's name
        with reading(self._options.store) as store:
            self._end = store.snapshot()

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802, Spark's name
        """Moves only when there is something new in the queue, so that no batch is empty."""
        begin = start[_NUMBER]
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        with reading(self._options.store) as store:
            end = store.snapshot() if self._end is None else self._end
            found = store.stored(self._options.queue, begin, most or 1)
        if not found or found[0].seq > end:
            return start
        if most is not None and len(found) == most:
            end = min(end, found[-1].seq)
        return {_NUMBER: end}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        return ranges(start[_NUMBER], end[_NUMBER], end[_NUMBER], self._options.partitions)

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        assert isinstance(partition, Range), "we made it"
        names = self._schema.fieldNames()
        with reading(self._options.store) as store:
            for message in messages_in(store, self._options.queue, partition):
                row = row_of(message, partition.snapshot, self._properties, self._options.as_text)
                yield tuple([row[name] for name in names])


def ranges(after: int, last: int, snapshot: int, wanted: int | None) -> list[InputPartition]:
    """About equal ranges, in order. None where there is no number between."""
    span = last - after
    if span <= 0:
        return []
    enough = -(-span // PARTITION_NUMBERS_MIN)
    count = min(span, wanted if wanted is not None else min(enough, PARTITIONS_DEFAULT_MAX))
    bounds = [after + span * position // count for position in range(count + 1)]
    return [Range(bounds[n], bounds[n + 1], snapshot) for n in range(count)]


def messages_in(store: Store, queue: str, numbers: Range) -> Iterator[StoredMessage]:
    """The messages of a queue in a range that are still there, a page at a time."""
    after = numbers.after
    while after < numbers.last:
        page = store.stored(queue, after, min(PAGE_MESSAGES, numbers.last - after))
        for message in page:
            if message.seq > numbers.last:
                return
            yield message
        if not page:
            return
        after = page[-1].seq


def _visible(message: StoredMessage, snapshot: int) -> bool:
    return message.retired is None or message.retired > snapshot
