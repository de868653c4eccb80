"""The format `demaq`: what Spark asks for a reader or a writer of a queue.

Spark plans each read in a new process, which should not have to import what only writers need: the evaluator.
"""

from __future__ import annotations

from typing import TypeVar

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from demaq.bulk.datasource.options import (
    READ_OPTIONS,
    STREAM_OPTIONS,
    WRITE_OPTIONS,
    Options,
    WrongOption,
    checked,
)
from demaq.bulk.datasource.queue_reader import NarrowingQueueReader, QueueReader, QueueStreamReader
from demaq.bulk.datasource.schema import TypedPropertyColumn, property_columns, schema_of
from demaq.bulk.datasource.source_store import expect_queue, program_on, reading
from demaq.errors import OperatorError

R = TypeVar("R", bound=QueueReader | QueueStreamReader)


class DemaqSource(DataSource):
    _reader: type[QueueReader] = QueueReader

    @classmethod
    def name(cls) -> str:
        return "demaq"

    def schema(self) -> StructType:
        options = checked(self.options, tuple(dict.fromkeys((*READ_OPTIONS, *STREAM_OPTIONS))))
        return schema_of(_properties(options), options.as_text)

    def reader(self, schema: StructType) -> DataSourceReader:
        return _reader(self._reader, checked(self.options, READ_OPTIONS), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802, Spark's name
        return _reader(QueueStreamReader, checked(self.options, STREAM_OPTIONS), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from demaq.bulk.datasource.queue_writer import QueueWriter

        _refuse_overwriting(overwrite)
        return QueueWriter(checked(self.options, WRITE_OPTIONS), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802, Spark's name
        from demaq.bulk.datasource.queue_writer import QueueStreamWriter

        _refuse_overwriting(overwrite)
        options = checked(self.options, WRITE_OPTIONS)
        name = options.batch or self.options.get("checkpointLocation") or self.options.get("queryName")
        if not name:
            raise WrongOption('the stream needs a name of its own: .option("batch", …)')
        return QueueStreamWriter(options, schema, name)


class NarrowingSource(DemaqSource):
    """The same, for who uses each data frame once."""

    _reader = NarrowingQueueReader


def _properties(options: Options) -> tuple[TypedPropertyColumn, ...]:
    with reading(options.store) as store:
        _, program = program_on(store, options.store)
    expect_queue(program, options.queue, options.store)
    return property_columns(program, options.queue)


def _reader(kind: type[R], options: Options, asked: StructType) -> R:
    properties = _properties(options)
    ours = {field.name: field.dataType for field in schema_of(properties, options.as_text).fields}
    for field in asked.fields:
        if ours.get(field.name) != field.dataType:
            raise OperatorError(
                f"queue {options.queue} has no column {field.name} of type {field.dataType.simpleString()}"
            )
    return kind(options, properties, asked)


def _refuse_overwriting(overwrite: bool) -> None:
    if overwrite:
        raise WrongOption('messages of a queue are never replaced: write with .mode("append")')
