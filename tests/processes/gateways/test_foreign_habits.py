"""What services of others do that a source of messages has to bear with. gSOAP does all of this (2.8.124)."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from demaq.gateways.outbox.delivery_results import DeliveryFailed
from demaq.gateways.outbox.http_connection import HttpResponse
from demaq.gateways.outbox.soap_client import ClientPolicy
from demaq.gateways.outbox.soap_responses import ResponseReader
from demaq.gateways.security.envelope_security import EnvelopeSecurity
from demaq.soap.faults import write_protocol_fault
from demaq.soap.policy.statement_policies import read_policy_text
from demaq.soap.refusals import SoapRefusal
from demaq.soap.security.security_faults import (
    expired_message,
    failed_authentication,
    failed_check,
    invalid_token,
    unavailable_token,
)
from tests.processes.gateways.test_answer_endpoint import ADDRESS, service, wait_for_request
from tests.processes.gateways.test_reliable_sending import ORDER, SIGNED, notes, sending
from tests.support.gateways.nodes import wait_until
from tests.support.gateways.peers import Answer, Got
from tests.support.gateways.security.message_key_files import MessageKeyFiles
from tests.support.soap.interoperable_policies import USER_DIGEST
from tests.support.soap.raw_reliability import SOAP, WSRM
from tests.support.soap.wsdls import document_wsdl, interface_of
from tests.unit.gateways.test_soap_client import compose, message

ECHO = (
    f'<e:Envelope xmlns:e="{SOAP["1.1"]}"><e:Body><r:TerminateSequence xmlns:r="{WSRM["1.0"]}"><r:Identifier/>'
    "</r:TerminateSequence></e:Body></e:Envelope>"
).encode()


def test_the_end_of_a_sequence_of_1_0_is_sent_once_whatever_is_answered(tmp_path: Path):
    with sending(tmp_path, "1.0", sequence_idle_seconds=0.2) as world:
        real = world.there.answer

        def echo(got: Got) -> Answer:
            answer = real(got)
            return (200, {"Content-Type": "text/xml"}, ECHO) if b"<wsrm:TerminateSequence" in got.body else answer

        world.there.answer = echo
        world.send(*notes(1))
        world.wait_until_sent()
        wait_until(lambda: [one.has_ended for one in world.here.node.store.sequences("out")] == [True])

        assert world.service.seen["terminated"] == 1


def test_the_end_of_a_sequence_of_1_0_is_sent_again_if_it_was_refused(tmp_path: Path):
    refusals = iter([(500, {"Content-Type": "text/xml"}, b"<later/>")] * 2)
    with sending(tmp_path, "1.0", sequence_idle_seconds=0.2) as world:
        real = world.there.answer

        def refuse(got: Got) -> Answer:
            refused = next(refusals, None) if b"<wsrm:TerminateSequence" in got.body else None
            return refused or real(got)

        world.there.answer = refuse
        world.send(*notes(1))
        wait_until(lambda: world.service.seen["terminated"] == 1)

        assert next(refusals, None) is None


def test_a_request_that_was_dropped_is_sent_again_before_the_time_for_its_answer_is_over(tmp_path: Path):
    """The status says that it was taken, and nothing acknowledges it."""
    dropped: list[Got] = []
    with sending(tmp_path, service=service(), answer_address=ADDRESS, reply_seconds=600.0) as world:
        real = world.there.answer

        def drop(got: Got) -> Answer:
            if b"MessageNumber" in got.body and len(dropped) < 2:
                dropped.append(got)
                return 202, {}, b""
            return real(got)

        world.there.answer = drop
        world.send(ORDER)
        wait_for_request(world)

        wait_until(lambda: len(world.service.received) == 1)  # it is noted after the request
        assert len(dropped) == 2
        assert world.here.bodies("failures") == []


@pytest.mark.parametrize("soap", ["1.1", "1.2"])
@pytest.mark.parametrize("text", [USER_DIGEST, SIGNED], ids=["answers are not secured", "answers are secured"])
@pytest.mark.parametrize(
    "refusal",
    [failed_authentication(), failed_check("no"), invalid_token("no"), unavailable_token("no"), expired_message("no")],
    ids=lambda refusal: refusal.protocol.subcodes[0].rpartition("}")[2],
)
def test_a_fault_of_security_is_an_error_of_the_kind_that_we_would_report(
    tmp_path: Path, text: str, refusal: SoapRefusal, soap: str
):
    policy = read_policy_text(text.encode())
    assert policy.security is not None
    settings = MessageKeyFiles(tmp_path).client()
    security = EnvelopeSecurity(
        policy.security, settings, section="client", role="client", clock=lambda: datetime.now(UTC)
    )
    own = ClientPolicy(interface=interface_of(tmp_path, document_wsdl(soap)), policy=policy, security=security)
    assert refusal.protocol is not None
    fault = write_protocol_fault(refusal.protocol, soap)
    response = HttpResponse(status=500, headers={"content-type": "text/xml"}, body=fault)
    read = ResponseReader(own).read(compose(own, message())[0], response)

    assert isinstance(read.result, DeliveryFailed)
    assert read.result.kind == refusal.kind
    assert read.is_verified == (text == USER_DIGEST)
