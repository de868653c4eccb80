"""A running node sends messages in sequences, secured or not, to a service on the other side of a lossy network."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from lxml import etree

from demaq.engine.error_routing import kind_of
from demaq.gateways.security.envelope_security import EnvelopeSecurity
from demaq.gateways.settings import OutgoingSettings, Settings
from demaq.soap.policy.statement_policies import read_policy_text
from tests.support.gateways.nodes import Running, running, wait_until
from tests.support.gateways.peers import Answer, Got, OtherSide, other_side
from tests.support.gateways.reliable_service import ReliableService
from tests.support.gateways.security.message_key_files import MessageKeyFiles
from tests.support.soap.policies import asymmetric, nested, policy, suite
from tests.support.soap.wsdls import document_wsdl

APPLICATION = """
module sender errorqueue failures;
create queue start
create queue failures
create queue answers
create queue shop kind outgoingGateway interface shop.wsdl port OrdersPort
  using WS-ReliableMessaging policy rm.xml SECURITY replyto answers
create rule forward for start if (/send) then do enqueue /send/* into shop
"""
RM = {"1.0": policy("<wsrm:RMAssertion/>"), "1.1": policy(nested("wsrmp:RMAssertion"))}
SIGNED = policy(
    asymmetric(suite(), "<sp:IncludeTimestamp/>", "<sp:OnlySignEntireHeadersAndBody/>")
    + '<sp:SignedParts><sp:Body/><sp:Header Namespace="http://www.w3.org/2005/08/addressing"/>'
    '<sp:Header Namespace="http://docs.oasis-open.org/ws-rx/wsrm/200702"/></sp:SignedParts>'
    + nested("sp:Wss11", "<sp:RequireSignatureConfirmation/>")
)
QUICK = {"retry_first_seconds": 0.05, "retry_seconds_max": 0.2, "timeout_seconds": 5.0, "breaker_failures": 10_000}
CONFIRMATION = '<confirmation xmlns="urn:orders"><number>7</number></confirmation>'


class LossyService:
    """Loses requests and responses in front of a service, and brings some of them twice."""

    def __init__(self, service: ReliableService, chance: random.Random | None = None, loss: float = 0.0) -> None:
        self.service = service
        self.loss = loss
        self._chance = chance or random.Random()
        self.lost = 0

    def __call__(self, got: Got) -> Answer:
        if self._strikes():
            raise ConnectionAbortedError("the request is lost")
        if self._chance.random() < self.loss and self.service.security is None:  # a copy would be a replay
            self.service(got.body)
        answer = self.service(got.body, got.headers)
        if self._strikes():
            raise ConnectionAbortedError("the response is lost")
        return answer

    def _strikes(self) -> bool:
        happens = self._chance.random() < self.loss
        self.lost += happens
        return happens


class Sending:
    """A node, and the service that it sends to."""

    def __init__(self, here: Running, there: OtherSide, service: ReliableService) -> None:
        self.here = here
        self.there = there
        self.service = service

    def send(self, *bodies: str) -> None:
        for body in bodies:
            self.here.node.enqueue("start", f'<send xmlns:o="urn:orders">{body}</send>')

    def wait_until_sent(self) -> None:
        # In this order: what is processed meanwhile is to be sent then.
        wait_until(lambda: not self._pending() and not self.here.node.store.sendings())

    def _pending(self) -> bool:
        return bool(self.here.node.store.pending(1))

    @property
    def texts(self) -> list[str]:
        return [etree.fromstring(body).text or "" for body in self.service.received]


@contextmanager
def sending(
    folder: Path,
    version: str = "1.1",
    soap: str = "1.1",
    loss: float = 0.0,
    chance: random.Random | None = None,
    is_signed: bool = False,
    service: ReliableService | None = None,
    port: int = 0,
    **settings: Any,
) -> Iterator[Sending]:
    own = service or ReliableService(reply=lambda body: CONFIRMATION if "order" in body[:9] else None)
    changes: dict[str, Any] = {**QUICK, **settings}
    if is_signed:
        files = MessageKeyFiles(folder)
        for name in ("client", "service"):
            files.write_pair(name, days=(-10, 36500))
        requirements = read_policy_text(SIGNED.encode()).security
        assert requirements is not None
        own.security = EnvelopeSecurity(
            requirements, files.service(), section="service", role="service", clock=lambda: datetime.now(UTC)
        )
        changes["security"] = files.client()
    with other_side(LossyService(own, chance, loss), port) as there:
        wsdl = document_wsdl(soap).replace("http://shop.invalid/OrdersPort", f"{there.address}/orders")
        application = APPLICATION.replace("SECURITY", "using WS-Security policy sec.xml" if is_signed else "")
        made = Settings(outgoing_default=OutgoingSettings(**changes))
        with running(folder, application, made, shop_wsdl=wsdl, rm_xml=RM[version], sec_xml=SIGNED) as here:
            yield Sending(here, there, own)


def notes(count: int) -> list[str]:
    return [f"<o:note>m{number}</o:note>" for number in range(count)]


ORDER = "<o:order><o:item>cup</o:item><o:pieces>1</o:pieces></o:order>"


@pytest.mark.parametrize("version", ["1.0", "1.1"])
@pytest.mark.parametrize("soap", ["1.1", "1.2"])
@pytest.mark.parametrize("is_signed", [False, True], ids=["plain", "signed"])
def test_every_message_arrives_once_over_a_lossy_network(
    tmp_path: Path, chance: random.Random, version: str, soap: str, is_signed: bool
):
    with sending(tmp_path, version, soap, 0.2, chance, is_signed, attempts=100) as world:
        world.send(*notes(15), ORDER, ORDER)
        world.wait_until_sent()

        assert len(world.service.received) == 17
        assert len(set(world.service.received)) == 16, "the two orders are alike"
        assert len(world.here.bodies("answers")) == 2
        assert world.here.bodies("failures") == []
        assert all([len(bodies) == 1 for bodies in world.service.wire.values()])
        assert len(set(world.service.created)) == 1
        assert isinstance(world.there.answer, LossyService)
        assert world.there.answer.lost
        world.there.answer.loss = 0.0

    assert world.service.seen["terminated"] == 1, "when the node ends, the sequence does"


def test_requests_have_the_headers_of_addressing(tmp_path: Path):
    with sending(tmp_path) as world:
        world.send(ORDER)
        [answer] = world.here.wait_for("answers")
        request = world.service.requests[-1]
        [posted] = [got for got in world.there.got if b"placeOrder" in got.body]

        assert request.message_id is not None
        assert request.message_id.startswith("urn:uuid:")
        assert request.to == f"{world.there.address}/orders"
        assert request.action == "urn:shop/placeOrder"
        assert request.reply_to is not None
        assert request.reply_to.is_anonymous
        assert posted.headers["soapaction"] == '"urn:shop/placeOrder"'
        assert "<number>7</number>" in answer.body


def test_a_refused_sequence_is_an_error_that_names_the_fault(tmp_path: Path):
    with sending(tmp_path, service=ReliableService(refuses_sequences=True)) as world:
        world.send(*notes(1))
        [failed] = world.here.wait_for("failures")

        assert kind_of(failed.body) == "refused"
        assert "CreateSequenceRefused" in failed.body


def test_a_node_that_restarts_keeps_its_sequence_and_numbers(tmp_path: Path):
    service = ReliableService(acknowledges=False)
    with sending(tmp_path, service=service) as world:
        world.send(*notes(3))
        wait_until(lambda: len(service.received) == 3)
    assert service.seen["terminated"] == 0, "there are messages that nobody has acknowledged"
    service.acknowledges = True
    port = int(world.there.address.rpartition(":")[2])
    with sending(tmp_path, service=service, port=port) as world:
        world.send("<o:note>m3</o:note>")
        world.wait_until_sent()

        assert world.texts == ["m0", "m1", "m2", "m3"]
        assert len(service.created) == 1
        assert sorted([number for _, number in service.wire]) == [1, 2, 3, 4]


def test_a_message_that_is_never_acknowledged_is_a_time_out(tmp_path: Path):
    service = ReliableService(acknowledges=False)
    with sending(tmp_path, service=service, attempts=3) as world:
        world.send(*notes(1))
        [failed] = world.here.wait_for("failures")

        assert kind_of(failed.body) == "timeout"
        assert "has not acknowledged the message" in failed.body
        assert "after 3 attempts" in failed.body
        assert service.seen["asked for acknowledgements"] >= 2


def test_a_destination_that_forgets_everything_gets_what_is_left_in_a_new_sequence(tmp_path: Path):
    with sending(tmp_path) as world:
        world.send(*notes(2))
        world.wait_until_sent()
        world.service.forget()
        world.send("<o:note>m2</o:note>", "<o:note>m3</o:note>")
        world.wait_until_sent()

        assert sorted(world.texts) == ["m0", "m1", "m2", "m3"]
        assert len(set(world.service.created)) == 2


def test_an_unsecured_fault_does_not_count(tmp_path: Path):
    fault = (
        b'<s:Envelope xmlns:s="http://schemas.xmlsoap.org/soap/envelope/"><s:Body><s:Fault>'
        b"<faultcode>s:Client</faultcode><faultstring>go away</faultstring></s:Fault></s:Body></s:Envelope>"
    )
    attacks = iter([(500, {"Content-Type": "text/xml"}, fault)] * 2)
    with sending(tmp_path, is_signed=True) as world:
        real = world.there.answer

        def attack(got: Got) -> Answer:
            return next(attacks, None) or real(got)

        world.there.answer = attack
        world.send(*notes(1))
        world.wait_until_sent()

        assert world.texts == ["m0"]
        assert world.here.bodies("failures") == []


def test_a_replayed_answer_acknowledges_nothing(tmp_path: Path):
    with sending(tmp_path, is_signed=True, attempts=3) as world:
        real = world.there.answer
        recorded: list[Answer] = []

        def replay(got: Got) -> Answer:
            answer = real(got)
            if b"Sequence>" in got.body and b"MessageNumber" in got.body:
                recorded.append(answer)
                return recorded[0]
            return answer

        world.there.answer = replay
        world.send("<o:note>a</o:note>")
        world.wait_until_sent()
        world.send("<o:note>b</o:note>")
        [failed] = world.here.wait_for("failures")

        assert world.texts == ["a", "b"]
        assert kind_of(failed.body) in ("invalidSignature", "refused")


def test_many_messages_share_one_sequence(tmp_path: Path):
    with sending(tmp_path) as world:
        threads = [threading.Thread(target=world.send, args=notes(20)) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        world.wait_until_sent()

        assert len(world.service.received) == 60
        assert len(world.service.created) == 1


def test_an_idle_sequence_is_terminated_while_the_node_runs(tmp_path: Path):
    with sending(tmp_path, sequence_idle_seconds=0.2) as world:
        world.send(*notes(1))
        world.wait_until_sent()
        wait_until(lambda: world.service.seen["terminated"] == 1)
        began = time.monotonic()
        world.send("<o:note>again</o:note>")
        world.wait_until_sent()

        assert world.texts == ["m0", "again"]
        assert time.monotonic() - began < 20.0
