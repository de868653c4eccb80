"""What is read often costs the same whatever else lies in the store: index look-ups, no scans."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from demaq.store import SqliteStore
from demaq.store.message_scan import Scan
from demaq.store.protocol import Step, Timer
from demaq.store.sql_statements import load_statements
from demaq.store.sqlite_database import FILE_NAME
from tests.support.store.contract import FOREVER, MORNING, new

READS = load_statements("sqlite", "reads")
COMMIT = load_statements("sqlite", "commit")
MIGRATION = load_statements("sqlite", "migration")
SEQUENCES = load_statements("sqlite", "sequences")
DELIVERIES = load_statements("sqlite", "deliveries")
OPERATIONS = load_statements("sqlite", "operations")
ONCE_PER_MIGRATION = {
    *("migration", "complete_indexes", "set_migration_done", "decide_migration"),
    *("delete_migration", "delete_complete_indexes", "clear_migrated"),
}
"""Tables of one row or a few, and one that is emptied."""
MESSAGE = new("q", slices=(("s", "k"),), entries=(("i", "v"),))
SORTING_A_FEW = {"queue", "sequences_in_direction"}
"""What has retired since the snapshot is sorted in among the rest; all sequences are read at the start of a node."""


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(tmp_path)
    yield store
    store.close()


NOT_SEARCHING = {"count", "set_newest_number", "transient_messages"}
"""An upsert, a table of one row, and the whole of an index that holds nothing else."""


BOUNDED = {"largest_slices", "oldest_slices", "ended_members"}
"""They look at so many rows as their limit says, and group or filter these."""


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sqlite3.Connection]:
    """The tables of an empty store: nothing is written, so one is enough for all plans."""
    folder = tmp_path_factory.mktemp("empty")
    SqliteStore(folder).close()
    connection = sqlite3.connect(folder / FILE_NAME)
    yield connection
    connection.close()


def plan(tables: sqlite3.Connection, statement: str) -> list[str]:
    names = {
        "queue",
        "but",
        "but_of",
        "snapshot",
        "slicing",
        "key",
        "index",
        "wanted",
        "limit",
        "now",
        "after",
        "end",
        "due",
        "seq",
        "priority",
        "direction",
        "name",
        "keys",
        "before",
        "until",
        "rows",
        "from",
        "first",
        "last",
        "since",
        "states",
    }
    parameters = [None] * statement.count("?") if "?" in statement else dict.fromkeys(names)
    rows = tables.execute(f"EXPLAIN QUERY PLAN {statement}", parameters).fetchall()
    return [row[3] for row in rows]


SCANS = {"stored", "counts", "collections", "newest_number", "newest_program", "conversation", "request_of_removed"} | {
    "slice_history"
}
"""What reads many rows. The last three are for operators; the first of them is bounded by the caller."""


@pytest.mark.parametrize("name", sorted(READS.keys() - SCANS))
def test_no_read_scans_a_table(tables: sqlite3.Connection, name: str):
    steps = plan(tables, READS[name])
    if name in BOUNDED:
        assert any(["SEARCH slice_members" in step for step in steps]), steps
        return
    assert not scans(steps), steps
    assert name in SORTING_A_FEW or not [step for step in steps if "TEMP B-TREE" in step], steps


@pytest.mark.parametrize(
    "name", sorted(name for name in COMMIT if not name.startswith("insert") and name not in NOT_SEARCHING)
)
def test_no_write_scans_a_table(tables: sqlite3.Connection, name: str):
    steps = plan(tables, COMMIT[name])
    assert not scans(steps), steps


@pytest.mark.parametrize("name", sorted(MIGRATION.keys() - ONCE_PER_MIGRATION))
def test_no_step_of_a_changed_program_scans_a_table(tables: sqlite3.Connection, name: str):
    steps = plan(tables, MIGRATION[name])
    assert not [step for step in scans(steps) if step not in ("SCAN names", "SCAN r")], steps


@pytest.mark.parametrize(
    "name",
    sorted([name for name in SEQUENCES if not name.startswith(("write", "verify")) and name != "sequences"]),
)
def test_nothing_about_a_sequence_scans_a_table(tables: sqlite3.Connection, name: str):
    steps = plan(tables, SEQUENCES[name])
    found = [step for step in scans(steps) if step != "SCAN s"]  # a limited number of rows
    assert not found, steps
    assert name in SORTING_A_FEW or not [step for step in steps if "TEMP B-TREE" in step], steps


@pytest.mark.parametrize("name", ["to_send", "to_send_again", "next_to_send", "outbox_of", "unsent_message"])
def test_a_page_of_what_is_to_be_sent_is_read_from_where_it_begins(tables: sqlite3.Connection, name: str):
    steps = plan(tables, DELIVERIES[name])
    assert not scans(steps), steps
    assert not [step for step in steps if "TEMP B-TREE" in step], steps
    if name == "to_send":
        assert "SEARCH o USING INTEGER PRIMARY KEY (rowid>?)" in steps
    if name == "to_send_again":
        assert any(["outbox_due (queue=? AND due>? AND due<?)" in step for step in steps]), steps


@pytest.mark.parametrize("name", sorted([name for name in OPERATIONS if name.endswith("_in_queue")]))
def test_a_page_of_a_queue_is_read_by_two_indexes_in_order(tables: sqlite3.Connection, name: str):
    steps = plan(tables, OPERATIONS[name])
    assert [step for step in scans(steps) if step != "SCAN s"] == [], steps  # a limited number of rows
    assert not [step for step in steps if "TEMP B-TREE" in step], steps
    found = [step for step in steps if step.startswith("SEARCH messages")]
    assert [step.partition("INDEX ")[2].split()[0] for step in found] == ["messages_visible", "messages_kept"]
    assert name.startswith("scan_end") == all(["COVERING" in step for step in found]), steps


def scans(steps: list[str]) -> list[str]:
    """Steps that read the whole of something other than the caller's own list."""
    ours = ("VIRTUAL TABLE", "CONSTANT ROW", "SCAN rows")  # parameters
    return [step for step in steps if step.startswith("SCAN") and not any([part in step for part in ours])]


def test_reads_cost_the_same_beside_a_hundred_times_as_many_messages(store: SqliteStore):
    """Retired messages of the same queue, key and value are the hardest: kept for audit, they must not be met again."""
    store.append([MESSAGE] * 5)
    store.append([new("echo", priority=None, timer=Timer(due=MORNING, target="t")) for _ in range(5)])
    reads: dict[str, Callable[[], object]] = {
        "queue": lambda: store.queue("q", store.snapshot()),
        "slice": lambda: store.slice("s", "k", store.snapshot()),
        "lookup": lambda: store.lookup("i", ["v", "w"], store.snapshot()),
        "slices": lambda: store.slices("s", ["k", "l"], store.snapshot()),
        "lookups": lambda: store.lookups("i", ["v", "w"], store.snapshot()),
        "find": lambda: store.find("i", ["v", "w"], store.snapshot()),
        "pending": lambda: store.pending(3),
        "due timers": lambda: store.due_timers(MORNING, 3),
        "next due": lambda: store.next_due(),
        "message": lambda: store.message(2),
        "caused by": lambda: store.caused_by(2),
        "stored": lambda: store.stored("q", 0, 3),
        "scan": lambda: store.scan(Scan(queue="q", rows_max=3)),
        "scan back": lambda: store.scan(Scan(queue="q", rows_max=3, backwards=True)),
        "visible": lambda: store.visible("q", 0, 3),
        "members": lambda: store.members("s", "k", 0, 3),
        "timers": lambda: store.timers((MORNING, 0), 3),
        "slice keys": lambda: store.slice_keys("s", "", 3),
        "counts": lambda: store.counts(),
    }
    before = {name: instructions(store, read) for name, read in reads.items()}
    retire(store, 500)
    after = {name: instructions(store, read) for name, read in reads.items()}
    assert all(cost < before[name] * 1.5 + 20 for name, cost in after.items()), (before, after)


def retire(store: SqliteStore, count: int) -> None:
    """Messages like the others came and went, in lifetimes of their own."""
    old = [MESSAGE] * 5
    first = store.slice("s", "k", store.snapshot())
    for _ in range(count // 5):
        created = store.append(old)
        store.commit([Step(processed=seq) for seq in created])
        store.commit([Step(resets=(("s", "k"),))])
    # The first five lost their slice as well: five new ones take their place.
    store.commit([Step(processed=message.seq) for message in first])
    assert store.queue("q", store.snapshot()) == []
    store.append(old)
    store.append([new("echo", priority=None, timer=Timer(due=FOREVER, target="t")) for _ in range(count)])
    others = [(("other", str(number)),) for number in range(count)]
    store.append([new("r", priority=-1, slices=other, entries=other) for other in others])


def instructions(store: SqliteStore, read: Callable[[], object]) -> int:
    """Steps of SQLite's virtual machine."""
    count = 0

    def tick() -> int:
        nonlocal count
        count += 1
        return 0

    connection = store._database._open()
    connection.set_progress_handler(tick, 1)
    read()
    connection.set_progress_handler(None, 1)
    return count
