"""The log of `demaq run` as JSON: every line on stderr, from the start to the end."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.gateways.client import Client
from tests.support.gateways.processes import free_ports

APPLICATION = """
create queue orders kind incomingGateway endpoint "/orders"
create queue done
create rule fail for orders if (/order) then do enqueue <n>{xs:integer(/order)}</n> into done
"""
SECRET = "b0dy-4f-a-message"


def run_node(folder: Path, *options: str) -> list[dict[str, str]]:
    """Run a node that gets a message on which a rule fails. Return what it has logged."""
    (folder / "app.dmq").write_text(APPLICATION)
    [port] = free_ports(1)
    command = [sys.executable, "-m", "demaq.cli", "run", "app.dmq", "--store", "store", "--pipeline", "inline"]
    with (folder / "log").open("w") as log:
        node = subprocess.Popen(
            [*command, "--http", f"127.0.0.1:{port}", "--log-format", "json", *options], cwd=folder, stderr=log
        )
        try:
            until = time.monotonic() + 60
            while "running on" not in (folder / "log").read_text():
                assert node.poll() is None, (folder / "log").read_text()
                assert time.monotonic() < until
                time.sleep(0.05)
            client = Client(f"http://127.0.0.1:{port}")
            for body, status in ((f"<order>{SECRET}</order>", 202), (f"<order>{SECRET}", 400)):
                assert client.post("/orders", body, {"Content-Type": "application/xml"}).status_code == status
            node.send_signal(signal.SIGTERM)
            assert node.wait(60) == 0
        finally:
            node.kill()
            node.wait()
    return [json.loads(line) for line in (folder / "log").read_text().splitlines()]


@pytest.mark.slow
def test_every_line_is_json_with_the_trace_and_nothing_of_messages(tmp_path: Path):
    pytest.importorskip("opentelemetry.sdk")
    lines = run_node(tmp_path, "--log-level", "debug", "--telemetry", "http://127.0.0.1:9")
    assert [line["message"] for line in lines if "stopped" in line["message"]] == ["stopped"]
    [failed] = [line for line in lines if line["message"].startswith("dynamicError of rule fail")]
    assert (failed["level"], failed["logger"]) == ("info", "demaq.node")
    assert len(failed["trace_id"]) == 32
    [received] = [line for line in lines if "has received message" in line["message"]]
    assert received["trace_id"] == failed["trace_id"]
    [refused] = [line for line in lines if "refuses a message: notWellFormed" in line["message"]]
    assert refused["trace_id"] != failed["trace_id"]
    assert SECRET not in (tmp_path / "log").read_text()


def test_what_is_wrong_at_the_start_is_json_too(tmp_path: Path):
    (tmp_path / "app.dmq").write_text("create queue")
    command = [sys.executable, "-m", "demaq.cli", "run", "app.dmq", "--log-format", "json"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 1
    [line] = [json.loads(line) for line in ended.stderr.splitlines()]
    assert line["level"] == "error"
    assert "app.dmq:1:" in line["message"]
