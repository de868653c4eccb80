"""Starting and stopping Spark, seen from outside: one process does it several times and is killed in the end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from demaq.spark.session import SparkFailed, start_spark
from tests.support.spark import elsewhere

pytestmark = pytest.mark.slow

ENDS_SECONDS_MAX = 60.0


@dataclass(frozen=True)
class Seen:
    facts: dict[str, dict[str, Any]]
    stderr: str
    left_after_kill: list[int]
    private_folder_left: bool


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    folder, here = tmp_path_factory.mktemp("elsewhere"), tmp_path_factory.mktemp("here")
    environment = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    environment["PYTHONPATH"] = str(Path(__file__).parents[2])
    with (
        open(folder / "stderr", "wb+") as stderr,
        subprocess.Popen(
            [sys.executable, elsewhere.__file__, str(folder)],
            cwd=here,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        ) as process,
    ):
        assert process.stdout is not None
        facts: dict[str, dict[str, Any]] = {}
        while "again" not in facts:
            line = process.stdout.readline()
            assert line, (folder / "stderr").read_text()
            fact = json.loads(line)
            facts[fact.pop("step")] = fact
        process.kill()
        process.wait()
        left = _left([facts["again"]["java_pid"], facts["again"]["worker_pid"]])
    private = Path(facts["again"]["exposure"]["private folder"])
    return Seen(facts, (folder / "stderr").read_text(), left, private.exists())


def _left(pids: list[int]) -> list[int]:
    """Which of the processes are still there after a while."""
    end = time.monotonic() + ENDS_SECONDS_MAX
    while time.monotonic() < end and any(map(elsewhere.is_running, pids)):
        time.sleep(0.1)
    return [pid for pid in pids if elsewhere.is_running(pid)]


def test_a_start_that_fails_says_why_in_one_line(seen):
    reason = seen.facts["failed"]["reason"]
    assert reason.startswith("Spark could not be started on local[1]: ")
    assert "a lot" in reason
    assert "its log is" in reason
    assert "\n" not in reason


def test_start_up_tells_what_it_is_doing(seen):
    assert seen.facts["closed"]["lines"] == ["starting Spark on local[1] …"]


def test_there_is_one_spark_at_a_time(seen):
    assert seen.facts["second"]["reason"] == "Spark is in use in this process already"


def test_closing_ends_java_and_removes_its_temporary_folder(seen):
    assert seen.facts["closed"]["answers"] == ["11", "22"]
    assert not seen.facts["closed"]["java_is_running"]
    assert not seen.facts["closed"]["folder_exists"]


def test_the_process_keeps_its_handler_of_interrupts_and_its_environment(seen):
    assert seen.facts["closed"]["handler_is_ours"]
    assert seen.facts["closed"]["java_home"] is None


def test_a_process_may_start_spark_again_with_settings_of_its_own(seen):
    assert seen.facts["again"]["name"] == "mine"
    assert seen.facts["again"]["master"] == "local[*,4]"


def test_spark_writes_to_its_log_and_neither_to_the_terminal_nor_here(seen):
    assert seen.stderr == ""
    assert seen.facts["again"]["here"] == []
    assert Path(seen.facts["again"]["log"]).read_text() != ""


def test_a_killed_java_is_reported_in_one_line_and_leaves_no_traceback(seen):
    ended = "Spark could not run a job of 1 tasks: its Java has ended"
    assert seen.facts["java killed"] == {"reasons": [ended, ended], "folder_exists": False}
    assert seen.stderr == ""


def test_java_and_workers_end_with_a_process_that_is_killed(seen):
    assert seen.left_after_kill == []


def test_on_a_local_master_everything_listens_to_this_machine_alone(seen):
    assert seen.facts["again"]["exposure"]["hosts"] == ["127.0.0.1"]


def test_strangers_have_nothing_deserialised_and_call_nothing(seen):
    exposure = seen.facts["again"]["exposure"]
    answers = exposure["to a serialised object"]
    assert len(answers) == 3  # RPC, blocks, py4j
    assert len([answer for answer in answers if "Unknown challenge message" in answer]) == 2
    assert len([answer for answer in answers if "Unknown command" in answer]) == 1
    assert [answer for answer in exposure["to a call"] if answer] == ["!xsAuthentication error: unexpected command.\n"]


def test_sockets_and_files_of_spark_are_for_its_user_alone(seen):
    exposure = seen.facts["again"]["exposure"]
    assert exposure["its mode"] == oct(0o40700)
    assert exposure["mode of the log"] == oct(0o100600)
    assert len(exposure["sockets"]) >= 2  # of accumulators, and of the parent of Python workers
    assert {str(Path(path).parent) for path in exposure["sockets"]} == {exposure["private folder"]}
    assert {"blockmgr", "spark"} <= set(exposure["in it"])


def test_a_process_that_is_killed_leaves_no_folder(seen):
    assert not seen.private_folder_left


@pytest.mark.parametrize("master", ["spark://127.0.0.1:1", "spark://127.0.0.1:1,127.0.0.1:2", "spark://nonsense"])
def test_a_master_that_is_not_there_is_an_error_at_once(master):
    with pytest.raises(SparkFailed) as failure:
        start_spark(master)
    assert str(failure.value) == f"there is no Spark master at {master}"


def test_pyspark_is_imported_by_starting_and_not_before():
    code = "import sys, demaq.spark.session, demaq.spark.jobs; print('pyspark' in sys.modules)"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout == "False\n"
