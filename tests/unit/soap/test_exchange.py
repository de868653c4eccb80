"""Requests and answers without a network: in both directions a queue holds what stands in the Body."""

from __future__ import annotations

import pytest

from demaq.documents import parse_document
from demaq.errors import MessageError
from demaq.soap import (
    Fault,
    make_answer,
    make_fault_answer,
    make_request,
    read_call,
    read_envelope,
    read_fault,
    read_response,
    write_envelope,
    write_fault,
)
from tests.support.drawing import example_count
from tests.support.soap import wsdls
from tests.support.soap.wsdls import interface_of

ORDER = '<order xmlns="urn:orders"><item>tea</item><pieces>3</pieces></order>'
CONFIRMATION = '<confirmation xmlns="urn:orders"><number>1</number></confirmation>'
PRICE = '<o:price xmlns:o="urn:orders"><item><name>tea</name></item><pieces>2</pieces></o:price>'
PING = '<ping xmlns="urn:shop"/>'
PONG = '<pingResponse xmlns="urn:shop"/>'


@pytest.fixture
def shop(tmp_path):
    return interface_of(tmp_path, wsdls.document_wsdl())


def opened(data):
    return read_envelope(parse_document(data).tree)


def test_a_request_of_soap_1_1_has_its_action_in_a_header(shop):
    request = make_request(shop, ORDER)
    assert request.operation.name == "placeOrder"
    assert request.content_type == "text/xml; charset=utf-8"
    assert request.headers == {"SOAPAction": '"urn:shop/placeOrder"'}
    assert opened(request.data).body == ORDER


def test_a_request_of_soap_1_2_has_its_action_in_the_content_type(tmp_path):
    request = make_request(interface_of(tmp_path, wsdls.document_wsdl("1.2")), ORDER)
    assert request.content_type == 'application/soap+xml; charset=utf-8; action="urn:shop/placeOrder"'
    assert request.headers == {}
    assert opened(request.data).version == "1.2"


def test_a_request_that_the_port_does_not_know_is_an_error_of_the_message(shop):
    with pytest.raises(MessageError, match="has no operation for"):
        make_request(shop, "<surprise/>")


@pytest.mark.parametrize(
    ("wsdl", "message"), [(wsdls.document_wsdl(), ORDER), (wsdls.document_wsdl(), PING), (wsdls.RPC, PRICE)]
)
def test_what_one_node_asks_the_other_one_understands(tmp_path, wsdl, message):
    interface = interface_of(tmp_path, wsdl)
    request = make_request(interface, message)
    found = read_call(interface, opened(request.data))
    assert (found.operation, found.message) == (request.operation, message)


def test_an_empty_body_travels_as_such(shop):
    assert opened(make_request(shop, PING).data).body is None
    ping = shop.operations[2]
    answer = make_answer(ping, PONG, "1.1")
    assert opened(answer.data).body is None
    assert read_response(shop, ping, 200, "text/xml", answer.data) == PONG


def test_an_invalid_request_is_refused_with_a_fault(shop):
    with pytest.raises(MessageError) as caught:
        read_call(shop, opened(write_envelope("1.2", ORDER.replace("3", "many"))))
    answer = make_fault_answer("1.2", caught.value)
    fault = read_fault(parse_document(answer.data).tree)
    assert fault is not None
    assert (answer.status, fault.code) == (400, "Client")
    assert "'many' is not a valid value" in fault.reason
    assert make_fault_answer("1.1", caught.value).status == 500


@pytest.mark.parametrize("version", ["1.1", "1.2"])
def test_an_answer_goes_back_in_the_version_of_the_request(shop, version):
    answer = make_answer(shop.operations[0], CONFIRMATION, version)
    assert answer.status == 200
    assert (opened(answer.data).version, opened(answer.data).body) == (version, CONFIRMATION)
    assert read_response(shop, shop.operations[0], 200, answer.content_type, answer.data) == CONFIRMATION


def test_a_declared_fault_as_answer_becomes_a_fault(shop):
    sold_out = '<soldOut xmlns="urn:orders"><item>tea</item></soldOut>'
    answer = make_answer(shop.operations[0], sold_out, "1.1")
    assert answer.status == 500
    assert read_response(shop, shop.operations[0], 500, "text/xml", answer.data) == Fault(
        version="1.1", code="Server", reasons=(("", "SoldOut"),), detail=sold_out
    )


def test_a_rule_may_answer_with_a_fault_of_its_own_in_either_version(shop):
    body = opened(write_fault("1.1", "Client", "you are late", "<late/>")).body
    answer = make_answer(shop.operations[0], body, "1.2")
    assert answer.status == 400
    assert read_fault(parse_document(answer.data).tree) == Fault(
        version="1.2", code="Client", reasons=(("en", "you are late"),), detail="<late/>"
    )


@pytest.mark.parametrize(
    ("number", "message", "words"),
    [
        (0, CONFIRMATION.replace("1<", "one<"), "not a valid value"),
        (0, "<surprise/>", "surprise is no answer; expected is {urn:orders}confirmation"),
        (0, '<soldOut xmlns="urn:orders"/>', "Missing child"),
        (1, CONFIRMATION, "expected is nothing at all"),
    ],
)
def test_an_answer_that_the_wsdl_does_not_promise_is_refused(shop, number, message, words):
    with pytest.raises(MessageError) as caught:
        shop.check_answer(parse_document(message).tree, shop.operations[number])
    assert words in caught.value.message


@pytest.mark.parametrize(
    "message",
    [
        CONFIRMATION,
        '<soldOut xmlns="urn:orders"><item>tea</item></soldOut>',
        '<Fault xmlns="http://schemas.xmlsoap.org/soap/envelope/"/>',
    ],
)
def test_a_rule_may_answer_with_an_output_a_declared_fault_or_any_fault_of_soap(shop, message):
    shop.check_answer(parse_document(message).tree, shop.operations[0])


def test_nothing_comes_back_from_a_one_way_operation(shop):
    remark = shop.operations[1]
    assert read_response(shop, remark, 202, None, b"") is None
    assert read_response(shop, remark, 200, "text/xml", write_envelope("1.1", None)) is None


def test_an_answer_that_will_come_later_is_none_yet(shop):
    assert read_response(shop, shop.operations[0], 202, None, b" ") is None


@pytest.mark.parametrize(
    ("kind", "data", "words"),
    [
        ("text/xml", b"", "is empty"),
        ("text/html", b"<html/>", "the response is text/html and no XML"),
        ("multipart/related; type=x", b"--x", "attachments"),
        ("text/xml", b"<html>", "line 1"),
        ("text/xml", b"<html/>", "no SOAP envelope but html"),
        ("text/xml", b"<!DOCTYPE a><a/>", "document type declaration"),
        ("text/xml", write_envelope("1.1", None), "has an empty Body"),
        ("text/xml", write_envelope("1.1", ORDER), "is no answer; expected is {urn:orders}confirmation"),
        ("text/xml", write_envelope("1.1", CONFIRMATION.replace("1<", "one<")), "not a valid value"),
    ],
)
def test_an_answer_that_is_none_is_refused(shop, kind, data, words):
    with pytest.raises(MessageError) as caught:
        read_response(shop, shop.operations[0], 200, kind, data)
    assert words in caught.value.message


def test_mutated_requests_are_understood_or_refused_and_nothing_else(tmp_path, chance):
    rng = chance
    for wsdl, message in ((wsdls.document_wsdl(), ORDER), (wsdls.RPC, PRICE)):
        interface = interface_of(tmp_path, wsdl)
        data = write_envelope("1.1", message, ["<h xmlns='urn:h'>1</h>"])
        for _ in range(example_count(1500, "MUTATED_REQUESTS")):
            mutated = bytearray(data)
            for _ in range(rng.randint(1, 4)):
                at = rng.randrange(len(mutated))
                mutated[at : at + rng.randint(0, 6)] = rng.choice(
                    [b"", b"<", b"x:", b"</", b"\xc3", bytes(mutated[:at][-20:])]
                )
            try:
                read_call(interface, opened(bytes(mutated)))
            except MessageError as error:
                assert error.kind in ("notWellFormed", "schemaViolation")  # noqa: PT017  # any other error fails
