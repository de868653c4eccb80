"""Requests of SOAP gateways: their headers of WS-Addressing, and which responses belong to them."""

from __future__ import annotations

from pathlib import Path

import pytest

from demaq.documents import parse_document
from demaq.gateways.outbox.delivery_results import Delivered, DeliveryFailed
from demaq.gateways.outbox.http_connection import HttpResponse
from demaq.gateways.outbox.request_addressing import AnswerPlace, find_addressing_version
from demaq.gateways.outbox.soap_client import ClientPolicy, ComposedRequest, RequestComposer
from demaq.gateways.outbox.soap_responses import ResponseReader
from demaq.messages import PropertyValue
from demaq.soap import AddressingHeaders, read_addressing, read_envelope
from demaq.soap.addressing.addressing_headers import Relationship, write_addressing
from demaq.soap.addressing.addressing_versions import ADDRESSING_1_0, ADDRESSING_2004, AddressingVersion
from demaq.soap.envelope import write_envelope
from demaq.soap.policy import AddressingPolicy, AnswerAddresses, GatewayPolicy, ReliabilityPolicy
from demaq.soap.reliability.reliability_versions import RELIABILITY_1_0
from demaq.soap.security import ExchangeRequirements, MessageParts, SecurityRequirements
from demaq.store.protocol import StoredMessage, as_stored
from tests.support.soap.wsdls import document_wsdl, interface_of
from tests.support.store.contract import new

ADDRESS = "http://shop.invalid/orders"
ORDER = '<order xmlns="urn:orders"><item>cup</item><pieces>1</pieces></order>'
NOTE = '<note xmlns="urn:orders">hello</note>'
CONFIRMATION = '<confirmation xmlns="urn:orders"><number>7</number></confirmation>'
ANSWERS = "http://node.invalid/soap-answers"
BOTH = pytest.mark.parametrize("version", [ADDRESSING_1_0, ADDRESSING_2004], ids=["1.0", "2004"])


def client(folder: Path, policy: GatewayPolicy | None = None, answers: str | None = None) -> ClientPolicy:
    return ClientPolicy(
        interface=interface_of(folder, document_wsdl()), policy=policy or GatewayPolicy(), answer_address=answers
    )


def addressed(version: AddressingVersion = ADDRESSING_1_0, **changes) -> GatewayPolicy:
    return GatewayPolicy(addressing=AddressingPolicy(version=version, **changes))


def message(body: str = ORDER, **properties: str) -> StoredMessage:
    values = {f"demaq:{name}": PropertyValue.string(text) for name, text in properties.items()}
    return as_stored(new("out", body, properties=values), 7)


def compose(own: ClientPolicy, given: StoredMessage) -> tuple[ComposedRequest, AddressingHeaders | None]:
    composer = RequestComposer(own, lambda seq: f"urn:message:{seq}")
    request = composer.compose(given, composer.check(given), ADDRESS)
    return request, read_addressing(read_envelope(parse_document(request.data).tree).headers, "1.1")


def respond(body: str | None, status: int = 200, related: str | None = None) -> HttpResponse:
    headers = AddressingHeaders(
        relationships=[Relationship(message_id=related, kind=ADDRESSING_1_0.reply)] if related else []
    )
    data = write_envelope("1.1", body, write_addressing(headers))
    return HttpResponse(status=status, headers={"content-type": "text/xml"}, body=data)


def test_without_a_policy_there_are_no_headers(tmp_path: Path):
    request, headers = compose(client(tmp_path), message())

    assert headers is None
    assert b"Header" not in request.data
    assert request.headers["SOAPAction"] == '"urn:shop/placeOrder"'
    assert request.message_id is None


@BOTH
def test_a_policy_of_addressing_is_fulfilled(tmp_path: Path, version: AddressingVersion):
    request, headers = compose(client(tmp_path, addressed(version)), message())

    assert headers is not None
    assert headers.version == version
    assert headers.message_id == request.message_id == "urn:message:7"
    assert headers.to == ADDRESS
    assert headers.action == "urn:shop/placeOrder"
    assert headers.reply_to is not None
    assert headers.reply_to.address == version.anonymous


def test_a_one_way_message_asks_for_no_answer(tmp_path: Path):
    request, headers = compose(client(tmp_path, addressed(), ANSWERS), message(NOTE))

    assert headers is not None
    assert headers.reply_to is None
    assert not request.wants_reply


def test_answers_go_to_the_address_of_the_settings_unless_the_policy_forbids_it(tmp_path: Path):
    request, headers = compose(client(tmp_path, addressed(), ANSWERS), message())
    anonymous = addressed(answers=AnswerAddresses.ANONYMOUS)
    other, others = compose(client(tmp_path, anonymous, ANSWERS), message())

    assert headers is not None
    assert headers.reply_to is not None
    assert headers.reply_to.address == ANSWERS
    assert request.answer == AnswerPlace.ENDPOINT
    assert not request.expects_reply
    assert others is not None
    assert others.reply_to is not None
    assert others.reply_to.is_anonymous
    assert other.answer == AnswerPlace.CONNECTION
    assert other.expects_reply


def test_rules_set_headers(tmp_path: Path):
    given = message(MessageID="urn:own", To="urn:there", Action="urn:act", From="urn:me", RelatesTo="urn:before")
    request, headers = compose(client(tmp_path), given)

    assert headers is not None
    assert headers.version == ADDRESSING_1_0
    assert (headers.message_id, headers.to, headers.action) == ("urn:own", "urn:there", "urn:act")
    assert headers.source is not None
    assert headers.source.address == "urn:me"
    assert headers.answers == "urn:before"
    assert request.headers["SOAPAction"] == '"urn:act"'


def test_a_rule_sends_the_answer_to_someone_else(tmp_path: Path):
    request, headers = compose(client(tmp_path), message(ReplyTo="http://other.invalid/", FaultTo="urn:f"))

    assert headers is not None
    assert headers.reply_to is not None
    assert headers.reply_to.address == "http://other.invalid/"
    assert headers.fault_to is not None
    assert headers.fault_to.address == "urn:f"
    assert request.answer == AnswerPlace.STRANGER
    assert not request.wants_reply


def test_the_version_is_that_of_what_needs_it():
    signed = SecurityRequirements(signed=MessageParts(headers=(f"{{{ADDRESSING_2004.namespace}}}*",)))
    security = ExchangeRequirements(request=signed, answer=SecurityRequirements())

    assert find_addressing_version(GatewayPolicy()) is None
    assert find_addressing_version(GatewayPolicy(security=security)) == ADDRESSING_2004
    reliable = ReliabilityPolicy(version=RELIABILITY_1_0)
    assert find_addressing_version(GatewayPolicy(reliability=reliable)) == ADDRESSING_2004
    both = GatewayPolicy(reliability=reliable, addressing=AddressingPolicy(version=ADDRESSING_1_0))
    assert find_addressing_version(both) == ADDRESSING_1_0


def test_the_answer_to_another_message_cannot_be_used(tmp_path: Path):
    own = client(tmp_path, addressed())
    request, _ = compose(own, message())
    reader = ResponseReader(own)

    right = reader.read(request, respond(CONFIRMATION, related="urn:message:7")).result
    wrong = reader.read(request, respond(CONFIRMATION, related="urn:message:8")).result
    silent = reader.read(request, respond(CONFIRMATION)).result

    assert isinstance(right, Delivered)
    assert isinstance(silent, Delivered)
    assert isinstance(wrong, DeliveryFailed)
    assert not wrong.again
    assert "another message" in wrong.reason


def test_a_fault_of_addressing_is_final(tmp_path: Path):
    own = client(tmp_path, addressed())
    request, _ = compose(own, message())
    fault = (
        '<s:Fault xmlns:s="http://schemas.xmlsoap.org/soap/envelope/" xmlns:wsa="http://www.w3.org/2005/08/addressing">'
        "<faultcode>wsa:ActionNotSupported</faultcode><faultstring>no</faultstring></s:Fault>"
    )

    read = ResponseReader(own).read(request, respond(fault, 500))

    assert isinstance(read.result, DeliveryFailed)
    assert not read.result.again
    assert "ActionNotSupported" in read.result.reason
    assert not read.is_received


def test_an_accepted_request_without_content_says_nothing_else(tmp_path: Path):
    own = client(tmp_path, addressed(), ANSWERS)
    request, _ = compose(own, message())

    read = ResponseReader(own).read(request, HttpResponse(status=202, headers={}, body=b""))

    assert read.result is None
    assert read.status == "202 Accepted"
