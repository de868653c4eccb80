"""Opening a store on a server: who holds it, who waits for it, how old it is, and who may only read."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psycopg
import pytest

from demaq.errors import StoreError, StoreTakenOver
from demaq.store import postgresql_database
from demaq.store.opening import open_store, open_store_readonly
from demaq.store.postgresql import PostgresqlStore
from demaq.store.protocol import Step
from demaq.store.sqlite import SqliteStore
from tests.support.store.contract import FOREVER, MORNING, new, next_program, seqs
from tests.support.store.server import Server

PROJECT = Path(__file__).parents[2]
TAKE_OVER_SECONDS_MAX = 30
HOLD = """
import sys
from demaq.store.postgresql import PostgresqlStore
store = PostgresqlStore(sys.argv[1])
print("open", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def schema(server: Server) -> str:
    return server.new_schema()


@pytest.fixture
def address(server: Server, schema: str) -> str:
    return server.address(schema)


def python(code: str, *arguments: str) -> subprocess.Popen[str]:
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, cwd=PROJECT)


def backend(store: PostgresqlStore) -> int:
    """The server's process for the connection of a store."""
    [(pid,)] = store._database.rows("SELECT pg_backend_pid()")
    return int(pid)


# one writer


def test_a_second_writer_is_refused_and_the_error_names_the_first(address: str):
    with python(HOLD, address) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "open\n"
        with pytest.raises(StoreError, match=f"is held by demaq, process {holder.pid} on .* from this machine"):
            PostgresqlStore(address)
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        PostgresqlStore(address, wait=True).close()


def test_a_second_writer_in_the_same_process_is_refused_too(address: str):
    store = PostgresqlStore(address)
    with pytest.raises(StoreError, match=f"is held by demaq, process {os.getpid()} on"):
        PostgresqlStore(address)
    store.close()
    PostgresqlStore(address).close()


def test_stores_in_other_schemas_have_writers_of_their_own(server: Server, address: str):
    store, other = PostgresqlStore(address), PostgresqlStore(server.address(server.new_schema()))
    assert store.append([new()]) == other.append([new()]) == [1]
    store.close()
    other.close()


def test_a_standby_takes_over_when_the_writer_is_killed(address: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(postgresql_database, "STANDBY_SECONDS", 0.05)
    taken_over = []
    standby = threading.Thread(target=lambda: taken_over.append(PostgresqlStore(address, wait=True)))
    code = HOLD.replace(
        "print", "from tests.support.store.contract import new; store.append([new(), new(transient=True)]); print"
    )
    with python(code, address) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "open\n"
        standby.start()
        standby.join(0.3)
        assert standby.is_alive()
        writer.kill()
    standby.join(TAKE_OVER_SECONDS_MAX)
    [store] = taken_over
    assert seqs(store.stored(None, 0, 9)) == [1]  # the transient message went with its writer
    assert store.commit([Step(processed=1)])[0].retired == (1,)
    store.close()


def test_a_forked_child_does_not_hold_the_store_after_its_parent(address: str):
    code = """
import os, sys, time
from demaq.store.postgresql import PostgresqlStore
store = PostgresqlStore(sys.argv[1])
if os.fork() == 0:
    print(os.getpid(), flush=True)
    os.close(0), os.close(1), os.close(2)
    time.sleep(60)
sys.stdin.read()
"""
    with python(code, address) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        parent.kill()
        parent.wait()
        try:
            opened: list[PostgresqlStore] = []
            standby = threading.Thread(target=lambda: opened.append(PostgresqlStore(address, wait=True)), daemon=True)
            standby.start()
            standby.join(TAKE_OVER_SECONDS_MAX)
            opened[0].close()
        finally:
            os.kill(child, signal.SIGKILL)


# lost connections


def test_a_lost_connection_is_an_error_and_the_next_call_works(server: Server, address: str):
    store = PostgresqlStore(address)
    store.append([new(), new(transient=True)])
    server.run(f"SELECT pg_terminate_backend({backend(store)}, 5000)")
    with pytest.raises(StoreError, match="connection was lost; what was asked may not have been stored"):
        store.append([new()])
    assert store.append([new()]) == [3]
    assert seqs(store.stored(None, 0, 9)) == [1, 2, 3]  # its process lives on, and so do transient messages
    with pytest.raises(StoreError, match="is held by"):
        PostgresqlStore(address)
    store.close()


def test_a_connection_lost_within_a_transaction_keeps_nothing_of_it(server: Server, address: str):
    store = PostgresqlStore(address)
    store.append([new()])
    pid = backend(store)

    def lose_it_half_way() -> None:
        with store._database.transaction():
            store._database.execute("UPDATE messages SET queue = 'other'")
            store._database.rows("SELECT 1")
            server.run(f"SELECT pg_terminate_backend({pid}, 5000)")
            store._database.execute("UPDATE messages SET queue = 'another'")

    with pytest.raises(StoreError, match="connection was lost"):
        lose_it_half_way()
    assert [message.queue for message in store.stored(None, 0, 9)] == ["orders"]
    store.close()


def test_the_store_works_after_the_server_was_started_again(server: Server, address: str):
    store, reader = PostgresqlStore(address), PostgresqlStore.open_readonly(address)
    store.append([new()])
    server.stop("immediate")
    try:
        with pytest.raises(StoreError, match="connection was lost"):
            store.append([new()])
        with pytest.raises(StoreError, match="cannot be reached"):
            store.append([new()])
    finally:
        server.start()
    assert store.append([new()]) == [2]
    with pytest.raises(StoreError, match="connection was lost"):
        reader.snapshot()
    assert reader.snapshot() == 2
    store.close()
    reader.close()


@pytest.mark.parametrize("meanwhile", ["still there", "gone again"])
def test_a_writer_that_was_replaced_does_not_go_on(server: Server, address: str, meanwhile: str):
    store = PostgresqlStore(address)
    store.append([new()])
    server.run(f"SELECT pg_terminate_backend({backend(store)}, 5000)")
    other = PostgresqlStore(address)
    other.commit([Step(processed=1)])
    if meanwhile == "gone again":
        other.close()
    with pytest.raises(StoreError, match="connection was lost"):
        store.append([new()])
    for _ in range(2):
        with pytest.raises(StoreError, match="another writer has taken over the store"):
            store.append([new()])
    store.close()
    other.close()


def test_a_writer_that_lost_its_lock_but_not_its_connection_commits_nothing(address: str):
    store = PostgresqlStore(address)
    store.append([new()])
    store._database.rows("SELECT pg_advisory_unlock_all()")  # as a pool does that shares connections
    other = PostgresqlStore(address)
    for _ in range(2):
        with pytest.raises(StoreTakenOver, match="another writer has taken over the store"):
            store.append([new() for _ in range(postgresql_database.COPY_ROWS_MIN)])
        with pytest.raises(StoreTakenOver):
            store.commit([Step(processed=1)])
    assert other.counts() == {"orders": (1, 1)}
    store.close()
    other.close()


def test_a_standby_waits_through_the_end_and_the_start_of_the_server(
    server: Server, address: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(postgresql_database, "STANDBY_SECONDS", 0.05)
    store = PostgresqlStore(address)
    opened: list[PostgresqlStore] = []
    said: list[str] = []

    def stand_by() -> None:
        opened.append(PostgresqlStore(address, wait=True, tell=said.append))

    standby = threading.Thread(target=stand_by, daemon=True)
    standby.start()
    while not said:
        time.sleep(0.01)
    server.stop("immediate")
    store.close()
    while len(said) < 2:
        time.sleep(0.01)
    server.start()
    standby.join(TAKE_OVER_SECONDS_MAX)
    assert opened[0].append([new()]) == [1]
    assert f"is held by demaq, process {os.getpid()}" in said[0]
    opened[0].close()


def test_a_statement_that_fails_is_an_error_of_one_line_and_the_store_works(address: str):
    store = PostgresqlStore(address)
    with pytest.raises(StoreError, match="PostgreSQL says: ") as caught:
        store.append([new(), new(properties={}, body="nul: \0")])
    assert "\n" not in str(caught.value)
    with pytest.raises(StoreError, match=r"PostgreSQL says: .*nonsense"), store._database.transaction():
        store._database.execute("SELECT nonsense")
    with pytest.raises(StoreError, match="PostgreSQL says"):
        store.append([new(body="nul: \0") for _ in range(postgresql_database.COPY_ROWS_MIN)])
    assert store.append([new()]) == [1]
    assert store.counts() == {"orders": (1, 1)}
    store.close()


def test_an_interrupted_transaction_leaves_the_store_usable(address: str):
    store = PostgresqlStore(address)

    def interrupt(statements: Sequence[str]) -> None:
        with store._database.transaction():
            for statement in statements:
                store._database.rows(statement)
            raise KeyboardInterrupt

    for statements in ([], ["SELECT 1"]):
        with pytest.raises(KeyboardInterrupt):
            interrupt(statements)
    assert store.append([new()]) == [1]
    store.close()


# addresses


def test_no_error_tells_a_password(server: Server, schema: str, address: str):
    secret = "s3cr:t"
    for bad in (
        f"postgresql://me:{secret}@/nowhere?host=%2Fnowhere",
        f"postgresql://me:{secret}@localhost:port/x",
        f"postgresql://me@/x?host=%2Fnowhere&password={secret}&sslmode={secret}",
        server.address(schema, password=secret, dbname="not_there"),
    ):
        with pytest.raises(StoreError) as caught:
            PostgresqlStore(bad)
        assert secret not in str(caught.value)
        assert "\n" not in str(caught.value)
    store = PostgresqlStore(server.address(schema, password=secret))
    with pytest.raises(StoreError) as caught, store._database.transaction():
        store._database.execute(f"SELECT '{secret}'::bigint")
    assert secret not in str(caught.value)
    store.close()


def test_a_store_is_opened_by_where_it_is(address: str, tmp_path: Path):
    for where, kind in ((address, PostgresqlStore), (tmp_path / "a", SqliteStore), (str(tmp_path / "b"), SqliteStore)):
        store = open_store(where)
        assert isinstance(store, kind)
        store.append([new()])
        store.close()
        reader = open_store_readonly(where)
        assert isinstance(reader, kind)
        assert reader.snapshot() == 1
        reader.close()


# what survives


def test_everything_is_there_after_reopening_but_transient_messages(address: str):
    store = PostgresqlStore(address)
    slices = (("order", "1"),)
    store.append([new(slices=slices), new("t", transient=True, slices=slices, entries=(("i", "v"),), request="r")])
    store.append([new("t", transient=True), new("t", transient=True, undelivered=True)])
    store.commit([Step(processed=3), Step(processed=1, created=(new("t", transient=True, trigger=1),))])
    kept = store.message(1)
    newest = store.snapshot()
    store.close()

    store = PostgresqlStore(address)
    assert store.stored(None, 0, 99) == [kept]
    assert seqs(store.slice("order", "1", newest)) == [1]
    assert store.lookup("i", ["v"], newest) == []
    assert store.counts() == {"orders": (1, 0)}
    assert store._database.rows("SELECT seq FROM slice_members UNION ALL SELECT seq FROM index_entries") == [(1,)]
    assert store.append([new(request="r")]) == [newest + 1]
    store.close()


def test_keys_values_and_requests_may_be_long_and_come_by_code_point(address: str):
    store = PostgresqlStore(address)
    long = "\U0001f600ü" * 5_000
    keys = ["", "B", "a", "ä", "\ufffd", "\U0001f600", long + "1", long + "2"]
    store.append([new(slices=(("s", key),), entries=(("i", key),), request=key) for key in reversed(keys)])
    assert [key for key, _ in store.slice_keys("s", None, 99)] == sorted(keys) == keys
    assert [key for key, _ in store.slice_keys("s", long + "1", 99)] == [long + "2"]
    assert seqs(store.slice("s", long + "2", 99)) == seqs(store.lookup("i", [long + "2"], 99)) == [1]
    assert store.append([new(request=long + "1")]) == [2]
    store.commit([Step(resets=(("s", long + "1"),))])
    assert [key for key, _ in store.slice_keys("s", "\ufffd", 99)] == ["\U0001f600", long + "2"]
    store.close()


def test_few_messages_and_many_are_stored_alike(address: str):
    store = PostgresqlStore(address)
    body = '<a>tab \t, line\n, back\\slash \\N \\. , quote " and { } , \U0001f600</a>'
    fields: dict[str, Any] = {"slices": (("s", body),), "entries": (("i", body),), "rule": "\\N", "request": body}
    few = store.append([new(body=body, **fields)])
    many = store.append([new(body=body, **{**fields, "request": None}) for _ in range(100)])
    assert len({(message.body, message.rule, message.slices) for message in store.messages(few + many)}) == 1
    assert len(store.slice("s", body, 999)) == len(store.lookup("i", [body], 999)) == 101
    store.close()


# versions


def test_an_older_store_is_brought_up_to_date(address: str, monkeypatch: pytest.MonkeyPatch):
    store = PostgresqlStore(address)
    store.append([new()])
    store.close()
    migration = ["ALTER TABLE messages ADD COLUMN colour text DEFAULT 'red';"]
    monkeypatch.setattr(postgresql_database, "MIGRATIONS", (*postgresql_database.MIGRATIONS, "next.sql"))
    monkeypatch.setattr(postgresql_database, "load_script", {"next.sql": migration}.__getitem__)
    with pytest.raises(StoreError, match="older Demaq"):
        PostgresqlStore.open_readonly(address)
    store = PostgresqlStore(address)
    assert store._database.rows("SELECT colour FROM messages") == [("red",)]
    assert store._database.rows("SELECT version FROM demaq_store") == [(len(postgresql_database.MIGRATIONS),)]
    store.close()


def test_a_migration_that_fails_leaves_the_store_as_it_was(address: str, monkeypatch: pytest.MonkeyPatch):
    PostgresqlStore(address).close()
    migration = ["ALTER TABLE messages ADD COLUMN colour text;", "SELECT nonsense;"]
    with monkeypatch.context() as patch:
        patch.setattr(postgresql_database, "MIGRATIONS", (*postgresql_database.MIGRATIONS, "next.sql"))
        patch.setattr(postgresql_database, "load_script", {"next.sql": migration}.__getitem__)
        with pytest.raises(StoreError, match="nonsense"):
            PostgresqlStore(address)
    store = PostgresqlStore(address)
    assert store.append([new()]) == [1]
    store.close()


def test_a_store_of_a_newer_demaq_is_refused(server: Server, schema: str, address: str):
    PostgresqlStore(address).close()
    server.run(f"UPDATE {schema}.demaq_store SET version = version + 1")
    for opening in (PostgresqlStore, PostgresqlStore.open_readonly):
        for _ in range(2):
            with pytest.raises(StoreError, match="made by a newer Demaq"):
                opening(address)


def test_tables_of_other_programs_are_not_touched(server: Server, schema: str, address: str):
    server.run(f"CREATE TABLE {schema}.messages (text text)")
    with pytest.raises(StoreError, match='"messages" already exists'):
        PostgresqlStore(address)
    assert server.run(f"SELECT count(*) FROM pg_tables WHERE schemaname = '{schema}'") == [(1,)]


def test_a_database_that_cannot_hold_every_text_is_refused(server: Server):
    server.run("CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0")
    with pytest.raises(StoreError, match="a database in LATIN1; a store must be in UTF8"):
        PostgresqlStore(server.address("public", dbname="latin"))


def test_commits_are_durable_whatever_the_default_is(server: Server, schema: str):
    store = PostgresqlStore(server.address(schema, options=f"-csearch_path={schema} -csynchronous_commit=off"))
    assert store._database.rows("SHOW synchronous_commit") == [("on",)]
    store.close()


# readers


def test_a_reader_is_refused_where_there_is_no_store(address: str):
    with pytest.raises(StoreError, match="there is no store in"):
        PostgresqlStore.open_readonly(address)


def test_a_reader_reads_beside_the_writer_and_writes_nothing(address: str):
    store = PostgresqlStore(address)
    store.append([new(slices=(("s", "k"),)), new(transient=True)])
    store.load_collection("c", ["<a/>"])
    reader = PostgresqlStore.open_readonly(address)
    assert seqs(reader.slice("s", "k", reader.snapshot())) == [1]
    assert seqs(reader.stored(None, 0, 9)) == [1, 2]
    assert reader.collection("c") == (1, ["<a/>"])
    for write in (
        lambda: reader.append([new()]),
        lambda: reader.commit([Step()]),
        lambda: reader.postpone([]),
        lambda: reader.send_again([1], MORNING),
        lambda: reader.note_migrated("d", [], 0),
        lambda: reader.load_collection("c", []),
        lambda: reader.activate(next_program(), MORNING),
        lambda: reader.collect_garbage(FOREVER, 1),
    ):
        with pytest.raises(StoreError, match="for reading only"):
            write()
    with pytest.raises(StoreError, match="read-only transaction"):
        reader._database.rows("UPDATE numbers SET newest = 9 RETURNING newest")
    store.close()
    reader.close()


def test_a_reader_beside_a_writer_sees_whole_commits_at_once(address: str):
    store = PostgresqlStore(address)
    store.append([new() for _ in range(200)])
    reader = PostgresqlStore.open_readonly(address)

    def write() -> None:
        for start in range(1, 201, 10):
            store.commit([Step(processed=seq, created=(new("done"), new("done"))) for seq in range(start, start + 10)])

    writer = threading.Thread(target=write)
    writer.start()
    seen = []
    while writer.is_alive():
        counts = reader.counts()
        seen.append((counts.get("orders", (0, 0))[0], counts.get("done", (0, 0))[0]))
    writer.join()
    assert all(orders % 10 == 0 and done == 2 * (200 - orders) for orders, done in seen)
    assert reader.counts() == {"done": (400, 400)}
    reader.close()
    store.close()


def test_closing_twice_does_no_harm_and_a_closed_store_says_so(address: str):
    store = PostgresqlStore(address)
    store.close()
    store.close()
    with pytest.raises(StoreError, match="is closed"):
        store.append([new()])
    with pytest.raises(StoreError, match="is closed"):
        store.snapshot()


def test_the_operators_own_settings_of_a_connection_hold(server: Server, schema: str):
    store = PostgresqlStore(server.address(schema, application_name="accounts"))
    with psycopg.connect(server.address(schema)) as connection:
        [(count,)] = connection.execute("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'accounts'")
        assert count == 1
    store.close()
