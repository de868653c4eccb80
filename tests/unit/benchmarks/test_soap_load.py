"""What SOAP costs is compared turn by turn with plain XML, and what is sent is what the policy asks for."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography import x509
from demaq_bench.chart import chart
from demaq_bench.figures import Figure, cpu_seconds
from demaq_bench.http_load import Answered
from demaq_bench.report import tables
from demaq_bench.soap_envelopes import EnvelopeWriter
from demaq_bench.soap_keys import make_keys
from demaq_bench.soap_load import ACTION, POLICY, PROTOCOLS, compare
from demaq_bench.soap_sequences import SourceSequence
from lxml import etree

from demaq.gateways.settings import read_settings
from demaq.soap.policy.statement_policies import read_extension_policy
from demaq.soap.security import Protection, TrustStore, Verification, VerifiedEnvelope, verify
from tests.support.soap.security_parties import MemoryReplayCache

FACTS: dict[str, str | int] = {"cores": 2, "python": "3", "saxon": "13", "spark": "4", "sqlite": "3"}
RELIABILITY = "{http://docs.oasis-open.org/ws-rx/wsrm/200702}"


def turn(seconds: float, cpu: float) -> Answered:
    return Answered(seconds=seconds, milliseconds=(1.0, 2.0), server_cpu_seconds=cpu, client_cpu_seconds=0.0002)


def figures(answered: Sequence[Answered], plain: Sequence[Answered], system: str = "SOAP") -> dict[str, Figure]:
    found = list(compare(answered, plain, {"connections": 1, "system": system}))
    assert all([figure.group == "SOAP requests accepted" for figure in found])
    return {figure.name: figure for figure in found}


def test_speed_and_cpu_time_are_compared_with_those_of_the_same_turn():
    plain = [turn(1.0, 0.001), turn(4.0, 0.004)]
    found = figures([turn(2.0, 0.003), turn(16.0, 0.02)], plain)

    assert (found["speed"].runs, found["ratio"].runs) == ((1.0, 0.125), (0.5, 0.25))
    assert found["node CPU"].runs == pytest.approx((1_500.0, 10_000.0))
    assert found["node CPU, ratio"].runs == pytest.approx((3.0, 5.0))
    assert found["client CPU"].value == pytest.approx(100.0)
    assert found["p50"].value == 1.5
    assert figures(plain, plain, "XML").keys() == {"speed", "node CPU", "client CPU", "p50", "p99"}


def test_where_the_system_tells_no_cpu_time_of_others_there_is_no_figure_for_it():
    found = figures([turn(2.0, 0.0)], [turn(1.0, 0.0)])

    assert found.keys() == {"speed", "ratio", "client CPU", "p50", "p99"}


def test_the_rows_are_below_each_other_and_the_chart_has_a_bar_for_each():
    measured: list[Figure] = []
    for connections in (1, 8):
        for number, protocol in enumerate(PROTOCOLS, 1):
            at = {"connections": connections, "system": protocol.name}
            measured += compare([turn(number * 1.0, number * 0.002)], [turn(1.0, 0.002)], at)

    lines = list(tables(measured))
    start = next(n for n, line in enumerate(lines) if line.startswith("µs of the node's CPU"))
    assert lines[start].split("  ")[-2:] == ["1 connection", "8 connections"]
    rows = [line.split() for line in lines[start + 1 : start + 6]]
    assert rows[0] == ["XML", "1,000", "1,000"]
    assert rows[4] == ["SOAP,", "both", "5,000", "(5.00)", "5,000", "(5.00)"]
    drawn = etree.fromstring(chart(measured, FACTS).encode())
    words = [str(element.text) for element in drawn.iter("{*}text")]
    assert {"CPU time of the node for a request", "1 connection", "8 connections", "SOAP, both", "5,000"} <= set(words)


def test_the_cpu_time_of_a_process_grows_as_it_works():
    def work(seconds: float) -> None:
        until = time.process_time() + seconds
        while time.process_time() < until:
            pass

    own = os.getpid()
    before = cpu_seconds(own)
    if not before:
        pytest.skip("the system does not tell")
    work(0.05)
    assert 0.05 <= cpu_seconds(own) - before < 5.0
    assert cpu_seconds(0) == 0.0


class Service:
    """What the node has, with a policy and keys as they are measured."""

    def __init__(self, folder: Path) -> None:
        self.settings, key = make_keys(folder)
        security = read_extension_policy("WS-Security", POLICY).security
        assert security is not None
        self._required = security.request
        self._trusted = x509.load_pem_x509_certificate((folder / "client.pem").read_bytes())
        self._replays = MemoryReplayCache()
        self.writer = EnvelopeWriter("http://node/both", Protection(requirements=security.request, own_key=key))

    def verify(self, envelope: str) -> VerifiedEnvelope:
        trust = TrustStore(certificates=[self._trusted])
        verification = Verification(requirements=self._required, trust=trust)
        return verify(
            envelope.encode(), verification, now=datetime.now(UTC), random=secrets.token_bytes, replays=self._replays
        )


def test_signed_messages_of_a_sequence_are_numbered_and_no_two_are_the_same(tmp_path):
    service = Service(tmp_path)
    sequence = SourceSequence(service.writer, "urn:uuid:1")
    bodies = ["<a/>", "<a/>", "<b/>"]

    envelopes = [*sequence.write_messages(ACTION, bodies[:2]), *sequence.write_messages(ACTION, bodies[2:])]

    trees = [etree.fromstring(service.verify(envelope).data) for envelope in envelopes]  # none is a replay
    assert [tree.findtext(f".//{RELIABILITY}MessageNumber") for tree in trees] == ["1", "2", "3"]
    assert {tree.findtext(f".//{RELIABILITY}Identifier") for tree in trees} == {"urn:uuid:1"}
    assert [str(tree[1][0].tag) for tree in trees] == ["a", "a", "b"]
    assert len({tree.findtext(".//{*}MessageID") for tree in trees}) == 3


def test_the_files_of_the_service_are_settings_that_a_node_accepts(tmp_path):
    settings = read_settings(Service(tmp_path).settings, incoming=["both"], outgoing=[])

    security = settings.incoming("both").security
    assert (security.key, security.trusted) == (tmp_path / "service.key", (tmp_path / "client.pem",))
    assert (tmp_path / "service.key").stat().st_mode & 0o077 == 0
