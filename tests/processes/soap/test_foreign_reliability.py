"""gSOAP is the source of sequences, a running node their destination: plain, over a bad network, and secured.

Every message of the client arrives once and in order at the application, in both versions of WS-ReliableMessaging.
"""

from __future__ import annotations

import random
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from lxml import etree

from demaq.gateways.security.recipients import Recipients
from demaq.gateways.settings import IncomingSettings, Settings
from demaq.soap.reliability.inbound_sequence import InboundSequence
from tests.processes.gateways.test_reliable_service import seen, service, wsdl
from tests.processes.gateways.test_secured_service import Party
from tests.processes.gateways.test_secured_service import service as secured_service
from tests.support.gateways.nodes import Running
from tests.support.soap.gsoap_programs import GsoapClient, build_gsoap_client
from tests.support.soap.interoperable_policies import ENCRYPTED_RSA_1_5, SIGNED_RELIABLE, USER_DIGEST, make_certificates
from tests.support.soap.lossy_relay import MISFORTUNES, LossyRelay, run_lossy_relay
from tests.support.soap.security_parties import private_pem

pytestmark = [pytest.mark.slow, pytest.mark.sampled]
COUNT = 20
NUMBERS = [str(number) for number in range(1, COUNT + 1)]
VERSIONS = pytest.mark.parametrize(
    ("soap", "rm"), [("1.1", "1.1"), ("1.2", "1.1"), ("1.1", "1.0"), ("1.2", "1.0")], ids=lambda version: str(version)
)
SECURED = pytest.mark.parametrize(
    ("text", "words"),
    [
        (SIGNED_RELIABLE, "sign"),
        (SIGNED_RELIABLE, "soap12 sign"),
        (ENCRYPTED_RSA_1_5, "sign encrypt issuer"),
        (USER_DIGEST, "user"),
    ],
    ids=["signed", "signed in SOAP 1.2", "encrypted", "user"],
)


@pytest.fixture(scope="module")
def clients(tmp_path_factory: pytest.TempPathFactory) -> dict[str, GsoapClient]:
    """By the version of WS-ReliableMessaging."""
    return {
        version: build_gsoap_client(tmp_path_factory.mktemp(f"gsoap{version}"), wsdl("1.2"), version)
        for version in ("1.0", "1.1")
    }


def orders(here: Running) -> list[str]:
    """Return the orders that the application got, in this order."""
    trees = [etree.fromstring(body) for body in here.bodies("shop")]
    return [str(tree.findtext("{urn:orders}pieces")) for tree in trees if tree.tag == "{urn:orders}order"]


def answers(lines: list[str]) -> list[tuple[str, str]]:
    """Return for each answer its number, and that of its order."""
    return [found.groups() for line in lines if (found := re.fullmatch(r"answer (\d+) to (\d+)", line)) is not None]  # type: ignore[misc]


def sequence_states(here: Running) -> list[str]:
    return [InboundSequence.from_json(each.content).state.value for each in here.node.store.sequences("in")]


def assert_ended(lines: list[str]) -> None:
    assert re.fullmatch(r"terminated after \d+ with 0 missing", lines[-1] if lines[-1] != "verified" else lines[-2])


@VERSIONS
def test_messages_and_orders_of_gsoap_arrive_once_and_in_order(tmp_path, clients, soap, rm):
    version = "soap12" if soap == "1.2" else ""
    with service(tmp_path, soap, rm) as here:
        runs = ["note", "note acks", "note offer acks", "order", "order acks", "order offer"]
        for run in runs:
            lines = clients[rm].run(f"{here.address}/shop", f"{version} reliable {run}", COUNT)
            assert_ended(lines)
            assert answers(lines) == ([(number, number) for number in NUMBERS] if "order" in run else [])
        here.wait_for("remarks", 3 * COUNT)
        assert seen(here) == NUMBERS * 3
        assert orders(here) == NUMBERS * 3
        assert sequence_states(here) == ["terminated"] * len(runs)
        assert here.bodies("demaq:errors") == []


@VERSIONS
def test_messages_and_orders_of_gsoap_arrive_once_and_in_order_over_a_bad_network(
    tmp_path, clients, chance: random.Random, soap, rm
):
    version = "soap12" if soap == "1.2" else ""
    with service(tmp_path, soap, rm) as here:
        for run in ("note acks", "order offer"):
            with run_lossy_relay(here.address, chance) as relay:
                lines = clients[rm].run(f"{relay.address}/shop", f"{version} reliable lossy {run}", COUNT)
            assert_ended(lines)
            assert_hurt(relay)
            assert [line for line in lines if line.startswith("lost")]
            assert answers(lines) == ([(number, number) for number in NUMBERS] if "order" in run else [])
        here.wait_for("remarks", COUNT)
        assert seen(here) == NUMBERS
        assert orders(here) == NUMBERS
        assert here.bodies("demaq:errors") == []


def assert_hurt(relay: LossyRelay) -> None:
    assert all([relay.seen[misfortune] for misfortune in MISFORTUNES]), relay.seen


@VERSIONS
def test_gsoap_gets_acknowledgements_at_an_address_of_its_own(tmp_path, clients, soap, rm):
    version = "soap12" if soap == "1.2" else ""
    own = replace(IncomingSettings(), answer_recipients=Recipients.of(["127.0.0.1:*"]))
    with service(tmp_path, soap, rm, Settings(incoming_default=own)) as here:
        lines = clients[rm].run_duplex(f"{here.address}/shop", free_port(), f"{version} note", COUNT)
        assert lines == ["created", "terminated with 0 missing"]
        here.wait_for("remarks", COUNT)
        assert seen(here) == NUMBERS
        assert sequence_states(here) == ["terminated"]
        assert here.bodies("demaq:errors") == []


@VERSIONS
def test_gsoap_gets_answers_to_its_orders_at_an_address_of_its_own(tmp_path, clients, soap, rm):
    version = "soap12" if soap == "1.2" else ""
    own = replace(IncomingSettings(), answer_recipients=Recipients.of(["127.0.0.1:*"]))
    with service(tmp_path, soap, rm, Settings(incoming_default=own)) as here:
        lines = clients[rm].run_duplex(f"{here.address}/shop", free_port(), f"{version} order", COUNT)
        assert (lines[0], lines[-1]) == ("created", "terminated with 0 missing")
        answered = [re.fullmatch(r"answer (\d+) to urn:message:(\d+)", line) for line in lines[1:-1]]
        pairs = [found.groups() for found in answered if found is not None]
        assert len(pairs) == len(lines) - 2
        assert sorted([number for number, _ in pairs], key=int) == NUMBERS
        assert [pair for pair in pairs if pair[0] != pair[1]] == []
        assert orders(here) == NUMBERS
        assert sequence_states(here) == ["terminated"]
        assert here.bodies("demaq:errors") == []


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@contextmanager
def secured(folder: Path, text: str) -> Iterator[tuple[Party, list[Path]]]:
    """Run a reliable and secured service, and yield it with the files of its client."""
    certificates = make_certificates()
    with secured_service(folder, text, certificates, reliable=True) as party:
        (folder / "client.key").write_bytes(private_pem("client"))
        yield party, [folder / name for name in ("client.key", "client.pem", "service.pem")]


@SECURED
def test_a_secured_sequence_of_gsoap_arrives_once_and_in_order(tmp_path, clients, text, words):
    with secured(tmp_path, text) as (party, files):
        here = party.here
        for run in ("note", "order acks"):
            lines = clients["1.1"].run(f"{here.address}/shop", f"{words} reliable {run}", COUNT, files)
            assert_ended(lines)
            if "sign" in words:  # the answers to all messages, CreateSequence, AckRequested, Close and Terminate
                assert lines.count("verified") == COUNT + 4
        assert answers(lines) == [(number, number) for number in NUMBERS]
        here.wait_for("remarks", 2 * COUNT)
        assert [text for text in seen(here) if text.isdecimal()] == NUMBERS
        assert orders(here) == NUMBERS
        senders = {text for text in seen(here) if not text.isdecimal()}
        assert senders == ({"ann"} if words == "user" else {"CN=client,O=Test\\, Inc.,C=DE"})


@SECURED
def test_a_secured_sequence_of_gsoap_arrives_once_and_in_order_over_a_bad_network(
    tmp_path, clients, chance: random.Random, text, words
):
    with secured(tmp_path, text) as (party, files):
        here = party.here
        for run in ("note", "order"):
            with run_lossy_relay(here.address, chance) as relay:
                lines = clients["1.1"].run(f"{relay.address}/shop", f"{words} reliable lossy {run}", COUNT, files)
            assert_ended(lines)
            assert_hurt(relay)
        assert answers(lines) == [(number, number) for number in NUMBERS]
        here.wait_for("remarks", 2 * COUNT)
        assert [text for text in seen(here) if text.isdecimal()] == NUMBERS
        assert orders(here) == NUMBERS
        assert here.bodies("demaq:errors") == []
