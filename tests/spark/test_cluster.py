"""The same on a real cluster: a master and two workers on this machine."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.spark import on_cluster
from tests.spark.cluster import running_cluster

SECONDS_MAX = 480.0


@pytest.fixture(scope="module")
def facts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    folder, here = tmp_path_factory.mktemp("cluster"), tmp_path_factory.mktemp("here")
    with running_cluster(folder) as cluster:
        pids = [cluster.master.pid, *[worker.pid for worker in cluster.workers]]
        said = subprocess.run(
            [sys.executable, on_cluster.__file__, cluster.url, str(folder / "driver"), json.dumps(cluster.options())],
            cwd=here,
            capture_output=True,
            text=True,
            timeout=SECONDS_MAX,
        )
        assert said.returncode == 0, said.stderr
    found = {fact.pop("step"): fact for fact in map(json.loads, said.stdout.splitlines())}
    found["daemons"] = {"left": [pid for pid in pids if Path(f"/proc/{pid}").exists()]}
    return found


def test_rules_are_evaluated_by_the_package_that_came_with_the_job(facts):
    answers = facts["evaluated"]["answers"]
    assert all("demaq-package.zip/demaq/" in file for file, *_ in answers), answers
    assert ["<y>1</y>" in answers[0][2], "<y>2</y>" in answers[1][2]] == [True, True]


def test_tasks_are_spread_over_the_executors(facts):
    assert len({folder for _, folder, *_ in facts["evaluated"]["answers"]}) == 2


def test_a_killed_executor_costs_its_own_task_alone(facts):
    assert facts["lost"] == {"answers": [0], "lost": [1]}
    assert facts["after"]["answers"] == ["1", "2", "3", "4"]


def test_the_driver_itself_imports_nothing_from_the_archive(facts):
    assert not facts["closed"]["imported_from_archive"]


def test_nothing_of_the_cluster_is_left(facts):
    assert facts["daemons"]["left"] == []
