"""Read a queue at a snapshot, or as a stream: executors read ranges of numbers from the store.

A message's number never changes, and processing and retiring have numbers of the same sequence. So tasks that read at
different times, while a node writes, return one consistent snapshot.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, Filter, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from demaq.bulk.columns import PropertyColumn
from demaq.bulk.datasource.filters import PushedFilters
from demaq.bulk.datasource.options import Options, WrongOption
from demaq.bulk.datasource.schema import make_row
from demaq.bulk.datasource.source_store import open_for_reading
from demaq.store.location import place_of
from demaq.store.protocol import Store, StoredMessage

PAGE_MESSAGES = 200
"""How many messages a task holds at a time."""
PARTITION_NUMBERS_MIN = 10_000
"""Fewer numbers are not worth a task of their own."""
PARTITIONS_DEFAULT_MAX = 32

_NUMBER = "number"


@dataclass
class Range(InputPartition):
    """The numbers after `after`, up to and including `last`."""

    after: int
    last: int
    snapshot: int


class QueueReader(DataSourceReader):
    """Reads the messages of a queue that are visible at a snapshot."""

    def __init__(self, options: Options, properties: Sequence[PropertyColumn], schema: StructType) -> None:
        self._options = options
        self._properties = properties
        self._schema = schema
        self._pushed = PushedFilters()

    def partitions(self) -> Sequence[InputPartition]:
        snapshot = self._snapshot()
        after = max(self._options.after, self._pushed.after)
        last = snapshot if self._pushed.last is None else min(snapshot, self._pushed.last)
        return split_numbers(after, last, snapshot, self._options.partitions)

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        assert isinstance(partition, Range), "made by partitions()"
        names = self._schema.fieldNames()
        with open_for_reading(self._options.store) as store:
            for message in read_range(store, self._options.queue, partition):
                if not self._options.everything and not _is_visible(message, partition.snapshot):
                    continue
                row = make_row(message, partition.snapshot, self._properties, self._options.as_text)
                if self._pushed.matches(row):
                    yield tuple([row[name] for name in names])

    def _snapshot(self) -> int:
        with open_for_reading(self._options.store) as store:
            newest = store.snapshot()
        asked = self._options.snapshot
        if asked is not None and asked > newest:
            place = place_of(self._options.store)
            raise WrongOption(f"there is no snapshot {asked} yet: the newest number in {place} is {newest}")
        return newest if asked is None else asked


class NarrowingQueueReader(QueueReader):
    """Reads only what matches the filters of the query, as far as they can be decided here.

    A class of its own, because Spark 4.3 caches the partitions planned for one query with the data frame: a further use
    of it in the same query, or later without a filter, would get the filtered rows.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802, Spark's name
        return list(self._pushed.accept(filters, self._schema))


class QueueStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads new messages of a queue, each once, in order. An offset is the last number that was read.

    Retired messages are read too, as long as they are stored: a batch that is read again must be the same.
    """

    def __init__(self, options: Options, properties: Sequence[PropertyColumn], schema: StructType) -> None:
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
        with open_for_reading(self._options.store) as store:
            self._end = store.snapshot()

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802, Spark's name
        """Return an offset after `start` only if there are new messages in the queue, so that no batch is empty."""
        begin = start[_NUMBER]
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        with open_for_reading(self._options.store) as store:
            end = store.snapshot() if self._end is None else self._end
            found = store.stored(self._options.queue, begin, most or 1)
        if not found or found[0].seq > end:
            return start
        if most is not None and len(found) == most:
            end = min(end, found[-1].seq)
        return {_NUMBER: end}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        return split_numbers(start[_NUMBER], end[_NUMBER], end[_NUMBER], self._options.partitions)

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        assert isinstance(partition, Range), "made by partitions()"
        names = self._schema.fieldNames()
        with open_for_reading(self._options.store) as store:
            for message in read_range(store, self._options.queue, partition):
                row = make_row(message, partition.snapshot, self._properties, self._options.as_text)
                yield tuple([row[name] for name in names])


def split_numbers(after: int, last: int, snapshot: int, wanted: int | None) -> list[InputPartition]:
    """Return ranges of about equal length, in order; none if the range is empty."""
    span = last - after
    if span <= 0:
        return []
    enough = -(-span // PARTITION_NUMBERS_MIN)
    count = min(span, wanted if wanted is not None else min(enough, PARTITIONS_DEFAULT_MAX))
    bounds = [after + span * position // count for position in range(count + 1)]
    return [Range(bounds[n], bounds[n + 1], snapshot) for n in range(count)]


def read_range(store: Store, queue: str, numbers: Range) -> Iterator[StoredMessage]:
    """Yield the stored messages of a queue in a range of numbers; a page is in memory at a time."""
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


def _is_visible(message: StoredMessage, snapshot: int) -> bool:
    return message.retired is None or message.retired > snapshot
