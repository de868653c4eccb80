"""`demaq bench` prints what it says it measures. No test looks at a time."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from demaq.benchmarks import memory, retained, throughput
from demaq.benchmarks.crash import Summary
from demaq.benchmarks.retained import SMALLEST
from demaq.benchmarks.workloads import W2
from demaq.cli import main as cli

SMALL = ["--messages", "80", "--retained", str(SMALLEST), "--latency", "2", "--memory", "100"]


@pytest.fixture(autouse=True)
def one_run(monkeypatch):
    """Medians are for those who look at the figures."""
    monkeypatch.setattr(throughput, "RUNS", 1)
    monkeypatch.setattr(retained, "RUNS", 1)
    monkeypatch.setattr(memory, "SAMPLES", 2)


def test_the_engine_is_measured_in_all_its_parts(tmp_path: Path, capsys):
    assert cli.run(cli.demaq, ["bench", "engine", "--json", "--folder", str(tmp_path), *SMALL]) == 0

    figures = json.loads(capsys.readouterr().out)
    for workload in ("W1 transform", "W2 procurement"):
        for commits in ("one commit each", "grouped"):
            names = [figure["name"] for figure in figures if figure["group"] == f"{workload}, {commits}"]
            expected = ["engine", "by hand", "the engine's speed, by hand = 1"]
            expected += ["engine, written to disk", "by hand, written to disk"]
            assert names[:5] == expected
        (whole,) = [figure for figure in figures if "parts" in figure and figure["group"].startswith(workload)]
        assert {"receive", "evaluate", "validate and build", "commit"} <= whole["parts"].keys()
    named = {(figure["group"], figure["name"]) for figure in figures}
    assert {name for group, name in named if group.startswith("latency")} == {"p50", "p99"}
    for reads in retained.READS.values():
        assert (f"a message that {reads}, among many retained", f"{SMALLEST:,} retained") in named
    assert ("a node starts, until its first message is processed", f"on {SMALLEST:,} messages") in named
    assert ("memory over 100 messages", "its evaluator, in the end") in named
    assert all([figure["value"] >= 0 for figure in figures])
    assert list(tmp_path.iterdir()) == []


def test_results_that_differ_are_an_error(tmp_path: Path, capsys, monkeypatch):
    monkeypatch.setattr(throughput, "refused_requests", lambda requests: requests + 1)
    monkeypatch.setattr(throughput, "WORKLOADS", (W2,))
    monkeypatch.setattr("demaq.benchmarks.engine.memory.measure", lambda *_: [])

    assert cli.run(cli.demaq, ["bench", "engine", "--folder", str(tmp_path), *SMALL]) == 1

    assert "the figures mean nothing: W2: " in capsys.readouterr().err


@pytest.mark.parametrize("sizes", ["5000,1000", "10", "many", ""])
def test_sizes_that_cannot_be_measured_are_wrong_usage(sizes, capsys):
    assert cli.run(cli.demaq, ["bench", "engine", "--retained", sizes]) == 2

    assert "--retained" in capsys.readouterr().err


def test_a_campaign_of_crashes_says_what_it_found(tmp_path: Path, capsys):
    assert cli.run(cli.demaq, ["bench", "crash", "--trials", "2", "--seed", "3", "--folder", str(tmp_path)]) == 0

    assert capsys.readouterr().out.splitlines()[-1] == "0 missing, 0 doubled, 0 otherwise wrong"
    assert list(tmp_path.iterdir()) == []


def test_a_campaign_that_finds_something_wrong_ends_with_1_and_keeps_the_store(capsys, monkeypatch):
    found = Summary(1, trials=1, missing=1, problems=["order s0-1 is gone"], folder="demaq-crash-x/store-0")
    monkeypatch.setattr("demaq.benchmarks.crash.campaign", lambda *_: found)

    assert cli.run(cli.demaq, ["bench", "crash"]) == 1

    told = capsys.readouterr()
    assert told.out.splitlines()[-1] == "1 missing, 0 doubled, 0 otherwise wrong"
    assert told.err == "order s0-1 is gone\ndemaq: the store is kept in demaq-crash-x/store-0\n"
