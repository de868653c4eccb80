"""Queues as data frames: read, streamed and written by a real Spark, while others use the store."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkConf
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.datasource import EqualTo, Filter, GreaterThan, In, IsNotNull, IsNull, LessThanOrEqual, Not
from pyspark.sql.types import (
    BinaryType,
    DecimalType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

import demaq.spark
from demaq.bulk.datasource import queue_reader as reading_module
from demaq.bulk.datasource.data_source import DemaqSource, NarrowingSource
from demaq.bulk.datasource.options import WrongOption
from demaq.bulk.datasource.queue_reader import Range, split_numbers
from demaq.bulk.datasource.schema import format_value, parse_value_for_spark, spark_type
from demaq.compiler.planner import make_plan
from demaq.engine.migration.migrate_store import migrate_store
from demaq.errors import OperatorError, StoreError
from demaq.evaluation.saxon.compiled import compile_program
from demaq.evaluation.saxon.saxon_evaluator import SaxonEvaluator
from demaq.language.loader import load_program_texts
from demaq.server.control_server import ControlServer
from demaq.server.node import Node
from demaq.spark.java import find_java_home
from demaq.spark.session import RunningSpark
from demaq.store.sqlite import SqliteStore
from tests.support.engines import local_engine

pytestmark = pytest.mark.slow

PROGRAM = """
create queue orders
create queue parcels kind mailbox (: read by others :)
create queue inbox
create property customer as xs:string queue orders, inbox value //customer
create property amount as xs:decimal queue orders, inbox value //amount
create property pieces as xs:int queue orders value //pieces
create property day as xs:date queue orders value //day
create property at as xs:dateTime queue orders value //at
create property express as xs:boolean queue orders value exists(//express)
create property id as xs:string queue orders value //@id
create property size as xs:integer fixed queue inbox value count(//item)
create slicing everything on customer
create rule ship for orders if (/order/ship) then do enqueue <parcel/> into parcels
"""
ORDER = (
    "<order id='o{0}'><customer>c{1}</customer><amount>{0}.50</amount><pieces>{0}</pieces><day>2026-05-01+02:00</day>"
    "<at>2026-05-01T12:00:00+02:00</at></order>"
)
WAIT_SECONDS = 120


class OpenStore:
    """A store with an application on it, as a node has it."""

    def __init__(self, folder: Path, program: str = PROGRAM) -> None:
        self.folder = folder
        self.store = SqliteStore(folder)
        compiled = compile_program(load_program_texts({"shop.dmq": program}))
        evaluator = SaxonEvaluator(compiled)
        migrate_store(
            make_plan(compiled.plan.program), evaluator, self.store, lambda: datetime.now(UTC), (), lambda _: None
        )
        self.engine = local_engine(evaluator, self.store, lambda: datetime.now(UTC))

    def orders(self, numbers: Sequence[int]) -> list[int]:
        return [self.engine.enqueue("orders", ORDER.format(n, n % 3)) for n in numbers]

    def bodies(self, queue: str) -> list[str]:
        store = SqliteStore.open_readonly(self.folder)
        try:
            return [message.body for message in store.stored(queue, 0, 10_000)]
        finally:
            store.close()


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[OpenStore]:
    store = OpenStore(tmp_path / "shop")
    yield store
    store.store.close()


@pytest.fixture
def session(spark: RunningSpark) -> Any:
    demaq.spark.register(spark.session)
    return spark.session


def read(session: Any, folder: Path, queue: str = "orders", **options: object) -> DataFrame:
    frame: DataFrame = session.read.format("demaq").options(store=str(folder), queue=queue, **options).load()
    return frame


def reader(folder: Path, source_class: type[DemaqSource] = DemaqSource, **options: object) -> Any:
    """A reader as Spark makes it, without Spark."""
    source = source_class({"store": str(folder), "queue": "orders", **{k: str(v) for k, v in options.items()}})
    return source.reader(source.schema())


def write(frame: DataFrame, folder: Path, **options: str) -> None:
    frame.write.format("demaq").options(store=str(folder), queue="inbox", **options).mode("append").save()


# --- reading ---------------------------------------------------------------------------------------------------------


def test_a_queue_is_a_table_with_typed_properties(session, opened):
    [number] = opened.orders([7])
    frame = read(session, opened.folder)

    [row] = frame.collect()

    assert frame.columns == [
        *("id", "queue", "body", "created", "rule", "trigger", "origin", "processed"),
        *("customer", "amount", "pieces", "day", "at", "express", "property_id"),
    ]
    assert (row.id, row.queue, row.origin, row.processed) == (number, "orders", number, False)
    assert (row.rule, row.trigger) == (None, None)
    assert row.body == ORDER.format(7, 1)
    assert (row.customer, row.amount, row.pieces) == ("c1", Decimal("7.5"), 7)
    assert (row.day, row.express, row.property_id) == (date(2026, 5, 1), False, "o7")
    assert row.at.astimezone(UTC) == datetime(2026, 5, 1, 10, tzinfo=UTC)
    assert frame.schema["amount"].dataType == DecimalType(38, 18)


def test_properties_can_be_texts(session, opened):
    opened.orders([7])
    frame = read(session, opened.folder, types="text")

    assert [tuple(row) for row in frame.select("amount", "pieces", "express").collect()] == [("7.5", "7", "false")]


def test_tasks_read_ranges_of_numbers_and_together_everything_in_order(session, opened):
    numbers = opened.orders(range(20))
    frame = read(session, opened.folder, partitions=4)

    assert frame.rdd.getNumPartitions() == 4
    assert [row.id for row in frame.select("id").collect()] == numbers


def test_a_snapshot_is_a_number_and_shows_what_was_visible_then(session, opened):
    first = opened.engine.enqueue("orders", "<order><ship/></order>")
    snapshot = opened.store.snapshot()
    while opened.engine.run_round():
        pass
    opened.orders([1])

    before = read(session, opened.folder, snapshot=snapshot).select("id", "processed").collect()
    now = read(session, opened.folder).filter("not processed").count()
    made = read(session, opened.folder, queue="parcels").select("rule", "trigger", "origin").collect()

    assert [tuple(row) for row in before] == [(first, False)]
    assert now == 1
    assert [tuple(row) for row in made] == [("ship", first, first)]


def test_what_has_retired_is_read_only_when_all_is_asked_for(session, tmp_path):
    opened = OpenStore(tmp_path / "s", "create queue a create rule r for a if (/never) then do enqueue <x/> into a")
    opened.engine.enqueue("a", "<m/>")
    opened.engine.run_round()

    assert read(session, opened.folder, queue="a").count() == 0
    assert [row.processed for row in read(session, opened.folder, queue="a", all="true").collect()] == [True]
    opened.store.close()


def test_a_read_is_one_picture_while_others_write(opened, monkeypatch):
    """Every task starts after further messages were stored and processed."""
    monkeypatch.setattr(reading_module, "PAGE_MESSAGES", 2)
    numbers = opened.orders(range(9))
    planned = reader(opened.folder, partitions=3)
    parts = planned.partitions()
    seen: list[Any] = []

    for part in parts:
        for row in planned.read(part):
            opened.orders([99])
            opened.engine.run_round()
            seen.append(row)

    assert [(row[0], row[7]) for row in seen] == [(number, False) for number in numbers]


def test_a_read_by_spark_is_one_picture_while_a_writer_appends(session, opened):
    opened.orders(range(5))
    stop = threading.Event()

    def keep_writing() -> None:
        while not stop.wait(0.01):
            opened.orders([1])

    writer = threading.Thread(target=keep_writing)
    writer.start()
    try:
        snapshot = opened.store.snapshot()
        frame = read(session, opened.folder, snapshot=snapshot, partitions=3)
        counts = {frame.count() for _ in range(3)}
        ids = [row.id for row in frame.collect()]
    finally:
        stop.set()
        writer.join()

    assert len(counts) == 1
    assert max(ids) <= snapshot
    assert {len(ids)} == counts


@pytest.mark.parametrize(
    ("after", "last", "wanted", "expected"),
    [
        (0, 0, None, []),
        (5, 4, None, []),
        (0, 10, None, [(0, 10)]),
        (0, 10, 3, [(0, 3), (3, 6), (6, 10)]),
        (8, 10, 50, [(8, 9), (9, 10)]),
    ],
)
def test_ranges_cover_every_number_once(after, last, wanted, expected):
    assert split_numbers(after, last, 99, wanted) == [Range(a, b, 99) for a, b in expected]


# --- conditions ------------------------------------------------------------------------------------------------------

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    "taken",
    [
        EqualTo(("id",), 3),
        In(("id",), (3, 4)),
        GreaterThan(("id",), 3),
        LessThanOrEqual(("created",), NOON),
        EqualTo(("processed",), True),
        EqualTo(("customer",), "c1"),
        In(("customer",), ("c1", "c2")),
        EqualTo(("amount",), Decimal("7.50")),
        EqualTo(("day",), date(2026, 5, 1)),
        EqualTo(("at",), NOON),
        IsNotNull(("customer",)),
    ],
)
def test_a_condition_that_is_decided_here_is_taken(opened, taken):
    assert reader(opened.folder, NarrowingSource).pushFilters([taken]) == []


@pytest.mark.parametrize(
    "left",
    [
        GreaterThan(("customer",), "c1"),
        EqualTo(("customer",), 1),
        EqualTo(("pieces",), True),
        EqualTo(("at",), datetime(2026, 5, 1, 12)),
        EqualTo(("nested", "column"), 1),
        Not(EqualTo(("id",), 3)),
        IsNull(("customer",)),
    ],
)
def test_any_other_condition_is_given_back(opened, left):
    assert reader(opened.folder, NarrowingSource).pushFilters([left]) == [left]


def test_bounds_of_numbers_narrow_what_is_read(opened):
    opened.orders(range(20))
    narrowed = reader(opened.folder, NarrowingSource)
    conditions: list[Filter] = [GreaterThan(("id",), 4), LessThanOrEqual(("id",), 6), IsNotNull(("id",))]

    assert narrowed.pushFilters(conditions) == []
    assert narrowed.partitions() == [Range(4, 6, opened.store.snapshot())]


@pytest.fixture
def narrowing(session: Any) -> Iterator[None]:
    demaq.spark.register(session, push_down=True)
    yield
    session.conf.unset("spark.sql.python.filterPushdown.enabled")


@pytest.mark.usefixtures("narrowing")
def test_spark_and_the_store_agree_on_conditions(session, opened):
    opened.orders(range(12))
    everything = [row.asDict() for row in read(session, opened.folder).collect()]

    conditions = {
        "id > 3 and id <= 6": lambda row: 3 < row["id"] <= 6,
        "id in (2, 5, 99)": lambda row: row["id"] in (2, 5),
        "customer = 'c1'": lambda row: row["customer"] == "c1",
        "amount = 7.50": lambda row: row["amount"] == Decimal("7.5"),
        "amount = 7.50 and pieces >= 8": lambda row: False,
        "pieces > 8 or customer = 'c2'": lambda row: row["pieces"] > 8 or row["customer"] == "c2",
        "day = date'2026-05-01' and not express": lambda row: True,
        "at = timestamp'2026-05-01 10:00:00 UTC'": lambda row: True,
        "created > timestamp'2000-01-01 00:00:00'": lambda row: True,
        "processed": lambda row: False,
        "rule is null": lambda row: True,
    }
    for condition, expected in conditions.items():
        found = [row.id for row in read(session, opened.folder).filter(condition).collect()]
        assert found == [row["id"] for row in everything if expected(row)], condition


def test_a_data_frame_may_be_used_many_times_with_different_conditions(session, opened):
    """With push-down Spark 4.3 answers [4, 4]: the reason why it has to be asked for."""
    opened.orders(range(6))
    frame = read(session, opened.folder)

    assert [row.id for row in frame.filter("id = 2").union(frame.filter("id = 4")).collect()] == [2, 4]
    assert frame.count() == 6


def test_a_data_frame_keeps_its_snapshot(session, opened):
    opened.orders(range(6))
    frame = read(session, opened.folder)
    assert frame.count() == 6

    opened.orders([1])

    assert frame.count() == 6
    assert read(session, opened.folder).count() == 7
    assert read(session, opened.folder, after=6).count() == 1


# --- types -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("type_name", "text", "type_", "value"),
    [
        ("string", "x", StringType(), "x"),
        ("unsignedLong", "18446744073709551615", DecimalType(20, 0), Decimal(18446744073709551615)),
        ("unsignedInt", "4294967295", LongType(), 4294967295),
        ("integer", "9" * 38, DecimalType(38, 0), Decimal("9" * 38)),
        ("dateTime", "2026-05-01T12:00:00", TimestampType(), NOON),
        ("hexBinary", "CAFE", BinaryType(), b"\xca\xfe"),
        ("base64Binary", "yv4=", BinaryType(), b"\xca\xfe"),
        ("dayTimeDuration", "PT1H", StringType(), "PT1H"),
    ],
)
def test_values_have_the_type_of_their_column_and_go_back(type_name, text, type_, value):
    assert spark_type(type_name) == type_
    assert parse_value_for_spark(type_name, text) == value
    assert format_value(value, type_name) == (text if type_name != "dateTime" else "2026-05-01T12:00:00+00:00")


@pytest.mark.parametrize(
    ("type_name", "text"),
    [
        ("decimal", "1" * 21),
        ("decimal", "0." + "0" * 18 + "1"),
        ("integer", "1" * 39),
        ("dateTime", "12026-01-01T00:00:00"),
    ],
)
def test_a_value_that_does_not_fit_is_no_other_value(type_name, text):
    with pytest.raises(ValueError):  # noqa: PT011, its text is not ours
        parse_value_for_spark(type_name, text)


def test_a_value_that_does_not_fit_is_reported_with_its_message(session, opened):
    number = opened.engine.enqueue("orders", f"<order><amount>{'1' * 30}</amount></order>")

    with pytest.raises(PySparkException, match=f"message {number}: property amount is 1+, which does not fit"):
        read(session, opened.folder).collect()
    assert read(session, opened.folder, types="text").count() == 1


# --- streams ---------------------------------------------------------------------------------------------------------


def run_stream(session: Any, folder: Path, checkpoint: Path, table: Path, **options: object) -> list[int]:
    """Stream what there is into files, and end. Return how many messages each batch had."""
    stream = session.readStream.format("demaq").options(store=str(folder), queue="orders", **options).load()
    query = (
        stream.select("id", "customer")
        .writeStream.format("json")
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start(str(table))
    )
    assert query.awaitTermination(WAIT_SECONDS)
    return [progress.numInputRows for progress in query.recentProgress if progress.numInputRows]


def test_a_stream_that_is_stopped_continues_after_the_last_message(session, opened, tmp_path):
    where = (opened.folder, tmp_path / "checkpoint", tmp_path / "table")
    first = opened.orders(range(5))
    assert run_stream(session, *where) == [5]
    opened.engine.enqueue("inbox", "<other/>")
    assert run_stream(session, *where) == []
    second = opened.orders(range(3))
    assert run_stream(session, *where) == [3]

    rows = session.read.json(str(tmp_path / "table")).collect()
    assert sorted([row.id for row in rows]) == first + second


def test_a_stream_takes_so_many_messages_at_a_time_in_order(session, opened, tmp_path):
    opened.orders(range(5))

    batches = run_stream(session, opened.folder, tmp_path / "c", tmp_path / "t", maxMessagesPerTrigger=2, after=1)

    assert batches == [2, 2]


# --- writing ---------------------------------------------------------------------------------------------------------


def rows(session: Any, *bodies: str) -> DataFrame:
    frame: DataFrame = session.createDataFrame([(body,) for body in bodies], "body string").repartition(2)
    return frame


def test_rows_become_messages_with_the_properties_they_set(session, opened):
    opened.store.close()
    frame = session.sql("select '<a><item/></a>' body, 'c9' customer, 1.25 amount union all select '<b/>', null, null")

    write(frame, opened.folder)

    found = read(session, opened.folder, queue="inbox").select("body", "customer", "amount", "size").collect()
    assert sorted([tuple(row) for row in found]) == [
        ("<a><item/></a>", "c9", Decimal("1.25"), Decimal(1)),
        ("<b/>", None, None, Decimal(0)),
    ]


def test_a_batch_that_is_written_again_adds_nothing(session, opened):
    opened.store.close()
    bodies = ["<a/>", "<b/>", "<b/>", "<c/>"]

    write(rows(session, *bodies), opened.folder, batch="monday")
    write(rows(session, *reversed(bodies)).coalesce(1), opened.folder, batch="monday")
    assert sorted(opened.bodies("inbox")) == bodies

    write(rows(session, *bodies), opened.folder, batch="tuesday")
    write(rows(session, *bodies), opened.folder)
    assert sorted(opened.bodies("inbox")) == sorted(bodies * 3)


def test_one_bad_row_is_named_and_nothing_is_written(session, opened):
    opened.store.close()

    with pytest.raises(
        PySparkException, match=r"row 2 of partition 0 is refused \(notWellFormed: .*<broken"
    ) as refused:
        write(rows(session, "<a/>", "<broken", "<c/>").coalesce(1).orderBy("body"), opened.folder)

    assert "nothing was written to queue inbox" in str(refused.value)
    assert opened.bodies("inbox") == []


def test_rows_are_given_to_the_node_that_runs_on_the_store(session, tmp_path):
    (tmp_path / "shop.dmq").write_text(PROGRAM)
    node = Node(tmp_path / "shop.dmq", store=tmp_path / "shop")
    node.start()
    server = ControlServer(node)
    try:
        for _ in range(2):
            frame = rows(session, "<order><ship/></order>", "<order/>")
            frame.write.format("demaq").options(store=str(node.folder), queue="orders", batch="b").mode("append").save()
        with pytest.raises(PySparkException, match="refused"):
            write(rows(session, "<"), node.folder)
    finally:
        server.close()
        node.stop(drain=True)

    assert read(session, node.folder, queue="parcels").count() == 1


def test_a_stream_writes_each_batch_once(session, opened, tmp_path):
    """The second start has lost what the first has noted, and writes its batches again."""
    opened.store.close()
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.txt").write_text("<a/>\n<b/>\n<b/>\n")

    for number in range(2):
        stream = session.readStream.text(str(tmp_path / "in")).withColumnRenamed("value", "body")
        query = (
            stream.writeStream.format("demaq")
            .options(store=str(opened.folder), queue="inbox", batch="lines")
            .option("checkpointLocation", str(tmp_path / f"checkpoint{number}"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(WAIT_SECONDS)

    assert sorted(opened.bodies("inbox")) == ["<a/>", "<b/>", "<b/>"]


# --- mistakes --------------------------------------------------------------------------------------------------------


NO_MISTAKE = {"queue": "orders"}


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"queue": "order"}, "there is no queue order; did you mean orders? (store "),
        ({}, 'the option queue is missing: .option("queue", …)'),
        ({**NO_MISTAKE, "snapsot": "1"}, "there is no option snapsot; did you mean snapshot?"),
        ({**NO_MISTAKE, "all": "maybe"}, "the option all is false or true, not maybe"),
        ({**NO_MISTAKE, "snapshot": "now"}, "the option snapshot is a number from 0 to"),
        ({**NO_MISTAKE, "snapshot": "99"}, "there is no snapshot 99 yet: the newest number in"),
    ],
)
def test_a_mistake_of_a_reader_is_an_error_of_one_line(opened, options, line):
    source = DemaqSource({"store": str(opened.folder), **options})

    with pytest.raises(OperatorError) as failure:
        source.reader(source.schema()).partitions()

    assert str(failure.value).startswith(line)
    assert "\n" not in str(failure.value)


def test_the_line_about_a_mistake_reaches_the_user(session, tmp_path):
    with pytest.raises(PySparkException, match=f"StoreMissing: there is no store in {tmp_path / 'nowhere'}\n"):
        read(session, tmp_path / "nowhere")


def test_a_store_that_nothing_has_run_on_is_an_error(tmp_path):
    SqliteStore(tmp_path / "s").close()

    with pytest.raises(StoreError, match=r"there is no application on .* yet: demaq run APP --store"):
        DemaqSource({"store": str(tmp_path / "s"), "queue": "orders"}).schema()


@pytest.mark.parametrize(
    ("columns", "line"),
    [
        ("id int", "there is no column body, which has the text of a message; there are id"),
        ("body int", "the column body is a text, not of type int"),
        ("body string, id int", "the column id is set by the system: write body and properties alone"),
        ("body string, custmer int", "queue inbox has no property custmer; did you mean customer?"),
        ("body string, size int", "property size is fixed and cannot be set: leave out the column"),
        ("body string, customer array<int>", "the column customer sets a property, which array<int> cannot be"),
    ],
)
def test_columns_that_cannot_be_written_are_reported_before_anything_runs(session, opened, columns, line):
    schema = session.createDataFrame([], columns).schema

    with pytest.raises(WrongOption) as failure:
        DemaqSource({"store": str(opened.folder), "queue": "inbox"}).writer(schema, overwrite=False)

    assert str(failure.value) == line


def test_a_queue_is_never_overwritten(opened):
    source = DemaqSource({"store": str(opened.folder), "queue": "inbox"})

    with pytest.raises(WrongOption, match="messages of a queue are never replaced"):
        source.writer(StructType([StructField("body", StringType())]), overwrite=True)


def test_a_stream_that_is_written_needs_a_name(opened):
    source = DemaqSource({"store": str(opened.folder), "queue": "inbox"})

    with pytest.raises(WrongOption, match="the stream needs a name of its own"):
        source.streamWriter(StructType([StructField("body", StringType())]), overwrite=False)


def test_a_store_that_another_process_holds_is_an_error(session, opened):
    with pytest.raises(PySparkException, match="is held by process"):
        write(rows(session, "<a/>"), opened.folder)


UNACTIVATED = """
import sys
from pyspark.sql import SparkSession
import demaq.spark

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
demaq.spark.register(spark)
read = spark.read.format("demaq").options(store=sys.argv[1], queue="orders", partitions="1").load()
print([row.customer for row in read.collect()], spark.sparkContext.pythonExec == sys.executable)
"""


def test_a_session_of_an_environment_that_is_not_activated_reads_a_queue(tmp_path):
    """Spark starts its workers with the `python3` of the PATH, which here is one without any package."""
    opened = OpenStore(tmp_path / "shop")
    opened.orders([1])
    opened.store.close()
    bare = tmp_path / "bin"
    bare.mkdir()
    (bare / "python3").write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -I -S "$@"\n')
    (bare / "python3").chmod(0o755)
    environment = {name: value for name, value in os.environ.items() if name not in ("PYSPARK_PYTHON", "PYTHONPATH")}
    environment |= {
        "PATH": f"{bare}:{os.environ['PATH']}",
        "JAVA_HOME": str(find_java_home()),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    done = subprocess.run(
        [sys.executable, "-c", UNACTIVATED, str(tmp_path / "shop")],
        env=environment,
        capture_output=True,
        text=True,
        timeout=3 * WAIT_SECONDS,
        check=False,
    )

    assert done.stdout == "['c1'] True\n", done.stderr[-3000:]


class FakeContext:
    def __init__(self, python: str = "python3", **settings: str) -> None:
        self.pythonExec = python
        self._settings = settings

    def getConf(self) -> SparkConf:  # noqa: N802, Spark's name
        return SparkConf(loadDefaults=False).setAll(list(self._settings.items()))


def test_a_python_that_was_chosen_for_the_workers_stays(monkeypatch, tmp_path):
    def chosen(context: Any) -> str:
        demaq.bulk.datasource.registration._choose_worker_python(context)
        return str(context.pythonExec)

    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    assert chosen(FakeContext()) == sys.executable
    assert chosen(FakeContext("/opt/python")) == "/opt/python"
    assert chosen(FakeContext(**{"spark.pyspark.python": "/opt/python"})) == "python3"
    monkeypatch.setenv("PYSPARK_PYTHON", "python3")
    assert chosen(FakeContext()) == "python3"
    monkeypatch.delenv("PYSPARK_PYTHON")
    (tmp_path / "python3").symlink_to(sys.executable)
    (tmp_path / "python").symlink_to(sys.executable)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    assert chosen(FakeContext()) == "python3", "the environment is activated"
