"""Faults leave with the statuses of SOAP's HTTP bindings; what is refused before SOAP has those of HTTP, and no fault."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from demaq.documents import parse_document
from demaq.gateways.security.recipients import Recipients
from demaq.gateways.settings import IncomingSettings, OutgoingSettings, Settings
from demaq.soap import read_fault, write_envelope
from tests.support.gateways.nodes import Running, running, written
from tests.support.soap import wsdls

APPLICATION = """
declare namespace o = "urn:orders";
declare namespace e = "http://schemas.xmlsoap.org/soap/envelope/";
declare namespace f = "http://www.w3.org/2003/05/soap-envelope";

create queue shop kind incomingGateway interface shop.wsdl port OrdersPort
create queue full kind incomingGateway interface shop.wsdl port OrdersPort
create queue slow kind incomingGateway interface shop.wsdl port OrdersPort
create queue small kind incomingGateway interface shop.wsdl port OrdersPort
create queue locked kind incomingGateway interface shop.wsdl port OrdersPort
create queue plain kind incomingGateway
create queue answers kind outgoingGateway
create queue start kind incomingGateway
create queue calls kind outgoingGateway interface shop.wsdl port OrdersPort errorqueue callErrors
create queue callErrors
create queue noted kind mailbox

create rule call for start
  if (/start) then
    do enqueue <o:order><o:item>{string(/start)}</o:item><o:pieces>1</o:pieces></o:order> into calls
      with Recipient value string(/start/@to)
create rule note for callErrors
  if (/error[refused/@status = "500"]/fault[code = "Server"]/detail/o:soldOut) then
    do enqueue <noted>{string(/error/fault/detail/o:soldOut/o:item)}</noted> into noted

create rule confirm for shop
  if (/o:order/o:item = "tea") then do enqueue <o:confirmation><o:number>7</o:number></o:confirmation> into answers
create rule soldOut for shop
  if (/o:order/o:item = "gold") then do enqueue <o:soldOut><o:item>gold</o:item></o:soldOut> into answers
create rule closed for shop
  if (/o:order/o:item = "late") then
    do enqueue <e:Fault><faultcode>e:Client</faultcode><faultstring>we are closed</faultstring></e:Fault> into answers
create rule strange for shop
  if (/o:order/o:item = "strange") then
    do enqueue <f:Fault xmlns:o="urn:orders"><f:Code><f:Value>f:Sender</f:Value><f:Subcode><f:Value>o:Strange</f:Value></f:Subcode></f:Code>
      <f:Reason><f:Text xml:lang="de">seltsam</f:Text><f:Text xml:lang="en">odd</f:Text></f:Reason>
      <f:Role>urn:shop</f:Role><f:Detail o:level="2"><o:a/><o:b/></f:Detail></f:Fault> into answers
create rule wrong for shop
  if (/o:order/o:item = "wrong") then do enqueue <o:confirmation><o:number>many</o:number></o:confirmation> into answers
create rule fails for shop errorqueue answers
  if (/o:order/o:item = "fails") then do enqueue <o:confirmation>{1 div 0}</o:confirmation> into answers
create rule never for slow if (/o:order/o:item = "tea") then do enqueue <o:confirmation/> into answers
create rule echo for plain if (/o:order) then do enqueue /* into answers
"""
SETTINGS = Settings(
    incoming_default=IncomingSettings(reply_seconds_max=20),
    incoming_by_queue={
        "full": IncomingSettings(disk_free_bytes_min=10**18, retry_after_seconds=7),
        "slow": IncomingSettings(reply_seconds_max=0.1, late="timeout"),
        "small": IncomingSettings(body_bytes_max=100),
        "locked": IncomingSettings(auth=("basic",)),
    },
)
TYPES = {"1.1": "text/xml; charset=utf-8", "1.2": "application/soap+xml; charset=utf-8"}


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = written(tmp_path_factory.mktemp("statuses"), {"shop.wsdl": wsdls.document_wsdl(), "users": ""})
    (folder / "users").chmod(0o600)
    by_queue = {**SETTINGS.incoming_by_queue, "locked": IncomingSettings(auth=("basic",), users=folder / "users")}
    calls = OutgoingSettings(recipients=Recipients.of(["127.0.0.1:*"]))
    settings = replace(SETTINGS, incoming_by_queue=by_queue, outgoing_by_queue={"calls": calls})
    with running(folder, APPLICATION, settings) as found:
        yield found


def order(item: str, pieces: str = "1") -> str:
    return f'<order xmlns="urn:orders"><item>{item}</item><pieces>{pieces}</pieces></order>'


def envelope(version: str, body: str | None, *headers: str) -> bytes:
    return write_envelope(version, body, headers)


def must_understand(version: str) -> bytes:
    soapenv = "soapenv:mustUnderstand"
    return envelope(version, order("tea"), f'<x:y xmlns:x="urn:x" {soapenv}="1"/>')


FAULTS: dict[str, tuple[Any, str, str]] = {
    "declared": (order("gold"), "Server", "SoldOut"),
    "made by a rule": (order("late"), "Client", "we are closed"),
    "made by a rule in SOAP 1.2": (order("strange"), "Client", "odd"),
    "a wrong answer": (order("wrong"), "Server", "violates the interface"),
    "a rule that fails": (order("fails"), "Server", "ivision by zero"),
    "against the schema": (order("tea", "many"), "Client", "'many' is not a valid value"),
    "no operation": ("<nothing/>", "Client", "has no operation"),
    "not well-formed": (b"<e:Envelope", "Client", "line 1"),
    "nothing at all": (b"", "Client", ""),
    "a document type": (b"<!DOCTYPE a><a/>", "Client", "document type"),
    "too deep": (b"<a>" * 300 + b"</a>" * 300, "Client", "deep"),
    "a header that must be understood": (must_understand, "MustUnderstand", "has to be understood"),
    "another SOAP": (
        b'<E:Envelope xmlns:E="urn:soap-9"><E:Body><a/></E:Body></E:Envelope>',
        "VersionMismatch",
        "neither SOAP 1.1 nor SOAP 1.2",
    ),
    "two bodies": (lambda version: envelope(version, "<a/><b/>"), "Client", "several elements"),
}


@pytest.mark.parametrize("version", ["1.1", "1.2"])
@pytest.mark.parametrize("case", FAULTS)
def test_a_fault_leaves_with_the_status_of_its_version(here: Running, version: str, case: str):
    sent, code, reason = FAULTS[case]
    body = sent(version) if callable(sent) else sent if isinstance(sent, bytes) else envelope(version, sent)
    answer = here.post("/shop", body, TYPES[version])

    fault = read_fault(parse_document(answer.content).tree)
    assert fault is not None
    assert (fault.version, fault.code) == (version, code)
    assert reason in fault.reason
    assert answer.headers["content-type"] == TYPES[version]
    assert answer.status_code == (400 if (version, code) == ("1.2", "Client") else 500)


def test_a_rules_own_fault_arrives_whole(here: Running):
    fault = read_fault(parse_document(here.post("/shop", envelope("1.2", order("strange")), TYPES["1.2"]).content).tree)

    assert fault is not None
    assert fault.subcodes == ("Q{urn:orders}Strange",)
    assert fault.reasons == (("de", "seltsam"), ("en", "odd"))
    assert (fault.role, fault.detail_attributes) == ("urn:shop", ' xmlns:a0="urn:orders" a0:level="2"')
    assert fault.detail is not None
    assert fault.detail.count('xmlns:o="urn:orders"') == 2


def test_a_rule_finds_the_detail_of_a_fault_that_a_service_answers_with(here: Running):
    assert here.post("/start", f'<start to="{here.address}/shop">gold</start>').status_code == 202

    [noted] = here.wait_for("noted")
    assert noted.body == "<noted>gold</noted>"


def test_what_says_it_is_soap_1_2_and_is_no_envelope_is_answered_in_soap_1_2(here: Running):
    answer = here.post("/shop", order("tea"), TYPES["1.2"])

    fault = read_fault(parse_document(answer.content).tree)
    assert fault is not None
    assert (answer.status_code, fault.version, fault.code) == (400, "1.2", "Client")


@pytest.mark.parametrize("version", ["1.1", "1.2"])
def test_a_request_that_is_repeated_with_another_content_gets_a_fault(here: Running, version: str):
    key = f"k-{version}"
    here.post("/shop", envelope(version, order("tea")), TYPES[version], Idempotency_Key=key)
    answer = here.post("/shop", envelope(version, order("gold")), TYPES[version], Idempotency_Key=key)

    fault = read_fault(parse_document(answer.content).tree)
    assert fault is not None
    assert (fault.code, answer.status_code) == ("Client", 500 if version == "1.1" else 400)


@pytest.mark.parametrize("version", ["1.1", "1.2"])
def test_an_answer_that_comes_too_late_is_a_fault_of_the_server(here: Running, version: str):
    answer = here.post("/slow", envelope(version, order("gold")), TYPES[version])

    fault = read_fault(parse_document(answer.content).tree)
    assert fault is not None
    assert (fault.version, fault.code, answer.status_code) == (version, "Server", 500)
    assert answer.headers["demaq-message-id"]


@pytest.mark.parametrize("version", ["1.1", "1.2"])
@pytest.mark.parametrize(
    ("path", "status", "header"),
    [("/full", 503, "retry-after"), ("/small", 413, None), ("/locked", 401, "www-authenticate")],
)
def test_what_is_refused_before_soap_has_its_status_of_http_and_no_fault(
    here: Running, version: str, path: str, status: int, header: str | None
):
    answer = here.post(path, envelope(version, order("tea")), TYPES[version], SOAPAction='""')

    assert answer.status_code == status
    assert header is None or header in answer.headers
    assert b"Envelope" not in answer.content


def test_a_content_type_that_is_no_xml_has_no_fault(here: Running):
    answer = here.post("/shop", b"x=y", "application/x-www-form-urlencoded", SOAPAction='""')

    assert (answer.status_code, b"Envelope" in answer.content) == (415, False)


def test_plain_xml_at_a_soap_gateway_is_answered_plainly(here: Running):
    assert b"Envelope" not in here.post("/shop", order("tea"), "text/xml").content
    for body, kind, status in [(order("tea", "many"), "text/xml", 422), ("<order", "application/xml", 400)]:
        answer = here.post("/shop", body, kind)
        assert (answer.status_code, answer.content[:7]) == (status, b"<error>")


@pytest.mark.parametrize(("body", "kind"), [("<order", "text/xml"), ("<order", "application/xml")])
def test_a_gateway_without_interface_answers_plain_xml_plainly(here: Running, body: str, kind: str):
    answer = here.post("/plain", body, kind)

    assert (answer.status_code, answer.content[:7]) == (400, b"<error>")


def test_a_gateway_without_interface_answers_soap_in_soap(here: Running):
    answer = here.post("/plain", b"<e:Envelope", TYPES["1.2"])

    fault = read_fault(parse_document(answer.content).tree)
    assert fault is not None
    assert (answer.status_code, fault.version) == (400, "1.2")
