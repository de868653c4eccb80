"""Who gets into a standalone cluster, and what can be read on the way: a real master and a real worker."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import demaq
from tests.support.spark import clients_of_cluster
from tests.support.spark.cluster import running_cluster
from tests.support.spark.listening import tcp_addresses

pytestmark = pytest.mark.slow

SECONDS_MAX = 400.0


@pytest.fixture(scope="module")
def facts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    folder, here = tmp_path_factory.mktemp("cluster"), tmp_path_factory.mktemp("here")
    project = [str(Path(demaq.__file__).parents[1]), str(Path(__file__).parents[2])]
    with running_cluster(folder, workers=1) as cluster:
        ports = {port for _, port in tcp_addresses([cluster.master.pid])}
        said = subprocess.run(
            [sys.executable, clients_of_cluster.__file__, cluster.url, json.dumps(cluster.options()), str(here)],
            cwd=here,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(project)},
            capture_output=True,
            text=True,
            timeout=SECONDS_MAX,
        )
        assert said.returncode == 0, said.stderr
        secret = cluster.secret_file.read_bytes().strip()
        known = {cluster.secret_file, folder / "conf" / "spark-defaults.conf"}
        files = [file for top in (folder, here) for file in top.rglob("*") if file.is_file()]
        found: dict[str, dict[str, Any]] = {}
        for fact in map(json.loads, said.stdout.splitlines()):
            found[fact.pop("step")] = fact
        found["written"] = {
            "logs": {file.name for file in files} & {"master.log", "worker1.log", "spark.log", "stderr"},
            "with the secret": [str(file) for file in files if file not in known and secret in file.read_bytes()],
        }
        found["master"] = {"ports": len(ports), "port for submissions": 6066 in ports}
        return found


def test_without_a_secret_nothing_is_tried_and_the_error_says_how_to_give_it(facts):
    reason = facts["none"]["reason"]
    assert reason.startswith("the secret of the cluster at spark://127.0.0.1:")
    assert "--conf spark.authenticate.secret.file=FILE" in reason
    assert "DEMAQ_SPARK_SECRET" in reason
    assert "\n" not in reason


@pytest.mark.parametrize(
    ("client", "reason"),
    [("another", "its master has another secret, or none"), ("off", "its master asks for a secret")],
)
def test_a_client_without_the_right_secret_is_refused_with_the_reason(facts, client: str, reason: str):
    assert f": {reason}" in facts[client]["reason"]
    assert "\n" not in facts[client]["reason"]


def test_with_the_secret_tasks_run(facts):
    assert facts["right"]["answer"] == clients_of_cluster.MARKER.decode() * 2


def test_what_driver_and_executors_say_to_each_other_is_encrypted(facts):
    assert facts["right"]["recorded"] > 10_000
    assert facts["right"]["readable"] == []


def test_the_secret_is_on_no_command_line_and_in_no_log(facts):
    assert facts["right"]["executors"] > 0
    assert facts["right"]["secret_on_command_lines"] == 0
    assert facts["written"]["logs"] == {"master.log", "worker1.log", "spark.log", "stderr"}
    assert facts["written"]["with the secret"] == []


def test_a_master_set_up_as_the_page_says_takes_no_submissions_without_a_secret(facts):
    assert facts["master"] == {"ports": 2, "port for submissions": False}  # RPC and the pages
