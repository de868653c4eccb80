"""Damaged and shortened files: noticed when the store is opened or verified, or without any effect.

Nothing of what is stored is ever quoted. The seed is new in each run and printed.
"""

from __future__ import annotations

import random
import re
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from demaq.errors import StoreDamaged, StoreError
from demaq.store import SqliteStore
from demaq.store.backup import back_up
from demaq.store.location import place_of
from demaq.store.mark import MARK_NAME
from demaq.store.repair import accept_loss
from demaq.store.sqlite_database import FILE_NAME, LOG_NAME
from demaq.store.store_verification import verify_folder, verify_store
from tests.support.store.contract import new
from tests.support.store.damage import SECRET, copy_of, flip_bits, written_store

ALL = 1_000_000
ROUNDS = 12
TABLES = (
    "messages", "bodies", "slice_members", "index_entries", "requests", "outbox", "attempts", "answers", "collections",
    "collection_documents", "programs", "complete_indexes", "queue_counts", "replay_keys",
    "sequences WHERE direction = 'in'", "sequence_messages WHERE direction = 'in'",
)  # fmt: skip
"""What a copy has, too: it begins an epoch, which outgoing sequences do not survive."""


@pytest.fixture(scope="module")
def seed() -> int:
    chosen = random.SystemRandom().randrange(1 << 32)
    print(f"seed {chosen}")
    return chosen


@pytest.fixture(scope="module", params=["no", "half", "closed"])
def left(request: pytest.FixtureRequest, seed: int, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("left") / f"store-{request.param}"
    written_store(folder, seed, request.param)
    assert (folder / LOG_NAME).exists() == (request.param != "closed")
    return folder


@pytest.fixture(scope="module")
def closed(seed: int, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("closed") / "store"
    written_store(folder, seed, "closed")
    return folder


def contents(folder: Path) -> list[Any]:
    """Every row that the store has, read past all of our code."""
    connection = sqlite3.connect(folder / FILE_NAME)
    try:
        return [sorted(connection.execute(f"SELECT * FROM {table}").fetchall(), key=repr) for table in TABLES]
    finally:
        connection.close()


def problem_of(folder: Path) -> str | None:
    """What is said about a store when it is verified and opened; None where nothing is."""
    try:
        found = verify_store(folder).findings
        if found:
            return "; ".join([str(finding) for finding in found])
        SqliteStore(folder).close()
    except StoreError as error:
        return str(error)
    return None


@pytest.mark.parametrize("bits", [1, 8])
def test_flipped_bits_are_noticed_or_change_nothing(left: Path, seed: int, bits: int):
    chance = random.Random(seed + bits)
    expected = contents(copy_of(left, "intact"))
    noticed = 0
    files = [name for name in (FILE_NAME, LOG_NAME, LOG_NAME) if (left / name).exists()]
    for turn in range(ROUNDS):
        damaged = copy_of(left, "damaged")
        file = files[turn % len(files)]
        places = flip_bits(damaged / file, chance, bits)
        problem = problem_of(damaged)
        where = f"seed {seed}: {bits} bits of {file} in {left.name} at {places}"
        if problem is None:
            assert contents(damaged) == expected, where
        else:
            noticed += 1
            assert SECRET not in problem, where
            assert len(problem.splitlines()) == 1, f"{where}: {problem}"
    assert noticed, f"seed {seed}: none of {ROUNDS} damages was noticed"


def test_tables_that_are_not_described_in_utf_8_any_more_are_noticed(closed: Path):
    damaged = copy_of(closed, "described")
    file = damaged / FILE_NAME
    described = file.read_bytes()
    for found in re.finditer(rb"CREATE TABLE \w+", described):
        for place in range(found.start(), found.end()):
            file.write_bytes(described[:place] + b"\xa0" + described[place + 1 :])
            problem = problem_of(damaged)
            assert problem, f"byte {place}"
            assert len(problem.splitlines()) == 1
            with pytest.raises(StoreError):
                back_up(place_of(damaged), damaged.parent / "backup")


def test_an_undamaged_store_is_intact(left: Path):
    copy = copy_of(left, "untouched")
    report = verify_folder(copy)
    assert report.findings == []
    assert report.messages > 100
    assert report.without_checksum == 0


@pytest.mark.parametrize(
    ("table", "change"),
    [
        (
            "messages",
            "UPDATE messages SET processed = NULL WHERE seq = (SELECT max(seq) FROM messages WHERE processed)",
        ),
        ("messages", "UPDATE messages SET timer_due = timer_due + 1 WHERE timer_due IS NOT NULL"),
        ("messages", "UPDATE messages SET priority = 7 WHERE priority = 0"),
        ("messages", "DELETE FROM messages WHERE seq = (SELECT max(seq) FROM messages)"),
        ("bodies", "UPDATE bodies SET body = body || ' ' WHERE seq = (SELECT max(seq) FROM bodies)"),
        ("bodies", "UPDATE bodies SET properties = '{}' WHERE seq = (SELECT max(seq) FROM bodies)"),
        ("bodies", "DELETE FROM bodies WHERE seq = (SELECT max(seq) FROM bodies)"),
        ("members", "DELETE FROM slice_members WHERE seq = (SELECT max(seq) FROM slice_members)"),
        ("members", "UPDATE slice_members SET ended = ended + 1 WHERE ended > 0"),
        ("entries", "DELETE FROM index_entries WHERE seq = (SELECT max(seq) FROM index_entries)"),
        ("requests", "UPDATE requests SET request = request || 'x'"),
        ("requests", "UPDATE requests SET removed = removed + 1 WHERE removed IS NOT NULL"),
        ("outbox", "UPDATE outbox SET due = due + 1"),
        ("outbox", "DELETE FROM outbox"),
        ("attempts", "UPDATE attempts SET result = 'sent'"),
        ("answers", "UPDATE answers SET body = '<b/>'"),
        ("collection_documents", "UPDATE collection_documents SET body = '<b/>'"),
        ("programs", "UPDATE programs SET files = '{}'"),
        ("complete_indexes", "UPDATE complete_indexes SET name = 'i'"),
        ("epochs", "UPDATE epochs SET name = 'x'"),
        ("sequences", "UPDATE sequences SET content = '{}' WHERE name = 'in 3'"),
        ("sequences", "DELETE FROM sequences WHERE direction = 'out' AND name = 'out 3'"),
        ("sequence_messages", "UPDATE sequence_messages SET seq = seq + 1 WHERE number = 7"),
        ("replay_keys", "UPDATE replay_keys SET until = until - 1"),
        ("counts", "UPDATE queue_counts SET visible = visible + 1"),
        ("newest number", "UPDATE numbers SET newest = newest + 1"),
        ("tables", "DROP INDEX messages_pending"),
    ],
)
def test_a_changed_row_of_any_table_is_found(closed: Path, table: str, change: str):
    copy = copy_of(closed, "changed")
    connection = sqlite3.connect(copy / FILE_NAME, isolation_level=None)
    before = connection.total_changes
    connection.execute(change)
    assert connection.total_changes > before or change.startswith("DROP")
    connection.close()
    assert problem_of(copy), table


def test_a_damaged_body_is_never_given_out(left: Path):
    copy = copy_of(left, "changed")
    connection = sqlite3.connect(copy / FILE_NAME, isolation_level=None)
    [seq] = connection.execute("SELECT max(seq) FROM bodies").fetchone()
    connection.execute("UPDATE bodies SET body = CAST(x'3C6DFF3E' || body AS TEXT) WHERE seq = ?", [seq])
    connection.close()
    reader = SqliteStore.open_readonly(copy)
    for read in (lambda: reader.message(seq), lambda: reader.stored(None, 0, ALL)):
        with pytest.raises(StoreDamaged, match=r"damaged|not what was") as refusal:
            read()
        assert SECRET not in str(refusal.value)
        assert "Traceback" not in str(refusal.value)
    reader.close()


# a log that was cut


def test_a_store_without_the_end_of_its_log_is_refused_until_the_loss_is_accepted(tmp_path: Path, seed: int):
    folder = tmp_path / "store"
    newest = written_store(folder, seed, "no")
    log = (folder / LOG_NAME).read_bytes()
    cut = log[: len(log) * 2 // 3]
    (folder / LOG_NAME).write_bytes(cut)
    for _ in range(2):
        with pytest.raises(
            StoreDamaged, match=rf"acknowledged are missing, with the numbers [\d,]+ to {newest:,}\."
        ) as no:
            SqliteStore(folder)
    for word in ("Restore a backup", "demaq verify --accept-loss", "would be processed again", "Nothing was changed"):
        assert word in str(no.value)
    assert (folder / LOG_NAME).read_bytes() == cut
    assert verify_store(folder).findings

    identity = SqliteStore.open_readonly(folder).identity()
    said = list(accept_loss(folder))
    assert said[0].startswith("went back by ")
    lines: list[str] = []
    store = SqliteStore(folder, tell=lines.append)
    assert "begins a new epoch" in lines[0]
    [seq] = store.append([new()])
    assert seq <= newest  # a number that was given out before, under another name now
    assert store.epochs().epoch_name(seq) != identity
    assert store.epochs().epoch_name(seq - 1) == identity
    store.close()
    lines.clear()
    SqliteStore(folder, tell=lines.append).close()
    assert lines == []


def test_a_log_that_is_missing_altogether_is_noticed(tmp_path: Path, seed: int):
    written_store(tmp_path / "store", seed, "half")
    (tmp_path / "store" / LOG_NAME).unlink()
    with pytest.raises(StoreDamaged, match="has lost its newest commits"):
        SqliteStore(tmp_path / "store")


def test_an_older_database_put_in_the_place_of_a_newer_one_is_noticed(tmp_path: Path):
    store = SqliteStore(tmp_path / "store")
    store.append([new()])
    store.close()
    older = (tmp_path / "store" / FILE_NAME).read_bytes()
    store = SqliteStore(tmp_path / "store")
    store.append([new()])
    store.close()
    (tmp_path / "store" / FILE_NAME).write_bytes(older)
    with pytest.raises(StoreDamaged, match="1 that were acknowledged are missing, with the numbers 2 to 2"):
        SqliteStore(tmp_path / "store")


def test_a_damaged_log_is_set_aside_if_the_database_has_everything(tmp_path: Path):
    store = SqliteStore(tmp_path / "store")
    for _ in range(20):
        store.append([new()])
    store._database.rows("PRAGMA wal_checkpoint(PASSIVE)")
    copy = tmp_path / "copy"
    shutil.copytree(tmp_path / "store", copy)
    store.close()
    log = bytearray((copy / LOG_NAME).read_bytes())
    log[len(log) // 2] ^= 1
    (copy / LOG_NAME).write_bytes(log)
    with pytest.raises(StoreDamaged, match="its database has everything: nothing is lost"):
        SqliteStore(copy)
    list(accept_loss(copy))
    store = SqliteStore(copy)
    assert store.snapshot() == 20
    assert len(store.stored(None, 0, 99)) == 20
    store.close()


def test_what_took_no_number_is_missed_as_well(tmp_path: Path):
    store = SqliteStore(tmp_path / "store")
    store.append([new()])
    before = (tmp_path / "store" / LOG_NAME).read_bytes()
    store.load_collection("c", ["<a/>"])
    copy = copy_of(tmp_path / "store", "copy")
    store.close()
    (copy / LOG_NAME).write_bytes(before)
    with pytest.raises(StoreDamaged, match="1 that were acknowledged are missing, which took no numbers"):
        SqliteStore(copy)


# damage that is accepted


def test_a_store_works_without_the_messages_that_are_damaged(left: Path):
    copy = copy_of(left, "changed")
    connection = sqlite3.connect(copy / FILE_NAME, isolation_level=None)
    seqs = [seq for (seq,) in connection.execute("SELECT seq FROM bodies ORDER BY seq LIMIT 3 OFFSET 5")]
    for seq in seqs:
        connection.execute("UPDATE bodies SET body = '<other/>' WHERE seq = ?", [seq])
    connection.execute("UPDATE outbox SET attempts = 99")
    connection.execute("DELETE FROM slice_members WHERE seq > 100")
    connection.close()
    (copy / MARK_NAME).unlink()
    with pytest.raises(StoreDamaged, match=r"is damaged.*demaq verify"):
        SqliteStore(copy)
    said = list(accept_loss(copy))
    assert said == [line for line in said if SECRET not in line]
    assert said[-1].startswith("removed 3 damaged messages and ")
    assert verify_store(copy).findings == []
    store = SqliteStore(copy)
    assert not {message.seq for message in store.stored(None, 0, ALL)} & set(seqs)
    assert store.sendings()
    store.close()


def test_a_store_works_without_the_sequences_that_are_damaged(left: Path):
    copy = copy_of(left, "changed")
    connection = sqlite3.connect(copy / FILE_NAME, isolation_level=None)
    connection.execute("UPDATE sequences SET content = '{}' WHERE name IN ('in 1', 'out 1')")
    connection.execute("UPDATE sequence_messages SET held = NULL WHERE sequence = 'in 2' AND number = 3")
    messages = connection.execute(
        "SELECT count(*) FROM sequence_messages WHERE sequence IN ('in 1', 'out 1')"
    ).fetchone()
    connection.execute("UPDATE replay_keys SET until = 0 WHERE key LIKE '%5'")
    [keys] = connection.execute("SELECT count(*) FROM replay_keys WHERE until = 0").fetchone()
    assert keys == 3
    connection.close()
    said = list(accept_loss(copy))
    assert said[-1] == f"removed 0 damaged messages and {2 + messages[0] + 1 + keys:,} other rows"
    assert verify_store(copy).findings == []
    with closing(SqliteStore(copy)) as store:  # begins an epoch, in which the outgoing sequences are gone
        assert [each.name for each in store.sequences()] == [f"in {n}" for n in range(7) if n != 1]
        assert [each.number for each in store.sequence_messages("in", "in 2")] == [10, 17, 24]
        assert store.sequence_messages("in", "in 1") == []
        assert len(store.sequence_messages("in", "in 3")) == 4


def test_accepting_no_loss_changes_nothing(tmp_path: Path):
    SqliteStore(tmp_path / "store").close()
    mark = (tmp_path / "store" / MARK_NAME).read_bytes()
    assert list(accept_loss(tmp_path / "store")) == ["nothing is lost"]
    assert (tmp_path / "store" / MARK_NAME).read_bytes() == mark
    with pytest.raises(StoreError, match="there is no store"):
        list(accept_loss(tmp_path))


# copies


def test_a_copy_of_a_store_begins_an_epoch_and_the_store_itself_does_not(tmp_path: Path):
    store = SqliteStore(tmp_path / "store")
    store.append([new("out", undelivered=True)])
    identity = store.identity()
    store.close()
    copy = copy_of(tmp_path / "store", "copy")
    lines: list[str] = []
    store, other = SqliteStore(tmp_path / "store", tell=lines.append), SqliteStore(copy)
    assert lines == []
    assert [store.append([new()]), other.append([new()])] == [[2], [2]]
    assert store.epochs().message_name(1) == other.epochs().message_name(1)  # the same message, sent by both
    assert store.epochs().message_name(2) == f"{identity}/2" != other.epochs().message_name(2)
    store.close()
    other.close()


def test_a_store_that_was_moved_works(tmp_path: Path):
    store = SqliteStore(tmp_path / "store")
    identity = store.identity()
    store.append([new()])
    store.close()
    (tmp_path / "store").rename(tmp_path / "moved")
    store = SqliteStore(tmp_path / "moved")
    assert store.identity() == identity
    store.close()


def test_files_brought_back_in_their_place_begin_an_epoch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("demaq.store.mark.TIME_SLACK_SECONDS", 0)
    store = SqliteStore(tmp_path / "store")
    store.append([new()])
    identity = store.identity()
    store.close()
    kept = {file.name: file.read_bytes() for file in (tmp_path / "store").iterdir()}
    store = SqliteStore(tmp_path / "store")
    store.append([new()])
    store.close()
    for name, data in kept.items():
        (tmp_path / "store" / name).write_bytes(data)  # the same inodes
    store = SqliteStore(tmp_path / "store")
    assert store.append([new()]) == [2]
    assert store.identity() != identity
    store.close()


@pytest.mark.parametrize("state", ["missing", "damaged"])
def test_a_store_without_a_mark_is_verified_and_begins_an_epoch(tmp_path: Path, state: str):
    store = SqliteStore(tmp_path / "store")
    store.append([new()])
    identity = store.identity()
    store.close()
    if state == "missing":
        (tmp_path / "store" / MARK_NAME).unlink()
    else:
        flip_bits(tmp_path / "store" / MARK_NAME, random.Random(), 1)
    lines: list[str] = []
    store = SqliteStore(tmp_path / "store", tell=lines.append)
    assert f"its {MARK_NAME} is {state}" in lines[0]
    assert store.identity() != identity
    store.close()


def test_a_store_from_before_marks_keeps_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    from demaq.store.sql_statements import load_script

    (tmp_path / "store").mkdir()
    connection = sqlite3.connect(tmp_path / "store" / FILE_NAME, isolation_level=None)
    for number in (1, 2, 3):
        for statement in load_script(f"sqlite/version_{number}.sql"):
            connection.execute(statement)
    connection.execute(
        "INSERT INTO messages (seq, queue, created, origin, hops, transient, undelivered) VALUES (1, 'q', 0, 1, 0, 0, 0)"
    )
    connection.execute("INSERT INTO bodies (seq, body, properties) VALUES (1, '<a/>', '{}')")
    connection.execute("INSERT INTO queue_counts VALUES ('q', 1, 1)")
    connection.execute("UPDATE numbers SET newest = 1")
    [identity] = connection.execute("SELECT name FROM identity").fetchone()
    connection.close()
    lines: list[str] = []
    for _ in range(2):
        store = SqliteStore(tmp_path / "store", tell=lines.append)
        assert store.identity() == identity
        store.append([new()])
        store.close()
    assert [line for line in lines if "epoch" in line] == []
    report = verify_store(tmp_path / "store")
    assert report.findings == []
    assert report.without_checksum == 2
