"""A running node as its operator meets it: how it ends, and what it refuses."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from demaq.cli import main as cli
from demaq.control.client import ADDRESS_FILE, running_node
from tests.support.processes import started
from tests.support.server.running import RunningNode

ENDLESS = """
create queue a create queue out create collection c
create rule grow for a if (/n) then do enqueue <n>{/n + 1}</n> into a
"""
WAIT_SECONDS_MAX = 60.0


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "app.dmq").write_text(ENDLESS)
    return tmp_path


@pytest.mark.slow
def test_a_second_signal_ends_a_backlog_that_has_no_end(folder: Path):
    command = [sys.executable, "-m", "demaq.cli", "run", str(folder / "app.dmq"), "--store", str(folder / "s")]
    command += ["--max-hops", "1000000000"]
    with started(command, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == f"made a new store in {folder / 's'}\n"
        assert process.stderr.readline().startswith("running on ")
        node = running_node(folder / "s")
        assert node is not None
        node.enqueue("a", b"<n>1</n>", {}, None)
        process.send_signal(signal.SIGTERM)
        assert process.stderr.readline() == "processing what waits; stop again to leave it for the next run\n"
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=WAIT_SECONDS_MAX)
    assert (process.returncode, said) == (0, "stopping after the current round\nstopped\n")


def test_a_node_refuses_what_an_offline_store_would_refuse(folder: Path, capsys: pytest.CaptureFixture[str]):
    node = RunningNode(folder / "app.dmq", folder / "s")
    (folder / "c.xml").write_text("<c/>")
    store = ["--store", str(folder / "s")]
    try:
        for words, said in (
            (["send", "b", str(folder / "c.xml")], "there is no queue b; there are demaq:errors, a, out"),
            (["take", "b"], "there is no queue b; there are demaq:errors, a, out"),
            (["collections", "load", "d", str(folder / "c.xml")], "there is no collection d; there is c"),
            (["gc", "--keep", "1h"], f"a node runs on {folder / 's'} with a --keep of its own: leave it out here"),
        ):
            assert cli.run(cli.demaq, [*words, *store]) == 1
            assert capsys.readouterr().err == f"demaq: {said}\n"
        assert cli.run(cli.demaq, ["run", str(folder / "app.dmq"), *store]) == 1
        assert capsys.readouterr().err.startswith(f"demaq: the store {folder / 's'} is held by process ")
    finally:
        assert node.stop() == 0


def test_an_application_with_errors_is_reported_whole_and_not_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "app.dmq").write_text("create queue a create rule r for b if (/n) then do enqueue . into c")
    assert cli.run(cli.demaq, ["run", str(tmp_path / "app.dmq"), "--store", str(tmp_path / "s")]) == 1
    said = capsys.readouterr().err
    assert said.count("error[DQ") == 2
    assert not (tmp_path / "s" / ADDRESS_FILE).exists()


def test_a_node_tells_what_it_is_doing(folder: Path, capsys: pytest.CaptureFixture[str]):
    store = ["--store", str(folder / "s")]
    assert cli.run(cli.demaq, ["status", *store]) == 1
    assert capsys.readouterr().err == f"demaq: no node runs on {folder / 's'}\n"
    node = RunningNode(folder / "app.dmq", folder / "s", "--pipeline", "inline")
    try:
        node.remote.enqueue("out", b"<m/>", {}, None)
        assert cli.run(cli.demaq, ["status", *store]) == 0
        printed = capsys.readouterr().out
        assert "processed  0 messages, 0 waiting\n" in printed  # a mailbox is no backlog
        assert "Spark      inline: rules are evaluated in local processes\n" in printed
        assert printed.endswith("fault      none\n")
        assert cli.run(cli.demaq, ["status", *store, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["rounds"] == {"inline": 0, "spark": 0}
    finally:
        assert node.stop() == 0
