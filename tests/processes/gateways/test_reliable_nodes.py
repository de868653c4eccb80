"""The listing of Section 2.1.2 of the paper between two nodes: reliable, signed and encrypted, both ways.

Between them are relays that lose, double and delay requests and responses, and the nodes are killed again and again.
"""

from __future__ import annotations

import random
import re
import runpy
import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from demaq.store.sqlite import SqliteStore
from tests.support.gateways.client import NO_ANSWER, Client
from tests.support.gateways.processes import QUICKLY, GatewayNode, free_ports, killed_at_the_end
from tests.support.soap.lossy_relay import MISFORTUNES, LossyRelay, run_lossy_relay

EXAMPLE = Path(__file__).parents[3] / "examples" / "reliable-supplier"
LISTING = """create queue supplier kind outgoingGateway mode persistent
  interface supplier.wsdl port CapacityRequestPort
  using WS -ReliableMessaging policy wsrmpol.xml
  using WS -Security policy wssecpol.xml
"""
"""As it is printed."""
MESSAGES = 50
KILLS = 20
SECONDS_MAX = 240.0


@dataclass
class Pair:
    buyer: GatewayNode
    supplier: GatewayNode
    relays: tuple[LossyRelay, ...] = ()

    def results(self) -> list[str]:
        return re.findall(r'order="(\d+)"', "".join([message.body for message in self.buyer.stored("results")]))

    def asked(self) -> list[str]:
        bodies = "".join([message.body for message in self.supplier.stored("capacity")])
        return re.findall(r"requestID>(\d+)<", bodies)


@contextmanager
def nodes(folder: Path, chance: random.Random | None) -> Iterator[Pair]:
    """Run the example with its own folder and ports; with relays in between if there is `chance`."""
    shutil.copytree(EXAMPLE, folder, dirs_exist_ok=True)
    module = runpy.run_path(str(folder / "make_keys.py"))
    (folder / "keys").mkdir(exist_ok=True)
    for name in ("buyer", "supplier"):
        module["make_pair"](folder / "keys", name)
    buyer_text = (folder / "buyer.dmq").read_text()
    written = re.search(r"create queue supplier\b.*?wssecpol\.xml\n", buyer_text, re.DOTALL)
    assert written is not None
    assert written[0].split() == LISTING.replace("WS -", "WS-").split()
    (folder / "buyer.dmq").write_text(buyer_text.replace(written[0], LISTING))
    ports = dict(zip(("buyer", "supplier"), free_ports(2), strict=True))
    made = {}
    for name, port in ports.items():
        home = folder / f"{name}-node"
        home.mkdir()
        made[name] = GatewayNode(home, folder / f"{name}.dmq", port)
        own = (folder / f"{name}.toml").read_text().replace("keys/", f"{folder}/keys/")
        (home / "settings.toml").write_text(QUICKLY + own)
    with ExitStack() as stack:
        addresses = {name: f"http://127.0.0.1:{port}" for name, port in ports.items()}
        relays: tuple[LossyRelay, ...] = ()
        if chance is not None:
            relays = tuple([stack.enter_context(run_lossy_relay(address, chance)) for address in addresses.values()])
            addresses = dict(zip(addresses, [relay.address for relay in relays], strict=True))
        for name, old in (("supplier", "http://127.0.0.1:8082"), ("buyer", "http://127.0.0.1:8081")):
            path = folder / f"{name}.wsdl"
            path.write_text(path.read_text().replace(old, addresses[name]))
        pair = Pair(made["buyer"], made["supplier"], relays)
        stack.enter_context(killed_at_the_end(pair.buyer, pair.supplier))
        pair.supplier.start()
        pair.buyer.start()
        yield pair


def send_order(node: GatewayNode, number: int) -> None:
    """Send an order until it is accepted."""
    body = f'<order id="{number}"><item>acid</item><tons>{number}</tons></order>'
    client = Client(node.address, timeout=5.0)
    until = time.monotonic() + SECONDS_MAX
    while time.monotonic() < until:
        with suppress(*NO_ANSWER):
            if client.post("/orders", body, {"Idempotency-Key": str(number)}).status_code == 202:
                return
        time.sleep(0.05)
    raise AssertionError(f"order {number} was not accepted")


def wait_for_results(pair: Pair, count: int) -> None:
    until = time.monotonic() + SECONDS_MAX
    while len(set(pair.results())) < count:
        assert time.monotonic() < until, f"{len(set(pair.results()))} of {count} came back"
        time.sleep(0.25)


def count_sequences(node: GatewayNode) -> int:
    reader = SqliteStore.open_readonly(node.store)
    try:
        return len(reader.sequences("in"))
    finally:
        reader.close()


@pytest.mark.slow
@pytest.mark.draws
def test_messages_arrive_once_and_in_order_over_relays_that_lose_and_double(tmp_path, chance: random.Random):
    with nodes(tmp_path, chance) as pair:
        for number in range(1, MESSAGES + 1):
            send_order(pair.buyer, number)
        wait_for_results(pair, MESSAGES)
        time.sleep(1.0)  # what is doubled has its chance to come
        everything = [str(number) for number in range(1, MESSAGES + 1)]
        assert pair.asked() == everything
        assert pair.results() == everything
        assert all([relay.seen[what] for relay in pair.relays for what in MISFORTUNES])
        assert pair.buyer.stored("demaq:errors") == pair.supplier.stored("demaq:errors") == []
        assert count_sequences(pair.supplier) == count_sequences(pair.buyer) == 1


@pytest.mark.slow
@pytest.mark.draws
def test_nodes_that_are_killed_again_and_again_go_on_in_the_same_sequences(tmp_path, chance: random.Random):
    with nodes(tmp_path, chance) as pair:
        sent = 0
        for kill in range(KILLS):
            share = MESSAGES * (kill + 1) // KILLS
            while sent < share:
                send_order(pair.buyer, sent + 1)
                sent += 1
            time.sleep(chance.uniform(0.0, 0.4))
            node = chance.choice((pair.buyer, pair.supplier))
            node.kill()
            node.start()
        wait_for_results(pair, MESSAGES)
        time.sleep(1.0)
        everything = [str(number) for number in range(1, MESSAGES + 1)]
        assert pair.asked() == everything
        assert pair.results() == everything
        assert pair.buyer.stored("demaq:errors") == pair.supplier.stored("demaq:errors") == []
        assert count_sequences(pair.supplier) == 1, "no second CreateSequence after a restart"
        assert count_sequences(pair.buyer) == 1
