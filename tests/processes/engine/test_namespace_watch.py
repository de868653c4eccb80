"""The run says which rules miss messages only because of a namespace."""

from __future__ import annotations

import logging
import time
from pathlib import Path
from typing import Any

import pytest

from demaq import Node
from demaq.cli import main as cli
from demaq.engine.namespace_watch import LOOKS_FIRST
from demaq.server.control_server import ControlServer
from demaq.testing import Lab

PROGRAM = """
create queue in create queue out kind mailbox
create rule order for in if (/order) then do enqueue <o/> into out
create rule invoice for in if (//invoice) then do enqueue <i/> into out
create rule any for in if (/*:any) then do enqueue <a/> into out
"""


@pytest.mark.parametrize("evaluator", ["auto", "saxon"])
@pytest.mark.parametrize("pipeline", ["serial", "inline"])
def test_a_rule_that_misses_messages_for_their_namespace_is_reported_once(
    pipeline: Any, evaluator: Any, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.WARNING, "demaq.node")
    with Lab(PROGRAM, pipeline=pipeline, evaluator=evaluator) as lab:
        for body in (
            *["<order xmlns='urn:o'/>"] * 3,
            *["<x><invoice xmlns='urn:o'/></x>"] * 3,
            "<order xmlns='urn:p'/>",
            "<other xmlns='urn:o'/>",
            "<any xmlns='urn:o'/>",
            "<order><order xmlns='urn:q'/></order>",
        ):
            lab.enqueue("in", body)
        lab.run_until_idle()
        assert list(lab._engine.namespaces.reports) == [("order", "urn:o"), ("invoice", "urn:o"), ("order", "urn:p")]
    reports = [record.getMessage() for record in caplog.records]
    assert len(reports) == 3
    assert reports[0].startswith("rule order (<application>:3:")
    assert '"order" is in no namespace here, and in namespace "urn:o" in the message; declare default' in reports[0]


def test_few_of_many_messages_that_no_rule_reacts_to_are_looked_at(monkeypatch: pytest.MonkeyPatch):
    looked: list[int] = []
    monkeypatch.setattr(
        "demaq.engine.namespace_watch.NamespaceWatch._look_at", lambda _, queue, seq, body: looked.append(seq)
    )
    with Lab(PROGRAM, pipeline="inline") as lab:
        for _ in range(200):
            lab.enqueue("in", "<other/>")
            lab.enqueue("in", "<order/>")
        lab.run_until_idle()
    assert len(looked) == LOOKS_FIRST + 3  # and of the others the 32nd, the 64th and the 128th


def test_a_node_says_so_in_its_status(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    application = tmp_path / "app.dmq"
    application.write_text(PROGRAM)
    node = Node(application, tmp_path / "store")
    node.start()
    try:
        node.enqueue("in", "<order xmlns='urn:o'/>")
        until = time.monotonic() + 60
        while not node.read_status()["namespaces"] and time.monotonic() < until:
            time.sleep(0.01)
        [report] = node.read_status()["namespaces"]
        assert "rule order" in report
        control = ControlServer(node)
        try:
            assert cli.run(cli.demaq, ["status", "--store", str(tmp_path / "store")]) == 0
        finally:
            control.close()
        assert f"namespace  {report}" in capsys.readouterr().out
    finally:
        node.stop()
