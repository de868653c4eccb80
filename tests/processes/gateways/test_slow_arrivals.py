"""A message whose properties take long to compute makes only its own sender wait."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from tests.support.gateways.client import NO_ANSWER, Client
from tests.support.gateways.nodes import running

APPLICATION = """
create queue orders kind incomingGateway
create property text as xs:boolean fixed queue orders value matches(//text, "^(a+)+$")
create queue done
create rule copy for orders if (/m) then do enqueue . into done
"""
SLOW = f"<m><text>{'a' * 45}b</text></m>"


def test_senders_do_not_wait_for_a_message_whose_properties_take_long(tmp_path: Path) -> None:
    statuses: list[int] = []

    def send_slow(address: str) -> None:
        try:
            headers = {"Content-Type": "application/xml"}
            statuses.append(Client(address, timeout=60).post("/orders", SLOW, headers).status_code)
        except NO_ANSWER:
            statuses.append(0)

    with running(tmp_path, APPLICATION) as here:
        sender = threading.Thread(target=send_slow, args=[here.address])
        sender.start()
        time.sleep(0.3)
        answers = [here.post("/orders", f"<m><text>{n}</text></m>").status_code for n in range(3)]
        assert answers == [202] * 3
        assert here.node.enqueue("orders", "<m><text>aaa</text></m>")
        assert statuses == [], "the slow one is still being checked"
    sender.join()
    assert statuses in ([503], [500], [0]), "it is not stored, and its sender can try again"
