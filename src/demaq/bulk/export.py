"""Export a snapshot of a queue into a folder: as Parquet through Spark, or as XML files.

The files are written to a temporary folder, which is renamed when it is complete.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from demaq.bulk.columns import PropertyColumn, make_arrow_table
from demaq.bulk.message_sink import split_batches
from demaq.errors import OperatorError
from demaq.files import name_in_errors
from demaq.spark.jobs import summary_of
from demaq.store.protocol import StoredMessage
from demaq.store.sql_store import SqlStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE_MESSAGES = 1000
TABLE_MESSAGES_MAX = 20_000
TABLE_BYTES_MAX = 64_000_000
"""How many messages are given to Spark at a time."""


class ExportFailed(OperatorError):
    """The folder cannot be written."""

    code = "DQ9105"


def read_pages(store: SqlStore, queue: str, everything: bool) -> Iterator[list[StoredMessage]]:
    """Yield the visible messages of a queue, or all that are stored, in order and in pages."""
    read = store.stored if everything else store.visible
    last = 0
    while page := read(queue, last, PAGE_MESSAGES):
        yield page
        last = page[-1].seq


def write_xml(pages: Iterator[list[StoredMessage]], folder: Path, advance: Callable[[int], None]) -> int:
    """Write one file for each message, named by its id. Return how many there are."""
    written = 0
    for page in pages:
        for message in page:
            path = folder / f"{message.seq}.xml"
            with name_in_errors(path):
                path.write_text(message.body, encoding="utf-8", newline="\n")
        written += len(page)
        advance(len(page))
    return written


def write_parquet(
    session: SparkSession,
    pages: Iterator[list[StoredMessage]],
    columns: Sequence[PropertyColumn],
    folder: Path,
    advance: Callable[[int], None],
) -> int:
    """Write Parquet files by Spark's executors. Return how many messages are in them."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    written = 0
    for table in _tables(pages):
        try:
            frame = session.createDataFrame(make_arrow_table(table, columns))
            frame.write.mode("append").parquet(folder.absolute().as_uri())
        except (PySparkException, Py4JError, ConnectionError, EOFError) as error:
            raise ExportFailed(f"Spark cannot write to {folder}: {summary_of(error)}") from None
        written += len(table)
        advance(len(table))
    return written


def _tables(pages: Iterator[list[StoredMessage]]) -> Iterator[list[StoredMessage]]:
    """Yield the messages of some pages at a time; an empty list for an empty queue, whose columns are written too."""
    tables = split_batches(chain.from_iterable(pages), TABLE_MESSAGES_MAX, TABLE_BYTES_MAX, lambda m: len(m.body))
    yield next(tables, [])
    yield from tables


@contextmanager
def create_export_folder(folder: Path) -> Iterator[Path]:
    """Yield a temporary folder, which is renamed at the end of the block. Raises ExportFailed."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ExportFailed(f"{folder} is not an empty folder; give the name of a new one")
    unfinished = folder.absolute().with_name(f".{folder.absolute().name}.unfinished-{os.getpid()}")
    try:
        unfinished.mkdir(parents=True)
        yield unfinished
        os.replace(unfinished, folder)
    except OSError as error:
        raise ExportFailed(f"{folder} cannot be written: {error.strerror or error}") from None
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
