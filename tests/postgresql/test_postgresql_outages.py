"""A node under load whose database goes away in every way a database does: nothing is lost, and it goes on by itself.

New faults in another order every time; a failure prints the seed.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import psycopg
import pytest

import demaq
from demaq.errors import StoreError
from demaq.evaluation.round_request import RoundRequest
from demaq.server.node import Node
from demaq.store.postgresql import PostgresqlStore
from demaq.store.postgresql_database import ServerDatabase
from tests.support.gateways.client import NO_ANSWER, Client
from tests.support.gateways.peers import Answer, Got, other_side
from tests.support.gateways.processes import free_ports
from tests.support.store.server import Server

APPLICATION = """
create queue orders kind incomingGateway
create queue work
create queue parcels kind mailbox
create queue ship kind outgoingGateway endpoint "ADDRESS/ship"
create property number as xs:string queue work value /*/@id
create slicing byNumber on number
create rule take for orders if (/order) then do enqueue <job id="{/order/@id}"/> into work
create rule done for byNumber
  if (qs:slice()/job) then (do enqueue <parcel id="{/job/@id}"/> into parcels,
                             do enqueue <go id="{/job/@id}"/> into ship, do reset)
"""
SENDERS = 3
START_SECONDS_MAX = 60.0
AWAY_SECONDS = (0.5, 2.0)
BETWEEN_SECONDS = (0.3, 1.5)
REST_SECONDS_MAX = 60.0
"""How long after the last fault everything must be processed and sent, on a busy machine."""


class Faults:
    """What befalls a server; each method returns when it is over."""

    def __init__(self, server: Server, schema: str, chance: random.Random) -> None:
        self._server = server
        self._schema = schema
        self._chance = chance

    def restart(self) -> None:
        self._server.stop("fast")
        self._wait()
        self._server.start()

    def crash(self) -> None:
        self._server.stop("immediate")
        self._wait()
        self._server.start()

    def cut_connections(self) -> None:
        for _ in range(self._chance.randint(1, 5)):
            self._server.run(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'demaq%'"
            )
            time.sleep(self._chance.uniform(0.0, 0.2))

    def freeze(self) -> None:
        postmaster = int((self._server.folder / "data" / "postmaster.pid").read_text().split()[0])
        children = Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text().split()
        stopped = [postmaster, *[int(child) for child in children]]
        for pid in stopped:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
        self._wait()
        for pid in stopped:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    def read_only(self) -> None:
        self._set("default_transaction_read_only", "on")

    def no_time(self) -> None:
        self._set("statement_timeout", "1ms")

    def lock_tables(self) -> None:
        with psycopg.connect(self._server.address(self._schema)) as connection:
            for table in ("messages", "outbox"):
                connection.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE")
            self._wait()
            connection.rollback()

    def _wait(self) -> None:
        time.sleep(self._chance.uniform(*AWAY_SECONDS))

    def _set(self, name: str, value: str) -> None:
        """For all clients, until it is over."""
        address = self._server.address("public", options=f"-c {name}=0")
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute(f"ALTER SYSTEM SET {name} = '{value}'")
            connection.execute("SELECT pg_reload_conf()")
            self._wait()
            connection.execute(f"ALTER SYSTEM RESET {name}")
            connection.execute("SELECT pg_reload_conf()")


class Senders:
    """Send orders under names of their own, again where no answer came."""

    def __init__(self, address: str) -> None:
        self.acknowledged: set[str] = set()
        self._address = address
        self._stopping = threading.Event()
        self._threads = [threading.Thread(target=self._send, args=(f"s{n}",)) for n in range(SENDERS)]

    def __enter__(self) -> Senders:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join()

    def _send(self, name: str) -> None:
        number = 0
        client = Client(self._address, START_SECONDS_MAX)
        while not self._stopping.is_set():
            order = f"{name}-{number}"
            headers = {"Content-Type": "application/xml", "Idempotency-Key": order}
            with suppress(*NO_ANSWER):
                answer = client.post("/orders", f'<order id="{order}"/>', headers)
                assert answer.status_code in (202, 503), answer.text
                if answer.status_code == 202:
                    self.acknowledged.add(order)
                    number += 1
                    continue
            time.sleep(0.1)


@contextmanager
def running(folder: Path, store: str, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """`demaq run`, which writes what it has to say into the file `log`."""
    with (folder / "log").open("wb") as log:
        node = subprocess.Popen(
            [sys.executable, "-m", "demaq.cli", "run", "app.dmq", "--store", store, "--http", f"127.0.0.1:{port}"],
            cwd=folder,
            env={
                **os.environ,
                "PYTHONPATH": str(Path(demaq.__file__).parents[1]),
                "XDG_STATE_HOME": str(folder / "state"),
            },
            stderr=log,
        )
    try:
        yield node
    finally:
        node.kill()
        node.wait()


@pytest.mark.slow
def test_a_node_continues_by_itself_after_every_kind_of_outage(server: Server, tmp_path: Path):
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    shipped: list[bytes] = []

    def receive(got: Got) -> Answer:
        shipped.append(got.body)
        return 202, {}, b""

    schema = server.new_schema()
    faults = Faults(server, schema, chance)
    kinds: list[Callable[[], None]] = [
        faults.restart, faults.crash, faults.cut_connections, faults.freeze,
        faults.read_only, faults.no_time, faults.lock_tables,
    ]  # fmt: skip
    chance.shuffle(kinds)
    [port] = free_ports(1)
    address, store = f"http://127.0.0.1:{port}", server.address(schema)
    with other_side(receive) as sink, running(_folder(tmp_path, sink.address), store, port) as node:
        _wait_until(lambda: _is_ready(address), node, START_SECONDS_MAX)
        with Senders(address) as senders:
            for fault in kinds:
                time.sleep(chance.uniform(*BETWEEN_SECONDS))
                fault()
            known = len(senders.acknowledged)
            _wait_until(lambda: len(senders.acknowledged) > known, node, REST_SECONDS_MAX)
        _wait_until(lambda: not _waiting(store), node, REST_SECONDS_MAX)
        assert _is_ready(address)
    with closing(PostgresqlStore.open_readonly(store)) as reader:
        parcels = [message.body for message in reader.stored("parcels", 0, 1_000_000)]
        assert not reader.stored("demaq:errors", 0, 10), "no message was to blame"
    assert sorted(parcels) == sorted([f'<parcel id="{order}"/>' for order in senders.acknowledged])
    assert set(shipped) == {f'<go id="{order}"/>'.encode() for order in senders.acknowledged}
    said = (tmp_path / "log").read_text().splitlines()
    outages = [line for line in said if "running on" not in line and "listening on" not in line]
    assert outages
    assert len(outages) <= 2 * len(kinds), outages


def _folder(folder: Path, sink: str) -> Path:
    (folder / "app.dmq").write_text(APPLICATION.replace("ADDRESS", sink))
    return folder


def _is_ready(address: str) -> bool:
    with suppress(*NO_ANSWER):
        return Client(address, timeout=5).get("/readyz").status_code == 200
    return False


def _waiting(store: str) -> bool:
    with closing(PostgresqlStore.open_readonly(store)) as reader:
        return bool(reader.pending(1) or reader.sendings())


def _wait_until(holds: Callable[[], bool], node: subprocess.Popen[bytes], seconds: float) -> None:
    until = time.monotonic() + seconds
    while not holds():
        assert node.poll() is None, "the node has ended"
        assert time.monotonic() < until, "it did not happen in time"
        time.sleep(0.1)


def test_a_locked_table_is_no_fault_of_a_rule(server: Server, tmp_path: Path):
    (tmp_path / "app.dmq").write_text(
        "create queue a create queue b create rule r for a if (/m) then do enqueue <n/> into b"
    )
    schema = server.new_schema()
    node = Node(tmp_path / "app.dmq", server.address(schema), rule_timeout_seconds=3)
    try:
        node.enqueue("a", "<m/>")
        [message] = node.store.pending(1)
        request = RoundRequest(batch=[message], snapshot=node.store.snapshot(), now=node.now)
        with psycopg.connect(server.address(schema)) as administrator:
            administrator.execute("LOCK TABLE messages IN ACCESS EXCLUSIVE MODE")
            with pytest.raises(StoreError, match="lock timeout"):
                node._evaluators.rules.run(request)
            administrator.rollback()
        [outcome] = node._evaluators.rules.run(request).outcomes
        assert outcome is not None
        assert (len(outcome.actions), outcome.errors, outcome.lost) == (1, [], None)
    finally:
        node.stop()


def test_a_connection_that_is_lost_while_it_takes_the_lock_again_is_known_as_our_own(server: Server):
    schema = server.new_schema()
    store = PostgresqlStore(server.address(schema))
    database = store._database
    assert isinstance(database, ServerDatabase)
    try:
        first = database._connection
        first.close()
        # Its connection after the first has got the lock, and this side does not know; the server keeps it for a while.
        lost = database._connect()
        lost.execute("SELECT pg_try_advisory_lock(1147498833, hashtext(current_schema()))")
        assert store.snapshot() == 0  # and so it goes on
        lost.close()
    finally:
        store.close()
