"""Commands find a node that is only just starting, and a node finds a store that a command is about to leave."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from demaq.cli import main as cli
from demaq.errors import StoreHeld, StoreMissing
from demaq.server import startup
from demaq.server.startup import Announcement, is_starting, retry_while_starting, store_in
from demaq.store.location import place_of, store_argument
from demaq.store.sqlite import SqliteStore
from tests.support.processes import started

APPLICATION = """
create queue a create queue out kind outgoingGateway create collection c
create rule r for a if (/n) then do enqueue <m/> into out
"""
WAIT_SECONDS_MAX = 120.0


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    Path("app.dmq").write_text(APPLICATION)
    Path("n.xml").write_text("<n/>")
    return tmp_path


def run(*words: str) -> int:
    return cli.run(cli.demaq, list(words))


def later(seconds: float, act: Callable[[], object]) -> None:
    threading.Timer(seconds, act).start()


def test_who_has_announced_himself_is_starting_until_he_is_ready_under_every_name_of_the_store(folder: Path):
    assert not is_starting("shop")
    announcement = Announcement("shop")
    assert is_starting(folder / "shop")
    assert is_starting(str(folder / "x" / ".." / "shop"))
    assert not is_starting("other")
    announcement.close()
    assert not is_starting("shop")


def test_a_process_that_is_killed_is_not_waited_for(folder: Path):
    program = "from demaq.server.startup import *; import sys; announce('shop'); print(flush=True); sys.stdin.read()"
    with started([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert is_starting("shop")
        process.kill()
        process.wait()
        assert not is_starting("shop")


def test_two_that_start_at_once_announce_themselves_once(folder: Path):
    first = Announcement("shop")
    with pytest.raises(BlockingIOError):
        Announcement("shop")
    assert is_starting("shop")
    first.close()


def test_the_store_of_a_command_is_known_before_its_options_are_parsed():
    assert store_in(["app.dmq"]) == "demaq-store"
    assert store_in(["app.dmq", "--store", "a", "--store=b c"]) == "b c"
    assert store_in(["--store"]) == "demaq-store"


def test_a_command_waits_for_a_node_that_is_starting_and_says_so(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(startup, "QUIET_SECONDS", 0.1)
    announcement = Announcement("shop")
    said: list[str] = []
    ready = False

    def act() -> str:
        assert ready
        return "done"

    def be_ready() -> None:
        nonlocal ready
        ready = True
        announcement.close()

    later(0.4, be_ready)
    assert retry_while_starting("shop", act, said.append) == "done"
    assert said == ["waiting: a node is starting on the store"]


def test_a_node_that_runs_is_not_kept_from_answering_by_another_that_starts(folder: Path):
    announcement = Announcement("shop")
    try:
        assert retry_while_starting("shop", lambda: "done", pytest.fail, lambda: True) == "done"
    finally:
        announcement.close()


def test_a_node_that_never_gets_ready_is_waited_for_in_bounds(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(startup, "START_SECONDS_MAX", 0.2)
    announcement = Announcement("shop")
    try:
        assert run("queues", "--store", "shop") == 1
        assert run("status", "--store", "shop") == 1
    finally:
        announcement.close()


def test_a_store_that_is_missing_is_looked_for_a_moment_longer(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(startup, "MISSING_SECONDS_MAX", 5.0)
    later(0.2, lambda: SqliteStore(Path("shop")).close())
    assert run("queues", "--store", "shop") == 0
    monkeypatch.setattr(startup, "MISSING_SECONDS_MAX", 0.2)
    began = time.monotonic()
    with pytest.raises(StoreMissing):
        retry_while_starting("other", lambda: SqliteStore.open_readonly(Path("other")), pytest.fail)
    assert 0.2 < time.monotonic() - began < 5


def test_a_command_waits_for_another_that_writes(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(startup, "QUIET_SECONDS", 0.1)
    assert run("init", "app.dmq", "--store", "shop") == 0
    store = SqliteStore(Path("shop"))
    later(0.5, store.close)
    assert run("send", "a", "n.xml", "--store", "shop") == 0
    output = capsys.readouterr()
    assert output.out.splitlines()[-1] == "1"
    assert output.err.startswith("waiting: the store shop is held by process ")


def test_a_writer_that_does_not_end_is_waited_for_in_bounds(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(startup, "HELD_SECONDS_MAX", 0.2)
    assert run("init", "app.dmq", "--store", "shop") == 0
    store = SqliteStore(Path("shop"))
    try:
        for words in (["send", "a", "n.xml"], ["run", "app.dmq"], ["gc"]):
            assert run(*words, "--store", "shop") == 1
            assert capsys.readouterr().err.startswith("demaq: the store shop is held by process ")
        with pytest.raises(StoreHeld):
            SqliteStore(Path("shop"))
    finally:
        store.close()


def test_a_store_is_filled_before_the_first_run(folder: Path, capsys: pytest.CaptureFixture[str]):
    for words in (["send", "a", "n.xml"], ["collections", "load", "c", "n.xml"]):
        assert run(*words, "--store", "shop") == 1
        assert capsys.readouterr().err == (
            "demaq: there is no store in shop: demaq run APP --store shop, or demaq init to make the store alone\n"
        )
    assert run("init", "app.dmq", "--store", "shop") == 0
    assert capsys.readouterr().out == "made a new store in shop: 2 queues, 1 rule\n"
    assert run("collections", "load", "c", "n.xml", "--store", "shop") == 0
    assert run("send", "a", "n.xml", "--store", "shop") == 0
    assert run("queues", "--store", "shop") == 0
    assert capsys.readouterr().out.splitlines()[-1] == "a: 1 message, 1 waiting"
    assert run("init", "app.dmq", "--store", "shop") == 1
    assert "has a store with an application already" in capsys.readouterr().err


def test_a_command_that_is_suggested_can_be_typed_wherever_the_store_is(folder: Path):
    assert store_argument(Path("a b's")) == """--store 'a b'"'"'s'"""
    assert store_argument(place_of("shop")) == "--store shop"


def test_a_program_with_errors_makes_no_store(folder: Path, capsys: pytest.CaptureFixture[str]):
    Path("app.dmq").write_text("create queue a create rule r for a if (/n) then do enqueue <x/> into nowhere")
    assert run("init", "app.dmq", "--store", "shop") == 1
    assert "error[DQ0203]" in capsys.readouterr().err
    assert not Path("shop").exists()


@pytest.mark.slow
def test_what_is_typed_right_after_run_works(folder: Path):
    """As the README shows it: the node's process has hardly begun."""
    demaq = [sys.executable, "-P", "-m", "demaq.cli"]
    store = ["--store", "shop"]
    with started([*demaq, "run", "app.dmq", *store, "--no-gateways"], stderr=subprocess.DEVNULL) as node:
        for words, code, said in (
            (["send", "a", "n.xml"], 0, "1\n"),
            (["status"], 0, f"process {node.pid}\n"),
            (["messages", "out"], 0, "<m/>\n"),
        ):
            done = subprocess.run(
                [*demaq, *words, *store], capture_output=True, text=True, check=False, timeout=WAIT_SECONDS_MAX
            )
            assert (done.returncode, said in done.stdout) == (code, True), done
        node.terminate()
        done = subprocess.run([*demaq, "send", "a", "n.xml", *store], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (0, "4\n"), done
