"""Answers and acknowledgements that come by themselves, as requests of the other side."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from uuid import uuid4

import pytest

from demaq.engine.error_routing import kind_of
from demaq.gateways.http.responses import HttpAnswer
from demaq.soap.addressing.addressing_headers import AddressingHeaders, make_answer_headers, make_message_id
from demaq.soap.envelope import write_envelope
from demaq.soap.faults import write_fault
from demaq.soap.reliability.number_ranges import NumberRanges
from tests.processes.gateways.test_reliable_sending import CONFIRMATION, ORDER, Sending, notes, sending
from tests.support.gateways.nodes import wait_until
from tests.support.gateways.reliable_service import ReliableService, write_foreign_acknowledgement

ADDRESS = "http://node.invalid/soap-answers"
XML: Mapping[str, str] = {"Content-Type": "text/xml; charset=utf-8"}


def receive(world: Sending, body: bytes, headers: Mapping[str, str] = XML) -> HttpAnswer:
    """Let the node take an envelope, as its page does."""
    answers, loop = world.here.gateways.answers, world.here.gateways._loop
    assert answers is not None
    assert loop is not None
    return asyncio.run_coroutine_threadsafe(answers.receive(body, headers, is_https=False), loop).result(20)


def reply_to(request: AddressingHeaders, body: str = CONFIRMATION, soap: str = "1.1") -> bytes:
    return write_envelope(soap, body, make_answer_headers(request, message_id=make_message_id(uuid4)))


def service() -> ReliableService:
    return ReliableService(accepts_addresses=True)


def wait_for_request(world: Sending, action: str = "urn:shop/placeOrder") -> AddressingHeaders:
    wait_until(lambda: bool([one for one in world.service.requests if one.action == action]))
    return [one for one in world.service.requests if one.action == action][-1]


@pytest.mark.parametrize("soap", ["1.1", "1.2"])
def test_a_reply_becomes_a_message_once(tmp_path: Path, soap: str):
    with sending(tmp_path, soap=soap, service=service(), answer_address=ADDRESS) as world:
        world.send(ORDER)
        request = wait_for_request(world)
        assert request.reply_to is not None
        assert request.reply_to.address == ADDRESS

        first = receive(world, reply_to(request, soap=soap))
        second = receive(world, reply_to(request, soap=soap))
        world.wait_until_sent()

        assert (first.status, second.status) == (202, 202)
        assert len(world.here.bodies("answers")) == 1
        [attempt] = [one for one in world.here.node.store.attempts("shop", None, 9) if one.result == "sent"]
        assert attempt.number == 1
        assert world.here.bodies("failures") == []


def test_an_acknowledgement_delivers_without_another_attempt(tmp_path: Path):
    with sending(tmp_path, service=service(), answer_address=ADDRESS, retry_first_seconds=60.0) as world:
        world.send(*notes(2))
        wait_until(lambda: len(world.service.received) == 2)
        assert world.here.node.store.sendings()
        [value] = world.service.values

        answer = receive(world, world.service.acknowledge(value.identifier, "1.1"))
        world.wait_until_sent()

        assert answer.status == 202
        assert len(world.service.wire) == 2
        assert len([one for one in world.service.requests if one.action == "urn:shop/remark"]) == 2
        assert value.acks_to.address == ADDRESS


def test_without_an_answer_the_message_is_sent_again_under_its_name(tmp_path: Path):
    with sending(tmp_path, service=service(), answer_address=ADDRESS, reply_seconds=0.1, attempts=3) as world:
        world.send(ORDER)
        [failed] = world.here.wait_for("failures")

        assert kind_of(failed.body) == "timeout"
        sent = [one for one in world.service.requests if one.action == "urn:shop/placeOrder"]
        assert len(sent) == 3
        assert len({one.message_id for one in sent}) == 1
        assert len(world.service.received) == 1
        assert not world.here.gateways.outbox.open_breakers()  # type: ignore[union-attr]


def test_a_fault_fails_the_message(tmp_path: Path):
    with sending(tmp_path, service=service(), answer_address=ADDRESS) as world:
        world.send(ORDER)
        request = wait_for_request(world)
        headers = make_answer_headers(request, message_id=make_message_id(uuid4))

        answer = receive(world, write_fault("1.1", "Server", "sold out", headers=headers))
        [failed] = world.here.wait_for("failures")

        assert answer.status == 202
        assert kind_of(failed.body) == "refused"
        assert "sold out" in failed.body


def test_a_reply_finds_its_message_after_a_restart(tmp_path: Path):
    there = service()
    with sending(tmp_path, service=there, answer_address=ADDRESS) as world:
        world.send(ORDER)
        request = wait_for_request(world)
    port = int(world.there.address.rpartition(":")[2])
    with sending(tmp_path, service=there, port=port, answer_address=ADDRESS) as world:
        answer = receive(world, reply_to(request))
        world.wait_until_sent()

        assert answer.status == 202
        assert len(world.here.bodies("answers")) == 1
        assert len(there.received) == 1


@pytest.mark.parametrize(("soap", "status"), [("1.1", 500), ("1.2", 400)])
def test_what_is_not_known_is_refused(tmp_path: Path, soap: str, status: int):
    with sending(tmp_path, soap=soap, service=service(), answer_address=ADDRESS) as world:
        stranger = AddressingHeaders(message_id="urn:uuid:00000000-0000-0000-0000-000000000001", action="urn:a")

        unknown_message = receive(world, reply_to(stranger, soap=soap))
        unknown_sequence = receive(world, write_foreign_acknowledgement("urn:x", NumberRanges.up_to(1), soap))
        unrelated = receive(world, write_envelope(soap, CONFIRMATION, []))
        no_envelope = receive(world, b"<a/>")
        no_xml = receive(world, b"<a")

        assert unknown_message.status == status
        assert b"InvalidAddressingHeader" in unknown_message.body
        assert unknown_sequence.status == status
        assert b"UnknownSequence" in unknown_sequence.body
        assert unrelated.status == status
        assert b"RelatesTo" in unrelated.body
        assert no_envelope.status == no_xml.status == 500
        assert b"Fault" in no_xml.body


def test_an_acknowledgement_of_what_was_never_sent_is_answered_by_a_fault(tmp_path: Path):
    with sending(tmp_path, service=service(), answer_address=ADDRESS, retry_first_seconds=60.0) as world:
        world.send(*notes(1))
        wait_until(lambda: len(world.service.received) == 1)
        [value] = world.service.values

        answer = receive(world, write_foreign_acknowledgement(value.identifier, NumberRanges.up_to(5), "1.1"))

        assert answer.status == 500
        assert b"InvalidAcknowledgement" in answer.body
        assert world.here.node.store.sendings(), "nothing was delivered"


def test_an_answer_must_be_secured_and_confirm_its_request(tmp_path: Path):
    with sending(tmp_path, is_signed=True, service=service(), answer_address=ADDRESS) as world:
        world.service.reply = lambda body: None
        world.send(ORDER)
        request = wait_for_request(world)
        real = world.service.security
        verified = world.service.verified[-1]

        unsigned = receive(world, reply_to(request))
        other = receive(world, real.secure_answer(reply_to(request), world.service.verified[0]))
        assert world.here.bodies("answers") == []
        signed = real.secure_answer(reply_to(request), verified)
        right, again = receive(world, signed), receive(world, signed)
        world.wait_until_sent()

        assert unsigned.status == 500
        assert other.status == 500
        assert right.status == 202
        assert again.status in (202, 500)
        assert len(world.here.bodies("answers")) == 1
