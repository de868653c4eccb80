"""When an outbox looks again for what is to be sent."""

from __future__ import annotations

import threading
import time
from datetime import timedelta
from pathlib import Path

from demaq.gateways.settings import OutgoingSettings, Settings
from demaq.store.protocol import Unsent
from tests.support.gateways.nodes import running, wait_until
from tests.support.gateways.peers import Answer, Got, other_side

APPLICATION = """
create queue orders
create queue supplier kind outgoingGateway endpoint "{address}/"
create rule ask for orders if (/*) then do enqueue . into supplier
"""
SOON_SECONDS = 10.0


def test_a_message_is_tried_again_in_time_while_another_is_still_on_its_way(tmp_path: Path):
    come, go_on = threading.Event(), threading.Event()
    tried: list[str] = []

    def answer(got: Got) -> Answer:
        tried.append(got.body.decode())
        if b"slow" in got.body:
            come.set()
            go_on.wait(60)
        return (503 if tried.count("<again/>") == 1 else 202), {}, b""

    settings = Settings(outgoing_default=OutgoingSettings(retry_first_seconds=0.01))
    with other_side(answer) as side, running(tmp_path, APPLICATION.format(address=side.address), settings) as here:
        here.node.enqueue("orders", "<slow/>")
        assert come.wait(SOON_SECONDS)
        began = time.monotonic()
        here.node.enqueue("orders", "<again/>")
        try:
            wait_until(lambda: tried.count("<again/>") == 2)
            assert time.monotonic() - began < SOON_SECONDS
        finally:
            go_on.set()


def test_a_host_that_is_back_keeps_no_message_waiting_for_longer_than_a_day(tmp_path: Path):
    """However long it has asked for before."""

    def answer(got: Got) -> Answer:
        if b"ok" in got.body:
            return 202, {}, b""
        return 503, {"Retry-After": "999999999"}, b""

    def waiting() -> list[Unsent]:
        return here.node.store.unsent(None, None, 10)

    settings = OutgoingSettings(retry_first_seconds=0.01, breaker_failures=2, breaker_pause_seconds=0.01)
    with (
        other_side(answer) as side,
        running(tmp_path, APPLICATION.format(address=side.address), Settings(outgoing_default=settings)) as here,
    ):
        for body in ("<a/>", "<b/>"):
            here.node.enqueue("orders", body)
            wait_until(lambda: bool(waiting()) and all([each.attempts for each in waiting()]))
        before = [each.due for each in waiting()]
        here.node.enqueue("orders", "<ok/>")
        wait_until(lambda: "<ok/>" in side.bodies() and len(waiting()) == 2)
        time.sleep(0.5)
        assert all([each.due <= due + timedelta(minutes=1) for each, due in zip(waiting(), before, strict=True)])
