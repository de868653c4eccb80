"""A node that is stopped, or killed, while clients send: whatever it has acknowledged is in its store."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import demaq
from demaq.store.sqlite import SqliteStore
from tests.support.gateways.client import NO_ANSWER, Client

pytestmark = pytest.mark.slow
APPLICATION = """
create queue orders kind incomingGateway
create queue done
create property number as xs:integer queue orders value /order/@number
create rule keep for orders if (/order) then do enqueue <kept>{string(/order/@number)}</kept> into done
"""
SENDERS = 4
ENOUGH = 100
"""So many messages are acknowledged before the node is stopped."""
SECONDS_MAX = 60.0


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGKILL])
def test_what_was_acknowledged_is_there_however_a_node_ends(tmp_path: Path, ending: signal.Signals):
    (tmp_path / "app.dmq").write_text(APPLICATION)
    node = subprocess.Popen(
        [sys.executable, "-m", "demaq.cli", "run", "app.dmq", "--http", "127.0.0.1:0", "--keep", "1d"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(demaq.__file__).parents[1])},
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        acknowledged = _send_until_it_ends(node, ending)
    finally:
        node.kill()
        said = node.communicate()[1]

    assert "Traceback" not in said
    assert node.returncode == (0 if ending == signal.SIGTERM else -signal.SIGKILL)
    assert len(acknowledged) >= ENOUGH
    store = SqliteStore.open_readonly(tmp_path / "demaq-store")
    try:
        for number, body in acknowledged.items():
            message = store.message(number)
            assert message is not None
            assert message.body == body
    finally:
        store.close()


def _send_until_it_ends(node: subprocess.Popen[str], ending: signal.Signals) -> dict[int, str]:
    assert node.stderr is not None
    line = node.stderr.readline()
    while not line.startswith("listening on "):
        assert line, "the node has not started"
        line = node.stderr.readline()
    address = line.removeprefix("listening on ").strip()
    acknowledged: dict[int, str] = {}
    faults: list[int] = []

    def send(sender: int) -> None:
        client = Client(address, SECONDS_MAX)
        for number in range(sender, 10**9, SENDERS):
            body = f'<order number="{number}"/>'
            try:
                answer = client.post("/orders", body, {"Content-Type": "text/xml"})
            except NO_ANSWER:
                return  # the node is gone, and the result of this request is unknown
            if answer.status_code == 202:
                acknowledged[int(answer.headers["demaq-message-id"])] = body
            else:
                faults.append(answer.status_code)

    threads = [threading.Thread(target=send, args=(sender,)) for sender in range(SENDERS)]
    for thread in threads:
        thread.start()
    until = time.monotonic() + SECONDS_MAX
    while len(acknowledged) < ENOUGH and time.monotonic() < until:
        time.sleep(0.01)
    node.send_signal(ending)
    for thread in threads:
        thread.join()
    node.wait(SECONDS_MAX)
    assert faults == []
    return acknowledged
