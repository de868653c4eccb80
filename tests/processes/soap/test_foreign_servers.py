"""A node sends to services of gSOAP: in sequences, signed, as a user, over a bad network, and to servers it must not trust."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding
from lxml import etree

from demaq.engine.error_routing import kind_of
from demaq.gateways.security.secrets import Secret
from demaq.gateways.settings import MessageSecuritySettings, OutgoingSettings, Settings
from demaq.soap.reliability.outbound_sequence import OutboundSequence, OutboundState
from tests.processes.gateways.test_reliable_sending import QUICK
from tests.processes.gateways.test_reliable_service import wsdl
from tests.processes.gateways.test_secured_service import PASSWORD
from tests.processes.soap.test_foreign_reliability import free_port
from tests.support.gateways.nodes import ANY_PORT, Running, running, wait_until, written
from tests.support.soap.gsoap_programs import GsoapServer, build_gsoap_server
from tests.support.soap.interoperable_policies import (
    SIGNED_ADDRESSED,
    SIGNED_BODY_AND_TIME,
    SIGNED_RELIABLE,
    USER_DIGEST,
    make_certificates,
)
from tests.support.soap.lossy_relay import MISFORTUNES, run_lossy_relay
from tests.support.soap.policies import nested, policy
from tests.support.soap.security_parties import private_pem

pytestmark = [pytest.mark.slow, pytest.mark.sampled]
APPLICATION = """
module sender errorqueue failures;
create queue start
create queue failures
create queue answers
create queue shop kind outgoingGateway interface shop.wsdl port OrdersPort USING replyto answers
create rule forward for start if (/send) then do enqueue /send/* into shop
"""
RELIABLE = {
    "1.0": policy("<wsrm:RMAssertion/>" + nested("wsam:Addressing")),
    "1.1": policy(nested("wsrmp:RMAssertion")),
}
"""gSOAP has WS-ReliableMessaging 1.0 with WS-Addressing 1.0 alone."""
COUNT = 20
PATIENT = 1_000
"""Attempts. gSOAP drops every message that comes before another one of its sequence."""
NUMBERS = [str(number) for number in range(1, COUNT + 1)]
VERSIONS = pytest.mark.parametrize(
    ("soap", "rm"), [("1.1", "1.1"), ("1.2", "1.1"), ("1.1", "1.0"), ("1.2", "1.0")], ids=lambda version: str(version)
)
SOAPS = pytest.mark.parametrize("soap", ["1.1", "1.2"])


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, GsoapServer]:
    """By the version of WS-ReliableMessaging."""
    return {
        version: build_gsoap_server(tmp_path_factory.mktemp(f"server{version}"), wsdl("1.2"), version)
        for version in ("1.0", "1.1")
    }


@dataclass(frozen=True)
class Shop:
    """A node, and the file of a server that it sends to."""

    here: Running
    file: Path

    def send(self, *kinds: str) -> None:
        """Send messages with the numbers from 1 on, of all kinds in turn."""
        for number in NUMBERS:
            note, order = f"<o:note>{number}</o:note>", f"<o:item>tea</o:item><o:pieces>{number}</o:pieces>"
            bodies = {"note": note, "order": f"<o:order>{order}</o:order>"}
            for kind in kinds:
                self.here.node.enqueue("start", f'<send xmlns:o="urn:orders">{bodies[kind]}</send>')

    def wait_until_sent(self) -> None:
        store = self.here.node.store
        wait_until(lambda: not store.pending(1) and not store.sendings())

    def received(self, kind: str) -> list[str]:
        """Return what the server's application has got of a kind, in this order."""
        lines = self.file.read_text().splitlines() if self.file.exists() else []
        return [line.partition(" ")[2] for line in lines if line.partition(" ")[0] == kind]

    @property
    def answers(self) -> list[str]:
        trees = [etree.fromstring(body) for body in self.here.bodies("answers")]
        return [str(tree.findtext("{urn:orders}number")) for tree in trees]

    @property
    def failures(self) -> list[str | None]:
        return [kind_of(body) for body in self.here.bodies("failures")]

    @property
    def sequences(self) -> list[OutboundSequence]:
        return [OutboundSequence.from_json(each.content) for each in self.here.node.store.sequences("out")]


@contextmanager
def shop(
    folder: Path,
    address: str,
    soap: str = "1.1",
    reliability: str | None = None,
    security: str | None = None,
    security_settings: MessageSecuritySettings | None = None,
    http: tuple[str, int] = ANY_PORT,
    **settings: Any,
) -> Iterator[Shop]:
    """Run a node that sends to an address as policies say; its server writes to the file `received`."""
    policies = {"ReliableMessaging": reliability, "Security": security}
    used = {name: text for name, text in policies.items() if text is not None}
    using = " ".join([f"using WS-{name} policy {name}.xml" for name in used])
    text = wsdl(soap).replace("http://example.org/shop", f"{address}/orders")
    changes = {**QUICK, **settings} | ({"security": security_settings} if security_settings is not None else {})
    made = Settings(outgoing_default=OutgoingSettings(**changes))
    written(folder, {f"{name}.xml": content for name, content in used.items()})
    with running(folder, APPLICATION.replace("USING", using), made, http=http, shop_wsdl=text) as here:
        yield Shop(here, folder / "received")


def assert_all_arrived(there: Shop, *kinds: str) -> None:
    """Assert that messages of these kinds have arrived once and in order, with their answers, and none has failed."""
    there.wait_until_sent()
    assert there.failures == [], there.here.bodies("failures")[0]
    for kind in ("note", "order"):
        assert there.received(kind) == (NUMBERS if kind in kinds else [])
    assert sorted(there.answers, key=int) == (NUMBERS if "order" in kinds else [])
    assert [sequence.unacknowledged for sequence in there.sequences if sequence.unacknowledged] == []


# WS-ReliableMessaging


@VERSIONS
@pytest.mark.parametrize("words", ["reliable acks", "reliable acks wait"])
def test_notes_and_orders_arrive_once_in_order_and_the_sequence_ends_with_the_node(tmp_path, servers, soap, rm, words):
    with servers[rm].run(words, tmp_path / "received") as address:
        with shop(tmp_path, address, soap, RELIABLE[rm], attempts=PATIENT) as there:
            there.send("note", "order")
            assert_all_arrived(there, "note", "order")
            assert len(there.sequences) == 1
            assert there.received("terminate") == []
        assert_ended(there, rm)


def assert_ended(there: Shop, rm: str) -> None:
    """Assert that the server was asked once to end its only sequence."""
    assert len(there.received("create")) == 1
    assert len(there.received("close" if rm == "1.1" else "last")) >= 1
    assert len(there.received("terminate")) == 1


@VERSIONS
def test_an_idle_sequence_ends_while_the_node_runs(tmp_path, servers, soap, rm):
    with (
        servers[rm].run("reliable acks wait", tmp_path / "received") as address,
        shop(tmp_path, address, soap, RELIABLE[rm], sequence_idle_seconds=1.0, attempts=PATIENT) as there,
    ):
        there.send("note")
        wait_until(lambda: there.received("terminate") != [])
        assert_all_arrived(there, "note")
        assert_ended(there, rm)
        wait_until(lambda: [each.state for each in there.sequences] == [OutboundState.TERMINATED])


@contextmanager
def expecting_answers(folder: Path, address: str, soap: str, rm: str, **more: Any) -> Iterator[Shop]:
    """Run a node that expects answers and acknowledgements at an address of its own."""
    port = free_port()
    own = f"http://127.0.0.1:{port}/soap-answers"
    with shop(folder, address, soap, RELIABLE[rm], http=("127.0.0.1", port), answer_address=own, **more) as there:
        yield there


@VERSIONS
def test_gsoap_sends_acknowledgements_and_answers_to_the_address_of_the_node(tmp_path, servers, soap, rm):
    with servers[rm].run("reliable wait", tmp_path / "received") as address:
        with expecting_answers(tmp_path, address, soap, rm, attempts=PATIENT) as there:
            there.send("note", "order")
            assert_all_arrived(there, "note", "order")
        assert_ended(there, rm)


@VERSIONS
def test_notes_and_orders_arrive_once_and_in_order_over_a_bad_network(
    tmp_path, servers, chance: random.Random, soap, rm
):
    with (
        servers[rm].run("reliable", tmp_path / "received") as address,
        run_lossy_relay(address, chance) as relay,
    ):
        with expecting_answers(tmp_path, relay.address, soap, rm, attempts=PATIENT) as there:
            there.send("note", "order")
            assert_all_arrived(there, "note", "order")
        assert all([relay.seen[misfortune] for misfortune in MISFORTUNES]), relay.seen


@VERSIONS
def test_notes_that_are_acknowledged_in_responses_arrive_once_and_in_order_over_a_bad_network(
    tmp_path, servers, chance: random.Random, soap, rm
):
    with (
        servers[rm].run("reliable acks", tmp_path / "received") as address,
        run_lossy_relay(address, chance) as relay,
    ):
        with shop(tmp_path, relay.address, soap, RELIABLE[rm], attempts=PATIENT) as there:
            there.send("note")
            assert_all_arrived(there, "note")
        assert all([relay.seen[misfortune] for misfortune in MISFORTUNES]), relay.seen


# WS-Security


@dataclass(frozen=True)
class Keys:
    """The files of all parties, in one folder."""

    folder: Path

    def server(self, own: str = "service", partner: str = "client") -> list[Path]:
        return [self.folder / name for name in (f"{own}.key", f"{own}.pem", f"{partner}.pem")]

    def node(self, password: str = PASSWORD) -> MessageSecuritySettings:
        return MessageSecuritySettings(
            key=self.folder / "client.key",
            certificate=self.folder / "client.pem",
            trusted=(self.folder / "service.pem",),
            partner=self.folder / "service.pem",
            user="ann",
            password=Secret(password),
        )


@pytest.fixture
def keys(tmp_path: Path) -> Keys:
    for name, certificate in make_certificates().items():
        (tmp_path / f"{name}.pem").write_bytes(certificate.public_bytes(Encoding.PEM))
        (tmp_path / f"{name}.key").write_bytes(private_pem(name))
        (tmp_path / f"{name}.key").chmod(0o600)
    return Keys(tmp_path)


@SOAPS
@pytest.mark.parametrize(
    ("words", "text"),
    [("sign", SIGNED_BODY_AND_TIME), ("sign", SIGNED_ADDRESSED), ("user", USER_DIGEST)],
    ids=["body and time", "headers", "user"],
)
def test_gsoap_accepts_secured_messages_and_its_answers_are_verified(tmp_path, servers, keys, soap, words, text):
    with (
        servers["1.1"].run(words, tmp_path / "received", keys.server()) as address,
        shop(tmp_path, address, soap, None, text, security_settings=keys.node()) as there,
    ):
        there.send("note", "order")
        there.wait_until_sent()
        assert there.failures == []
        assert sorted(there.received("note"), key=int) == sorted(there.received("order"), key=int) == NUMBERS
        assert sorted(there.answers, key=int) == NUMBERS


@SOAPS
@pytest.mark.parametrize(
    ("words", "text"),
    [("sign", SIGNED_RELIABLE), ("user", USER_DIGEST)],
    ids=["signed", "user"],
)
def test_secured_sequences_arrive_once_and_in_order(tmp_path, servers, keys, soap, words, text):
    with servers["1.1"].run(f"{words} reliable acks wait", tmp_path / "received", keys.server()) as address:
        security = {"security": text, "security_settings": keys.node()}
        with shop(tmp_path, address, soap, RELIABLE["1.1"], attempts=PATIENT, **security) as there:
            there.send("note", "order")
            assert_all_arrived(there, "note", "order")
        assert_ended(there, "1.1")


@SOAPS
def test_secured_notes_arrive_once_and_in_order_over_a_bad_network(
    tmp_path, servers, keys, chance: random.Random, soap
):
    with (
        servers["1.1"].run("sign reliable acks", tmp_path / "received", keys.server()) as address,
        run_lossy_relay(address, chance) as relay,
    ):
        security = {"security": SIGNED_RELIABLE, "security_settings": keys.node()}
        with shop(tmp_path, relay.address, soap, RELIABLE["1.1"], attempts=PATIENT, **security) as there:
            there.send("note")
            assert_all_arrived(there, "note")
        assert all([relay.seen[misfortune] for misfortune in MISFORTUNES]), relay.seen


UNTRUSTED = pytest.mark.parametrize(
    ("words", "own", "partner", "kind"),
    [
        ("sign", "stranger", "client", "invalidCertificate"),
        ("sign unsigned", "service", "client", "refused"),
        ("sign", "service", "stranger", "invalidSignature"),
    ],
    ids=["another key", "no signature", "trusts another client"],
)


@SOAPS
@UNTRUSTED
def test_an_answer_that_is_not_secured_is_an_error_and_no_answer(
    tmp_path, servers, keys, soap, words, own, partner, kind
):
    with (
        servers["1.1"].run(words, tmp_path / "received", keys.server(own, partner)) as address,
        shop(tmp_path, address, soap, None, SIGNED_ADDRESSED, attempts=2, security_settings=keys.node()) as there,
    ):
        there.send("order")
        there.wait_until_sent()
        assert there.failures == [kind] * COUNT, there.here.bodies("failures")[0]
        assert there.answers == []


@SOAPS
@UNTRUSTED
def test_an_acknowledgement_that_is_not_secured_does_not_count(
    tmp_path, servers, keys, soap, words, own, partner, kind
):
    with servers["1.1"].run(f"{words} reliable acks", tmp_path / "received", keys.server(own, partner)) as address:
        security = {"security": SIGNED_RELIABLE, "security_settings": keys.node()}
        with shop(tmp_path, address, soap, RELIABLE["1.1"], attempts=2, **security) as there:
            there.send("note", "order")
            there.wait_until_sent()
            assert there.failures == [kind] * COUNT * 2, there.here.bodies("failures")[0]
            assert there.answers == []
            assert there.received("note") == there.received("order") == [], "no sequence was created"


@SOAPS
@pytest.mark.parametrize("reliability", [None, RELIABLE["1.1"]], ids=["plain", "reliable"])
def test_a_wrong_password_is_an_error_of_authentication(tmp_path, servers, keys, soap, reliability):
    words = "user reliable acks" if reliability else "user"
    settings = {"security": USER_DIGEST, "security_settings": keys.node("wrong")}
    with (
        servers["1.1"].run(words, tmp_path / "received") as address,
        shop(tmp_path, address, soap, reliability, attempts=2, **settings) as there,
    ):
        there.send("order")
        there.wait_until_sent()
        assert there.failures == ["authentication"] * COUNT, there.here.bodies("failures")[0]
        assert there.received("order") == []
