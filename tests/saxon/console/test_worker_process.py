"""What needs Saxon is done in one process beside the console: one question at a time, with limits."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from demaq.console import web_app, worker_process
from demaq.console.console_settings import ConsoleSettings
from demaq.console.store_pool import THREADS, ConsoleBusy
from demaq.console.worker_process import ASKING_MAX, WorkerProcess
from demaq.server import console_process
from demaq.store.location import StoreLocation, place_of
from demaq.testing.lab import Lab
from tests.support.console.client import ConsoleClient
from tests.support.gateways.nodes import wait_until

APPLICATION = """
create queue numbers
create queue slow
create queue found
create property number as xs:integer queue numbers value xs:integer(/n)
create slicing all on number
create rule keep for numbers if (/n > 5) then do enqueue <found/> into found
create rule count for slow
  if (some $n in 1 to 2000000000 satisfies 2 * $n = 2 * string-length(name(/*)) + 1) then do enqueue <found/> into found
"""
QUICK, SLOW = 1, 3


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> StoreLocation:
    """A store on which the first message was processed, and the last one would take for ever."""
    folder = tmp_path_factory.mktemp("worker")
    application = folder / "numbers.dmq"
    application.write_text(APPLICATION)
    with Lab(application, folder / "store") as lab:
        lab.enqueue("numbers", "<n>3</n>")
        lab.run_until_idle()
        assert lab.enqueue("slow", "<n/>") == str(SLOW)
    return place_of(str(folder / "store"))


@pytest.fixture
def worker() -> Iterator[WorkerProcess]:
    made = WorkerProcess()
    yield made
    made.close()


@pytest.fixture
def client(place: StoreLocation) -> Iterator[ConsoleClient]:
    made = ConsoleClient(ConsoleSettings(store=str(place.where)))
    yield made
    made.close()


def find_process(worker: WorkerProcess) -> int:
    pool: Any = worker._pool
    [pid] = pool._processes
    return int(pid)


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_a_slice_is_found_by_any_form_of_its_key(client: ConsoleClient):
    for key in ("3", "03", "%2B3", " 3 "):
        history = client.get(f"/api/slices/all?key={key}").json
        assert history["key"] == "3"
        assert len(history["lifetimes"][-1]["members"]) == 1
    assert client.get("/api/slices/all?key=004").json["key"] == "4"
    assert client.get("/console/slices/all?key=03").status == 200


def test_what_is_no_key_of_a_slicing_is_said_to_be_none(client: ConsoleClient):
    answer = client.get("/api/slices/all?key=three")
    assert answer.status == 422
    assert answer.json == {"error": "three is no key of slicing all: its keys are xs:integer"}


def test_pages_at_the_same_time_ask_for_slices_that_are_not_there(client: ConsoleClient):
    assert client.get("/api/slices/all?key=0").status == 200
    for _ in range(5):
        found = client.get_at_once(*[f"/api/slices/all?key=0{number}" for number in range(4, 4 + ASKING_MAX)])
        assert [page.status for page in found] == [200] * ASKING_MAX


def test_rules_are_evaluated_by_the_main_thread_which_alone_frees_what_saxon_has_made(
    place: StoreLocation, worker: WorkerProcess
):
    worker.run("explain_message", place, QUICK, None)
    pool: Any = worker._pool
    assert pool.submit(threading.get_native_id).result() == find_process(worker), "of the main thread"
    assert pool.submit(gc.isenabled).result() is False


def test_a_process_that_has_ended_is_replaced_unnoticed(place: StoreLocation, worker: WorkerProcess):
    worker.run("explain_message", place, QUICK, None)
    first = find_process(worker)
    os.kill(first, signal.SIGKILL)
    pool: Any = worker._pool
    wait_until(lambda: bool(pool._broken))
    assert worker.run("explain_message", place, QUICK, None).rules
    assert find_process(worker) != first


def test_a_process_that_ends_while_it_is_asked_fails_one_question(place: StoreLocation, worker: WorkerProcess):
    worker.run("explain_message", place, QUICK, None)
    ending = threading.Timer(0.5, os.kill, (find_process(worker), signal.SIGKILL))
    ending.start()
    with pytest.raises(ConsoleBusy, match="has ended"):
        worker.run("explain_message", place, SLOW, None)
    ending.join()
    assert worker.run("explain_message", place, QUICK, None).rules


def test_a_question_that_takes_too_long_ends_the_process_and_not_the_next_question(
    place: StoreLocation, worker: WorkerProcess, monkeypatch: pytest.MonkeyPatch
):
    worker.run("explain_message", place, QUICK, None)
    first = find_process(worker)
    monkeypatch.setattr(worker_process, "ANSWER_SECONDS_MAX", 1.0)
    with pytest.raises(ConsoleBusy, match="longer than 1 s"):
        worker.run("explain_message", place, SLOW, None)
    wait_until(lambda: is_gone(first))
    monkeypatch.undo()
    assert worker.run("explain_message", place, QUICK, None).rules


def test_pages_that_evaluate_nothing_do_not_wait_for_those_that_do(
    client: ConsoleClient, monkeypatch: pytest.MonkeyPatch
):
    assert client.get(f"/api/messages/{QUICK}/why").status == 200
    monkeypatch.setattr(worker_process, "ANSWER_SECONDS_MAX", 5.0)
    monkeypatch.setattr(worker_process, "WAITING_SECONDS_MAX", 4.0)
    monkeypatch.setattr(web_app, "SECONDS_MAX", 3.0)
    slow = [f"/api/messages/{SLOW}/why"] * (THREADS + 1)
    found = client.get_at_once(*slow, "/console/help", "/console/slices", f"/console/messages/{QUICK}")
    assert [page.status for page in found] == [503] * len(slow) + [200] * 3
    others = [page for page in found if "for 3 others" in page.text]
    assert len(others) == len(slow) - ASKING_MAX, "further ones are refused at once"


def test_a_process_whose_console_is_gone_ends_also_in_the_middle_of_a_rule():
    program = """
import re
from demaq.console import rule_evaluation, worker_process
worker_process.ORPHAN_SECONDS_MAX = 1
rule_evaluation.evaluate = lambda: re.match("(a+)+$", 40 * "a" + "b")
worker_process._call("evaluate")
"""
    done = subprocess.run([sys.executable, "-c", program], timeout=60)
    assert done.returncode == -signal.SIGALRM


def test_a_page_waits_as_long_as_it_takes_to_be_answered_and_a_node_longer():
    longest = worker_process.WAITING_SECONDS_MAX + worker_process.ANSWER_SECONDS_MAX
    assert longest < web_app.SLOW_SECONDS_MAX < console_process.ANSWER_SECONDS_MAX
    assert worker_process.ANSWER_SECONDS_MAX < worker_process.ORPHAN_SECONDS_MAX
