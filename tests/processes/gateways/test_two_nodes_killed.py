"""Two nodes that are killed again and again while messages flow: each message crosses once, in both directions."""

from __future__ import annotations

import itertools
import re
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from demaq.store.protocol import StoredMessage
from tests.support.gateways.client import NO_ANSWER, Client
from tests.support.gateways.peers import OtherSide, other_side
from tests.support.gateways.processes import GatewayNode, free_ports, killed_at_the_end

KILLS = 4
FLOW_SECONDS = 1.0
"""So long messages flow before the next kill."""
FEED_SECONDS = 0.02
"""The pause after each message that is fed."""
CROSS_SECONDS_MAX = 120.0
LOOK_SECONDS = 0.25
HERE = """
create queue work kind incomingGateway
create queue there kind outgoingGateway endpoint "THERE/in"
create queue back kind incomingGateway
create queue finished
create rule forward for work if (/n) then do enqueue <n>{string(/n)}</n> into there
create rule finish for back if (/n) then do enqueue <n>{string(/n)}</n> into finished
"""
THERE = """
create queue in kind incomingGateway
create queue here kind outgoingGateway endpoint "HERE/back"
create queue stranger kind outgoingGateway endpoint "STRANGER/"
create queue done
create rule note for in if (/n) then (
  do enqueue <n>{string(/n)}</n> into done,
  do enqueue <n>{string(/n)}</n> into here,
  do enqueue <n>{string(/n)}</n> into stranger
)
"""


class Feeder:
    """Sends one number after the other, each until it is accepted, as a sender does who wants to be sure."""

    def __init__(self, address: str) -> None:
        self.sent = 0
        self._client = Client(address, timeout=5.0)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> int:
        self._stop.set()
        self._thread.join()
        return self.sent

    def _run(self) -> None:
        for number in itertools.count():
            while not self._is_accepted(number):
                time.sleep(0.02)
            self.sent = number + 1
            time.sleep(FEED_SECONDS)
            if self._stop.is_set():
                return

    def _is_accepted(self, number: int) -> bool:
        try:
            answer = self._client.post("/work", f"<n>{number}</n>", {"Idempotency-Key": str(number)})
        except NO_ANSWER:
            return False
        return answer.status_code == 202


def numbers(messages: list[StoredMessage]) -> Counter[int]:
    return Counter([int(message.body.removeprefix("<n>").removesuffix("</n>")) for message in messages])


@pytest.mark.slow
def test_every_message_crosses_once_whichever_node_is_killed(tmp_path: Path):
    with other_side() as stranger:
        one, two = _nodes(tmp_path, stranger)
        with killed_at_the_end(one, two):
            one.start()
            two.start()
            feeder = Feeder(one.address)
            for kill in range(KILLS):
                time.sleep(FLOW_SECONDS)
                node = (one, two)[kill % 2]
                node.kill()
                time.sleep(0.3)  # the other one goes on alone
                node.start()
            began = time.monotonic()
            sent = feeder.stop()
            every = Counter(range(sent))
            while len(one.stored("finished")) < sent or len(set(stranger.bodies())) < sent:
                assert time.monotonic() - began < CROSS_SECONDS_MAX, "something has not crossed"
                time.sleep(LOOK_SECONDS)
            print(f"{sent} messages crossed; the last ones {time.monotonic() - began:.2f} s after the last start")
            time.sleep(1.0)  # what is doubled has its chance to come

        assert sent > KILLS
        assert numbers(two.stored("done")) == every
        assert numbers(one.stored("finished")) == every
        names = {(got.body, got.headers["demaq-message"]) for got in stranger.got}
        assert len(names) == len({body for body, _ in names}) == sent
        assert one.stored("demaq:errors") == two.stored("demaq:errors") == []


def _nodes(folder: Path, stranger: OtherSide) -> tuple[GatewayNode, GatewayNode]:
    ports = free_ports(2)
    words = {
        "HERE": f"http://127.0.0.1:{ports[0]}",
        "THERE": f"http://127.0.0.1:{ports[1]}",
        "STRANGER": stranger.address,
    }
    nodes: list[GatewayNode] = []
    for name, text, port in zip(("one", "two"), (HERE, THERE), ports, strict=True):
        (folder / name).mkdir()
        application = folder / name / "app.dmq"
        application.write_text(re.sub("THERE|HERE|STRANGER", lambda found: words[found.group()], text))
        nodes.append(GatewayNode(folder / name, application, port))
    return nodes[0], nodes[1]
