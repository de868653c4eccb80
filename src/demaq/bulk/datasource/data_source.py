"""The format `demaq`: readers and writers of a queue for Spark.

Spark plans each read in a new process, so what only writers need, the evaluator, is imported by these alone.
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

from demaq.bulk.columns import PropertyColumn, property_columns
from demaq.bulk.datasource.options import (
    READ_OPTIONS,
    STREAM_OPTIONS,
    WRITE_OPTIONS,
    Options,
    WrongOption,
    check_options,
)
from demaq.bulk.datasource.queue_reader import NarrowingQueueReader, QueueReader, QueueStreamReader
from demaq.bulk.datasource.schema import make_schema
from demaq.bulk.datasource.source_store import expect_queue, load_program_on, open_for_reading
from demaq.errors import OperatorError

R = TypeVar("R", bound=QueueReader | QueueStreamReader)


class DemaqSource(DataSource):
    _reader: type[QueueReader] = QueueReader

    @classmethod
    def name(cls) -> str:
        return "demaq"

    def schema(self) -> StructType:
        options = check_options(self.options, tuple(dict.fromkeys((*READ_OPTIONS, *STREAM_OPTIONS))))
        return make_schema(_find_columns(options), options.as_text)

    def reader(self, schema: StructType) -> DataSourceReader:
        return _make_reader(self._reader, check_options(self.options, READ_OPTIONS), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802, Spark's name
        return _make_reader(QueueStreamReader, check_options(self.options, STREAM_OPTIONS), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from demaq.bulk.datasource.queue_writer import QueueWriter

        _refuse_overwrite(overwrite)
        return QueueWriter(check_options(self.options, WRITE_OPTIONS), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802, Spark's name
        from demaq.bulk.datasource.queue_writer import QueueStreamWriter

        _refuse_overwrite(overwrite)
        options = check_options(self.options, WRITE_OPTIONS)
        name = options.batch or self.options.get("checkpointLocation") or self.options.get("queryName")
        if not name:
            raise WrongOption('the stream needs a name of its own: .option("batch", …)')
        return QueueStreamWriter(options, schema, name)


class NarrowingSource(DemaqSource):
    """The same with filter push-down; each data frame must be used only once (see NarrowingQueueReader)."""

    _reader = NarrowingQueueReader


def _find_columns(options: Options) -> tuple[PropertyColumn, ...]:
    with open_for_reading(options.store) as store:
        _, program = load_program_on(store, options.store)
    expect_queue(program, options.queue, options.store)
    return property_columns(program, options.queue)


def _make_reader(kind: type[R], options: Options, asked: StructType) -> R:
    properties = _find_columns(options)
    ours = {field.name: field.dataType for field in make_schema(properties, options.as_text).fields}
    for field in asked.fields:
        if ours.get(field.name) != field.dataType:
            raise OperatorError(
                f"queue {options.queue} has no column {field.name} of type {field.dataType.simpleString()}"
            )
    return kind(options, properties, asked)


def _refuse_overwrite(overwrite: bool) -> None:
    if overwrite:
        raise WrongOption('messages of a queue are never replaced: write with .mode("append")')
