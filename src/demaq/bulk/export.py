"""Export a queue, as it is at one moment, into a folder: as Parquet through Spark, or as XML files.

The folder is there when it is complete, and not before: what is being written lies beside it under another name.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from demaq.bulk.columns import PropertyColumn, arrow_table
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
"""So many messages are handed to Spark at once."""


class ExportFailed(OperatorError):
    """The folder cannot be written."""

    code = "DQ9105"


def messages_of(store: SqlStore, queue: str, everything: bool) -> Iterator[list[StoredMessage]]:
    """Messages of a queue in order, visible ones or all that are there, page by page."""
    read = store.stored if everything else store.visible
    last = 0
    while page := read(queue, last, PAGE_MESSAGES):
        yield page
        last = page[-1].seq


def write_xml(pages: Iterator[list[StoredMessage]], folder: Path, advance: Callable[[int], None]) -> int:
    """One file for each message, named by its id; the answer is how many."""
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
    """Parquet files, written by Spark's executors; the answer is how many messages are in them."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    written = 0
    for table in _tables(pages):
        try:
            frame = session.createDataFrame(arrow_table(table, columns))
            frame.write.mode("append").parquet(folder.absolute().as_uri())
        except (PySparkException, Py4JError, ConnectionError, EOFError) as error:
            raise ExportFailed(f"Spark cannot write to {folder}: {summary_of(error)}") from None
        written += len(table)
        advance(len(table))
    return written


def _tables(pages: Iterator[list[StoredMessage]]) -> Iterator[list[StoredMessage]]:
    """Pages put together. There is one at least, so that an empty queue has columns too."""
    table: list[StoredMessage] = []
    total = written = 0
    for page in pages:
        table += page
        total += sum([len(message.body) for message in page])
        if len(table) >= TABLE_MESSAGES_MAX or total >= TABLE_BYTES_MAX:
            yield table
            written += len(table)
            table, total = [], 0
    if table or not written:
        yield table


@contextmanager
def completed(folder: Path) -> Iterator[Path]:
    """A folder to write to, which takes its place at the end of the block. Raises ExportFailed."""
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
