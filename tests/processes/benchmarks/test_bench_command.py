"""`demaq bench` prints what it says it measures. No test looks at a time."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from demaq_bench import (
    backlog,
    breakdown,
    gateway_load,
    memory_growth,
    outbox_load,
    peers,
    retained,
    rules_per_queue,
    soap_load,
    start,
    suite,
)
from demaq_bench.crash import Summary
from demaq_bench.figures import WrongResult
from demaq_bench.http_load import Task, run
from demaq_bench.retained import SMALLEST
from demaq_bench.server_processes import ModuleProcess
from demaq_bench.soap_envelopes import EnvelopeWriter, make_headers
from demaq_bench.soap_keys import make_keys
from demaq_bench.soap_sequences import SourceSequence
from demaq_bench.workloads import APPLICATIONS
from lxml import etree

from demaq.cli import main as cli
from demaq.gateways.settings import read_settings
from tests.support.gateways.nodes import Running, running

TINY = suite.PipelineSizes(
    steps=140,
    look_ups=20,
    invoices=(40,),
    backlog=(20,),
    retained=(SMALLEST,),
    rules=(3,),
    rules_messages=5,
    message_bytes=(4_000,),
    size_messages=5,
    latency=2,
)
ALONE = ["--pipeline", "inline", "--runs", "1"]


@pytest.fixture(autouse=True)
def tiny(monkeypatch):
    """Medians are for those who look at the figures, and Spark is measured by those who have the time."""
    monkeypatch.setattr(suite, "PipelineSizes", lambda: TINY)
    monkeypatch.setattr(breakdown, "INVOICES", 8)
    monkeypatch.setattr(backlog, "SYSTEMS", {"node, inline": backlog.SYSTEMS["node, inline"]})
    monkeypatch.setattr(retained, "RUNS", 1)
    monkeypatch.setattr(retained, "start_seconds", lambda store: 1.0)
    monkeypatch.setattr(rules_per_queue, "CONDITIONS", {"selected by a value": '/order/kind = "{n}"'})
    monkeypatch.setattr(memory_growth, "SAMPLES", 2)


Json = dict[str, Any]


def measured(capsys, *options: str) -> list[Json]:
    assert cli.run(cli.demaq, ["bench", "--json", *ALONE, *options]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["format"] == 1
    assert {"cores", "python", "saxon", "spark", "sqlite"} <= document["machine"].keys()
    assert document["settings"]["runs"] == 1
    for figure in document["figures"]:
        assert {"group", "name", "value", "unit", "at"} <= figure.keys()
        assert figure["value"] >= 0
        assert ("reached" in figure) == ("target" in figure)
    figures: list[Json] = document["figures"]
    return figures


def named(figures: list[Json], group: str, name: str) -> list[Json]:
    return [figure for figure in figures if (figure["group"], figure["name"]) == (group, name)]


BASELINES = ["hand-written", "hand-written, fused", "hand-written, fused, 2 evaluators"]


@pytest.mark.slow
def test_a_workload_is_compared_with_hand_written_code(tmp_path: Path, capsys):
    figures = measured(capsys, "--workload", "W2", "--saxon", "--folder", str(tmp_path))

    speeds = named(figures, "throughput", "speed")
    systems = [(figure["at"]["per_commit"], figure["at"]["system"]) for figure in speeds]
    nodes = ["node, inline", "node, Saxon"]
    assert systems == [(n, system) for n in (100, 1) for system in [*nodes, *BASELINES]]
    ratios = named(figures, "throughput", "ratio")
    assert [ratio.get("target") for ratio in ratios] == ["at least 1.5", "at least 0.6", "at least 2.5", None]
    assert ratios[0]["value"] == pytest.approx(speeds[0]["value"] / speeds[2]["value"])
    fused = named(figures, "throughput", "ratio, fused, 2 evaluators")
    assert fused[0]["value"] == pytest.approx(speeds[0]["value"] / speeds[4]["value"])
    others = {
        figure["at"]["system"]: figure["value"] for figure in named(figures, "throughput", "CPU, other processes")
    }
    assert [system for system, value in others.items() if value > 0] == [*nodes, BASELINES[2]]
    assert all([figure["value"] > 0 for figure in named(figures, "throughput", "CPU, own process")])
    (step,) = named(figures, "a step", "time")
    assert {"receive", "evaluate", "validate and build", "commit"} <= step["parts"].keys()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_look_ups_and_latency_are_measured_and_drawn(tmp_path: Path, capsys, monkeypatch):
    monkeypatch.setattr(breakdown, "measure", lambda *_: [])
    chart = tmp_path / "look-ups.svg"
    figures = measured(capsys, "--workload", "W3", "--latency", "--chart", str(chart))

    costs = [cost["at"] for cost in named(figures, "look-ups", "cost") if cost["at"]["per_commit"] == 100]
    assert [(cost["invoices"], cost["system"]) for cost in costs] == [(40, s) for s in ["node, inline", *BASELINES]]
    assert [figure["name"] for figure in figures if figure["group"] == "latency"] == ["p50", "p99"]
    drawn = chart.read_text(encoding="utf-8")
    assert "W3: a look-up among many invoices" in drawn
    assert "One message through three steps" in drawn


@pytest.mark.slow
def test_peers_are_compared_on_all_workloads_and_targets_are_listed(tmp_path: Path, capsys, monkeypatch):
    messages = {"W1": 40, "W1n": 40, "W2": 20, "W2n": 20}
    tiny = peers.PeerSizes(messages=messages, look_ups=20, invoices=(40, 80), latency=2)
    monkeypatch.setattr(peers, "QUICK", tiny)

    options = ["--quick", "--no-spark", "--runs", "1", "--folder", str(tmp_path)]
    assert cli.run(cli.demaq, ["bench", "peers", *options]) == 0

    rows = [line.split(" | ") for line in capsys.readouterr().out.splitlines() if line.startswith("| ")]
    targets = {about.removeprefix("| "): target for about, _, target, _ in rows[1:] if not about.startswith("| ---")}
    assert targets == {
        "throughput, W1, 100 per commit, node, inline, ratio": "at least 1.3",
        "throughput, W1, 100 per commit, node, inline, ratio, fused, 2 evaluators": "at least 0.7",
        "throughput, W1, 100 per commit, node, Saxon, ratio": "at least 0.45",
        "throughput, W1, 1 per commit, node, inline, ratio": "at least 1.5",
        "throughput, W1n, 100 per commit, node, inline, ratio, without namespaces": "at least 0.8",
        "throughput, W2, 100 per commit, node, inline, ratio": "at least 1.5",
        "throughput, W2, 100 per commit, node, Saxon, ratio": "at least 0.6",
        "throughput, W2, 1 per commit, node, inline, ratio": "at least 2.5",
        "throughput, W2n, 100 per commit, node, inline, ratio, without namespaces": "at least 0.8",
        "look-ups, W3, 40 invoices, 100 per commit, node, inline, ratio": "at least 0.6",
        "look-ups, W3, 80 invoices, 100 per commit, node, inline, ratio": "at least 0.6",
        "look-ups, W3, 100 per commit, node, inline, among the most, among the fewest = 1": "at most 1.25",
        "latency, node, inline, p50": "at most 1.5",
        "latency, node, inline, p99": "at most 3",
    }
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_the_start_of_commands_is_measured(tmp_path: Path, capsys, monkeypatch):
    monkeypatch.setattr(start, "SYSTEMS", {"small": start.SYSTEMS["small"]})

    assert cli.run(cli.demaq, ["bench", "start", "--runs", "1", "--json", "--folder", str(tmp_path)]) == 0

    figures: list[Json] = json.loads(capsys.readouterr().out)["figures"]
    seconds = {figure["at"]["system"]: figure["value"] for figure in named(figures, "start", "seconds")}
    assert list(seconds) == ["check", "run, ready", "run, first message processed", "run after a kill, ready"]
    assert 0 < seconds["run, ready"] < seconds["run, first message processed"]
    assert all([figure["value"] > 0 for figure in named(figures, "start", "CPU")])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_what_grows_is_measured_and_shown_in_tables(tmp_path: Path, capsys):
    curves = [word for curve in ("backlog", "retained", "rules", "size") for word in ("--curve", curve)]

    assert cli.run(cli.demaq, ["bench", *ALONE, *curves, "--folder", str(tmp_path)]) == 0

    lines = capsys.readouterr().out.splitlines()
    for expected in (
        ["a backlog worked off, steps/s", "20 waiting"],
        ["most memory of a process (evaluator) meanwhile, MB", "20 waiting"],
        ["among retained messages, µs for each step", f"{SMALLEST:,} retained"],
        ["rules on one queue, µs for each step", "3 rules"],
        ["W1 by the size of messages, µs for each, and compared with hand-written code", "4.0 KB"],
    ):
        assert any([all([part in line for part in expected]) for line in lines]), expected
    assert list(tmp_path.iterdir()) == []


def test_answers_that_differ_are_an_error(capsys, monkeypatch):
    def disagreeing(*_):
        raise WrongResult("W1: hand-written and node, inline do not agree")

    monkeypatch.setattr(suite, "_part", disagreeing)

    assert cli.run(cli.demaq, ["bench"]) == 1

    assert "the figures mean nothing: W1: hand-written and node, inline do not agree" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--pipeline", "saxon"], "--pipeline"),
        (["--runs", "0"], "--runs"),
        (["--curve", "time"], "--curve"),
        (["--runs", "3", "engine"], "do not go with `engine`"),
        (["engine", "--retained", "many"], "--retained"),
    ],
)
def test_what_cannot_be_measured_is_wrong_usage(options, reason, capsys):
    assert cli.run(cli.demaq, ["bench", *options]) == 2

    assert reason in capsys.readouterr().err


def test_a_picture_that_cannot_be_drawn_is_reported_before_anything_is_measured(tmp_path: Path, capsys):
    for name, reason in (("chart.gif", "neither .svg nor .png"), ("nowhere/chart.svg", "there is no folder")):
        assert cli.run(cli.demaq, ["bench", "--chart", str(tmp_path / name)]) == 1

        assert reason in capsys.readouterr().err


@pytest.mark.slow
def test_the_engine_is_measured_as_it_starts_and_in_the_long_run(tmp_path: Path, capsys):
    small = ["--retained", "40", "--memory", "100"]

    assert cli.run(cli.demaq, ["bench", "engine", "--json", "--folder", str(tmp_path), *small]) == 0

    figures = {(figure["group"], figure["name"]) for figure in json.loads(capsys.readouterr().out)}
    assert ("a node starts, until its first message is processed", "on 40 messages") in figures
    assert ("memory over 100 messages", "its evaluator, in the end") in figures
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_the_outbox_is_measured_beside_a_slow_peer_and_with_many_waiting(tmp_path: Path, capsys, monkeypatch):
    monkeypatch.setattr(outbox_load, "SLOW_SECONDS", 0.2)
    options = ["--json", "--runs", "1", "--messages", "200", "--waiting", "2000", "--folder", str(tmp_path)]
    assert cli.run(cli.demaq, ["bench", "outbox", *options]) == 0

    figures = {(each["group"], each["name"]): each for each in json.loads(capsys.readouterr().out)}
    for name in ("xml", "soap"):
        assert figures["messages sent", f"{name}, speed"]["value"] > 0
        assert figures["messages sent", f"{name}, node CPU for each"]["value"] > 0
    ratio = figures["beside a slow peer", "ratio"]
    speeds = [figures["beside a slow peer", f"{name}, speed"]["value"] for name in ("beside", "alone")]
    assert ratio["value"] == pytest.approx(speeds[0] / speeds[1])
    assert figures["memory", "with 2,000 waiting"]["value"] > 10
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_gateways_are_compared_with_a_hand_written_handler(tmp_path: Path, capsys, monkeypatch):
    tiny = gateway_load.GatewaySizes(bytes=(64_000,), requests={2: 16}, conversations=4, soap={2: 8})
    monkeypatch.setattr(gateway_load, "GatewaySizes", lambda: tiny)
    chart = tmp_path / "gateways.svg"
    (stores := tmp_path / "stores").mkdir()

    options = ["--json", "--runs", "1", "--chart", str(chart), "--folder", str(stores)]
    assert cli.run(cli.demaq, ["bench", "gateways", *options]) == 0

    document = json.loads(capsys.readouterr().out)
    figures: list[Json] = document["figures"]
    assert document["format"] == 1
    speeds = named(figures, "requests accepted", "speed")
    where = [(each["at"]["bytes"], each["at"]["connections"], each["at"]["system"]) for each in speeds]
    systems = ("node", "node, rules at work", "hand-written", "answers at once")
    assert where == [(64_000, 2, system) for system in systems]
    ratios = named(figures, "requests accepted", "ratio")
    assert [ratio.get("target") for ratio in ratios] == ["at least 1.0", None]
    assert ratios[0]["value"] == pytest.approx(speeds[0]["value"] / speeds[2]["value"])
    answered = [(each["name"], each["at"]["system"]) for each in figures if each["group"] == "conversation answered"]
    assert answered == [(name, system) for system in ("node", "hand-written") for name in ("p50", "p99")]
    costs = named(figures, "SOAP requests accepted", "node CPU")
    names = ["XML", "SOAP", "SOAP, signed", "SOAP, reliable", "SOAP, both"]
    assert [(each["at"]["connections"], each["at"]["system"]) for each in costs] == [(2, name) for name in names]
    assert all([each["value"] > 0 for each in costs])
    compared = named(figures, "SOAP requests accepted", "node CPU, ratio")
    assert [each["at"]["system"] for each in compared] == names[1:]
    assert compared[1]["value"] == pytest.approx(costs[2]["value"] / costs[0]["value"])
    drawn = chart.read_text(encoding="utf-8")
    assert "HTTP, a hand-written handler = 1" in drawn
    assert "CPU time of the node for a request" in drawn
    assert list(stores.iterdir()) == []


@pytest.fixture
def gateways(tmp_path: Path) -> Iterator[Running]:
    """The application that is measured with SOAP."""
    for name in ("soap-signed.xml", "soap-reliable.xml"):
        shutil.copy(APPLICATIONS / name, tmp_path)
    file, _ = make_keys(tmp_path)
    settings = read_settings(file, incoming=["xml", "soap", "signed", "reliable", "both"], outgoing=[])
    with running(tmp_path, soap_load.APPLICATION.read_text(encoding="utf-8"), settings) as here:
        yield here


def test_each_connection_sends_its_own_messages_once_and_in_their_order(gateways: Running):
    writer = EnvelopeWriter(f"{gateways.address}/reliable")
    sequences = [SourceSequence.create(writer) for _ in range(3)]
    scripts = [
        sequence.write_messages("urn:a", [f"<m><s>{number}</s><n>{n}</n></m>" for n in range(5)])
        for number, sequence in enumerate(sequences)
    ]
    task = Task(
        address=writer.address,
        bodies=(),
        connections=3,
        requests=15,
        status=200,
        headers=make_headers("urn:a"),
        scripts=tuple(scripts),
        server=os.getpid(),
    )

    found = run(task)

    assert len(found.milliseconds) == 15
    assert found.client_cpu_seconds > 0
    stored = [etree.fromstring(body) for body in gateways.bodies("reliable")]
    for number in range(3):
        own = [each.findtext("n") for each in stored if each.findtext("s") == str(number)]
        assert own == ["0", "1", "2", "3", "4"]
    for sequence in sequences:
        sequence.end()


def test_a_sequence_that_has_not_received_all_of_its_messages_is_an_error(gateways: Running):
    writer = EnvelopeWriter(f"{gateways.address}/reliable")
    sequence = SourceSequence.create(writer)
    first, _, third = sequence.write_messages("urn:a", ["<m/>", "<m/>", "<m/>"])
    for envelope in (first, third):
        assert gateways.client.post("/reliable", envelope, make_headers("urn:a")).status_code == 200

    with pytest.raises(WrongResult, match=r"of 3 messages has received \[\('1', '1'\), \('3', '3'\)\]"):
        sequence.end()


def test_a_service_that_refuses_a_sequence_is_an_error(gateways: Running):
    with pytest.raises(WrongResult, match="CreateSequence was answered by 500"):
        SourceSequence.create(EnvelopeWriter(f"{gateways.address}/both"))  # it is not signed


def test_answers_that_are_not_as_they_must_be_are_an_error(tmp_path: Path):
    with ModuleProcess("demaq_bench.instant_server", tmp_path / "log") as server:
        task = Task(address=f"{server.address}/", bodies=("<a/>",), connections=2, requests=3, status=200)
        with pytest.raises(WrongResult, match="an answer is not 200"):
            run(task)


@pytest.mark.slow
def test_a_campaign_of_crashes_says_what_it_found(tmp_path: Path, capsys):
    assert cli.run(cli.demaq, ["bench", "crash", "--trials", "1", "--seed", "3", "--folder", str(tmp_path)]) == 0

    assert capsys.readouterr().out.splitlines()[-1] == "0 missing, 0 doubled, 0 otherwise wrong"
    assert list(tmp_path.iterdir()) == []


def test_a_campaign_that_finds_something_wrong_ends_with_1_and_keeps_the_store(capsys, monkeypatch):
    found = Summary(1, trials=1, missing=1, problems=["order s0-1 is gone"], folder="demaq-crash-x/store-0")
    monkeypatch.setattr("demaq_bench.crash.campaign", lambda *_, **__: found)

    assert cli.run(cli.demaq, ["bench", "crash"]) == 1

    output = capsys.readouterr()
    assert output.out.splitlines()[-1] == "1 missing, 0 doubled, 0 otherwise wrong"
    assert output.err == "order s0-1 is gone\ndemaq: the store is kept in demaq-crash-x/store-0\n"
