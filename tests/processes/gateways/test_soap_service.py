"""Foreign clients, zeep and curl, use gateways with an interface of a running node."""

from __future__ import annotations

import shutil
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
import trustme
import zeep
import zeep.wsa
from lxml import etree

from demaq.gateways.security.tls import OwnCertificate
from demaq.gateways.settings import IncomingSettings, Settings
from demaq.gateways.settings.settings import Tls
from tests.support.gateways.client import Client
from tests.support.gateways.nodes import Running, running, written
from tests.support.soap import wsdls
from tests.support.soap.wsdls import HEAD, MESSAGES, PORT_TYPE, TAIL, TYPES

APPLICATION = """
declare namespace o = "urn:orders";
declare namespace t = "urn:shop";
declare namespace w = "urn:wrapped";
declare namespace e = "http://schemas.xmlsoap.org/soap/envelope/";

create queue shop kind incomingGateway interface one.wsdl port OrdersPort
create queue shop2 kind incomingGateway interface two.wsdl port OrdersPort
create queue parts kind incomingGateway endpoint "http:/v1/parts" interface parts.wsdl port OrdersPort
create queue prices kind incomingGateway interface rpc.wsdl port PricesPort
create queue greetings kind incomingGateway interface wrapped.wsdl port Q
create queue answers kind outgoingGateway
create queue remarks
create property customer as xs:string queue shop, shop2 value qs:property("demaq:header.{urn:orders}customer")

create rule confirm for shop
  if (/o:order/o:item = ("tea", "coffee")) then
    do enqueue <o:confirmation><o:number>{string-length(qs:property("customer"))}</o:number></o:confirmation> into answers
create rule confirm2 for shop2
  if (/o:order/o:item = "tea") then
    do enqueue <o:confirmation><o:number>7</o:number></o:confirmation> into answers
create rule confirm3 for parts
  if (/o:order) then do enqueue <o:confirmation><o:number>8</o:number></o:confirmation> into answers
create rule soldOut for shop
  if (/o:order/o:item = "gold") then do enqueue <o:soldOut><o:item>gold</o:item></o:soldOut> into answers
create rule soldOut2 for shop2
  if (/o:order/o:item = "gold") then do enqueue <o:soldOut><o:item>gold</o:item></o:soldOut> into answers
create rule closed for shop
  if (/o:order/o:item = "late") then
    do enqueue <e:Fault><faultcode>e:Client</faultcode><faultstring>we are closed</faultstring></e:Fault> into answers
create rule wrong for shop
  if (/o:order/o:item = "wrong") then do enqueue <o:confirmation><o:number>many</o:number></o:confirmation> into answers
create rule ping for shop if (/t:ping) then do enqueue <t:pingResponse/> into answers
create rule remark for shop if (/o:note) then do enqueue /* into remarks
create rule price for prices
  if (/o:price) then do enqueue <o:priceResponse><euros>2.50</euros></o:priceResponse> into answers
create rule hello for greetings
  if (/w:hello) then
    do enqueue <w:helloResponse><w:helloResult>good day, {string(/w:hello/w:name)}</w:helloResult></w:helloResponse>
      into answers
"""
WRAPPED = """<wsdl:definitions xmlns:wsdl="http://schemas.xmlsoap.org/wsdl/" xmlns:w="urn:wrapped"
    xmlns:soap="http://schemas.xmlsoap.org/wsdl/soap/" targetNamespace="urn:wrapped">
  <wsdl:types><s:schema xmlns:s="http://www.w3.org/2001/XMLSchema" elementFormDefault="qualified" targetNamespace="urn:wrapped">
    <s:element name="hello"><s:complexType><s:sequence><s:element name="name" type="s:string"/></s:sequence></s:complexType></s:element>
    <s:element name="helloResponse"><s:complexType><s:sequence><s:element name="helloResult" type="s:string"/></s:sequence></s:complexType></s:element>
  </s:schema></wsdl:types>
  <wsdl:message name="In"><wsdl:part name="parameters" element="w:hello"/></wsdl:message>
  <wsdl:message name="Out"><wsdl:part name="parameters" element="w:helloResponse"/></wsdl:message>
  <wsdl:portType name="P"><wsdl:operation name="hello"><wsdl:input message="w:In"/><wsdl:output message="w:Out"/></wsdl:operation></wsdl:portType>
  <wsdl:binding name="B" type="w:P"><soap:binding transport="http://schemas.xmlsoap.org/soap/http"/>
    <wsdl:operation name="hello"><soap:operation soapAction="urn:wrapped/hello" style="document"/>
      <wsdl:input><soap:body use="literal"/></wsdl:input><wsdl:output><soap:body use="literal"/></wsdl:output></wsdl:operation></wsdl:binding>
  <wsdl:service name="S"><wsdl:port name="Q" binding="w:B"/></wsdl:service></wsdl:definitions>"""
_IMPORTING = wsdls.types('<xs:schema><xs:import namespace="urn:orders" schemaLocation="orders.xsd"/></xs:schema>')
FILES = {
    "one.wsdl": wsdls.document_wsdl("1.1"),
    "two.wsdl": wsdls.document_wsdl("1.2"),
    "parts.wsdl": HEAD
    + '<wsdl:import namespace="urn:shop" location="abstract.wsdl"/>'
    + wsdls.binding()
    + wsdls.service(wsdls.port())
    + TAIL,
    "abstract.wsdl": HEAD + _IMPORTING + MESSAGES + PORT_TYPE + TAIL,
    "orders.xsd": TYPES.replace("<xs:schema", '<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema"'),
    "rpc.wsdl": wsdls.RPC,
    "wrapped.wsdl": WRAPPED,
}
ADDRESSING = "{http://www.w3.org/2005/08/addressing}"
ENVELOPE = "http://schemas.xmlsoap.org/soap/envelope/"
SETTINGS = Settings(incoming_default=IncomingSettings(reply_seconds_max=20))


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(written(tmp_path_factory.mktemp("soap"), FILES), APPLICATION, SETTINGS) as found:
        yield found


def client_for(here: Running, path: str, **options: Any) -> Any:
    return zeep.Client(f"{here.address}{path}?wsdl", transport=zeep.Transport(session=_session()), **options)


_sessions: list[requests.Session] = []


@pytest.fixture(autouse=True)
def close_sessions() -> Iterator[None]:
    yield
    while _sessions:
        _sessions.pop().close()


def _session() -> requests.Session:
    session = requests.Session()
    _sessions.append(session)
    session.trust_env = False
    return session


# zeep


@pytest.mark.parametrize(("path", "number"), [("/shop", 5), ("/shop2", 7)])
def test_zeep_places_an_order_whose_header_is_a_property(here: Running, path: str, number: int):
    customer = etree.Element("{urn:orders}customer")
    customer.text = "Alice"

    assert client_for(here, path).service.placeOrder(item="tea", pieces=3, _soapheaders=[customer]) == number
    [message] = [m for m in here.stored(path[1:]) if "customer" in m.properties and "tea" in m.body][-1:]
    assert message.properties["customer"].text == "Alice"


@pytest.mark.parametrize("path", ["/shop", "/shop2"])
def test_zeep_gets_a_declared_fault_with_its_detail(here: Running, path: str):
    with pytest.raises(zeep.exceptions.Fault) as caught:
        client_for(here, path).service.placeOrder(item="gold", pieces=1)

    assert caught.value.message == "SoldOut"
    assert caught.value.detail.findtext("{urn:orders}soldOut/{urn:orders}item") == "gold"


def test_zeep_gets_a_fault_that_is_not_declared(here: Running):
    with pytest.raises(zeep.exceptions.Fault) as caught:
        client_for(here, "/shop").service.placeOrder(item="late", pieces=1)

    assert (caught.value.message, caught.value.code.rpartition(":")[2]) == ("we are closed", "Client")


def test_an_answer_that_is_not_as_the_interface_says_is_a_fault_and_an_error_message(here: Running):
    before = len(here.stored("demaq:errors"))
    with pytest.raises(zeep.exceptions.Fault) as caught:
        client_for(here, "/shop").service.placeOrder(item="wrong", pieces=1)

    assert "violates the interface" in caught.value.message
    [error] = here.wait_for("demaq:errors", before + 1)[before:]
    assert "<schemaViolation/>" in error.body


def test_a_wrong_answer_comes_again_for_the_same_key(here: Running):
    client = client_for(here, "/shop")
    for _ in range(2):
        with (
            client.settings(extra_http_headers={"Idempotency-Key": "w-1"}),
            pytest.raises(zeep.exceptions.Fault) as caught,
        ):
            client.service.placeOrder(item="wrong", pieces=1)
        assert "violates the interface" in caught.value.message


@pytest.mark.parametrize(("path", "code"), [("/shop", "Client"), ("/shop2", "Sender")])
def test_zeep_gets_a_fault_for_what_is_not_as_the_schema_says(here: Running, path: str, code: str):
    client = client_for(here, path)
    order = client.create_message(client.service, "placeOrder", item="tea", pieces=3)
    order.find(".//{urn:orders}pieces").text = "many"
    before = len(here.stored("demaq:errors"))
    answer = client.transport.post_xml(here.address + path, order, {"content-type": "text/xml"})

    assert answer.status_code == (500 if code == "Client" else 400)
    assert b"'many' is not a valid value" in answer.content
    assert code.encode() in answer.content
    [error] = here.wait_for("demaq:errors", before + 1)[before:]
    assert "many" in error.body


def test_no_client_waits_for_an_answer_to_an_operation_without_one(here: Running):
    before = len(here.stored("remarks"))
    client_for(here, "/shop").service.remark("thanks")

    [note] = here.wait_for("remarks", before + 1)[before:]
    assert etree.fromstring(note.body).text == "thanks"


def test_zeep_pings_with_an_empty_body(here: Running):
    assert client_for(here, "/shop").service.ping() is None


def test_zeep_calls_an_rpc_operation(here: Running):
    assert str(client_for(here, "/prices").service.price(item={"name": "tea"}, pieces=2)) == "2.50"


def test_zeep_calls_a_wrapped_operation_by_its_parameters(here: Running):
    assert client_for(here, "/greetings").service.hello(name="Ann") == "good day, Ann"


def test_zeep_finds_the_files_that_a_wsdl_is_made_of(here: Running):
    assert client_for(here, "/v1/parts").service.placeOrder(item="tea", pieces=3) == 8
    assert here.client.get("/v1/parts?xsd=orders.xsd").status_code == 200
    assert here.client.get("/v1/parts?xsd=../app.dmq").status_code == 404
    assert here.client.get("/v1/parts?wsdl=%2Fetc%2Fpasswd").status_code == 404


def test_zeep_with_addresses_gets_an_answer_that_relates_to_its_request(here: Running):
    history = zeep.plugins.HistoryPlugin()
    client = client_for(here, "/shop", plugins=[zeep.wsa.WsAddressingPlugin(), history])
    client.service.placeOrder(item="tea", pieces=3)

    assert history.last_sent is not None
    assert history.last_received is not None
    asked = history.last_sent["envelope"].findtext(f".//{ADDRESSING}MessageID")
    assert history.last_received["envelope"].findtext(f".//{ADDRESSING}RelatesTo") == asked


def test_zeep_is_answered_which_header_is_not_understood(here: Running):
    block = etree.Element("{urn:security}Security")
    block.set(f"{{{ENVELOPE}}}mustUnderstand", "1")
    with pytest.raises(zeep.exceptions.Fault) as caught:
        client_for(here, "/shop").service.placeOrder(item="tea", pieces=3, _soapheaders=[block])

    assert caught.value.code.endswith(":MustUnderstand")


def test_a_password_in_a_soap_header_is_no_property(here: Running):
    namespace = "http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss-wssecurity-secext-1.0.xsd"
    block = etree.Element(f"{{{namespace}}}Security")
    etree.SubElement(block, f"{{{namespace}}}Password").text = "hunter2"
    before = len(here.stored("shop"))
    client_for(here, "/shop").service.placeOrder(item="tea", pieces=3, _soapheaders=[block])

    [message] = here.stored("shop")[before:]
    assert "hunter2" not in [value.text for value in message.properties.values()]


# addresses


@pytest.mark.parametrize(
    ("host", "shown"),
    [
        ("shop.example:81", "http://shop.example:81/shop"),
        ("[::1]:8080", "http://[::1]:8080/shop"),
        ("", None),
    ],
)
def test_the_served_address_is_the_one_the_client_has_asked(here: Running, host: str, shown: str | None):
    answer = here.client.get("/shop?WSDL", headers={"Host": host})

    assert answer.status_code == 200
    root = etree.fromstring(answer.content)
    [address] = root.iter("{http://schemas.xmlsoap.org/wsdl/soap/}address")
    assert address.get("location") == (shown or f"{here.address}/shop")


@pytest.mark.parametrize("host", ["[::1", 'x"><evil/>', "a b"])
def test_a_host_that_is_none_is_refused(here: Running, host: str):
    assert here.client.get("/shop?WSDL", headers={"Host": host}).status_code == 400


def test_the_description_can_be_asked_for_with_head(here: Running):
    answer = here.client.request("HEAD", "/shop?wsdl")

    assert (answer.status_code, answer.content) == (200, b"")
    assert int(answer.headers["content-length"]) > 1000
    assert here.client.request("OPTIONS", "/shop").headers["allow"] == "GET, HEAD, POST"


def test_a_service_with_tls_says_so_in_its_address(tmp_path: Path):
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    issued = authority.issue_cert("127.0.0.1", "localhost")
    issued.private_key_and_cert_chain_pem.write_to_path(tmp_path / "node.pem")
    (tmp_path / "node.pem").chmod(0o600)
    settings = Settings(tls=Tls(own=OwnCertificate(certificate=tmp_path / "node.pem")))
    with running(written(tmp_path, FILES), APPLICATION, settings) as here:
        session = _session()
        session.verify = str(tmp_path / "ca.pem")
        address = here.address.replace("127.0.0.1", "localhost")
        client = zeep.Client(f"{address}/shop?wsdl", transport=zeep.Transport(session=session))

        assert address.startswith("https://")
        assert client.service._binding_options["address"] == f"{address}/shop"
        assert client.service.placeOrder(item="tea", pieces=3) == 0
        session.close()
        with pytest.raises(ssl.SSLCertVerificationError):
            Client(address, tls=ssl.create_default_context()).get("/healthz")


# curl


def curl(*words: str) -> str:
    """What curl answers. It is on most machines; where it is not, its tests are left out."""
    program = shutil.which("curl")
    if program is None:
        pytest.skip("there is no curl on this machine")
    done = subprocess.run(
        [program, "--silent", "--show-error", "--noproxy", "*", "--max-time", "30", *words],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def order(item: str) -> str:
    return f'<e:Envelope xmlns:e="{ENVELOPE}"><e:Body><order xmlns="urn:orders"><item>{item}</item><pieces>1</pieces></order></e:Body></e:Envelope>'


def test_curl_reads_the_description(here: Running):
    assert f'location="{here.address}/shop"' in curl(f"{here.address}/shop?wsdl")


@pytest.mark.parametrize("version", ["--http1.0", "--http1.1"])
def test_curl_places_an_order(here: Running, version: str):
    found = curl(
        version, "-H", "Content-Type: text/xml", "-H", "SOAPAction: ''", "-d", order("tea"), f"{here.address}/shop"
    )

    assert "number>0</" in found


def test_curl_is_asked_for_a_large_body_and_sends_it_in_chunks(here: Running, tmp_path: Path):
    (tmp_path / "order.xml").write_text(order("coffee") + " " * 2_000_000)
    expecting = ["-H", "Content-Type: text/xml", "-H", "Expect: 100-continue", "-H", "Transfer-Encoding: chunked"]
    found = curl(*expecting, "-v", "--data-binary", f"@{tmp_path / 'order.xml'}", f"{here.address}/shop")

    assert "number>0</" in found


def test_curl_gets_a_fault_and_its_status(here: Running):
    found = curl("-w", "%{http_code}", "-H", "Content-Type: text/xml", "-d", order("gold"), f"{here.address}/shop")

    assert found.endswith("500")
    assert "soldOut" in found


def test_curl_continues_with_its_connection_after_a_refusal(here: Running):
    found = curl(
        "-w",
        "%{http_code} %{num_connects}\n",
        "-d",
        "x=y",
        f"{here.address}/shop",
        "--next",
        "--noproxy",
        "*",
        "-s",
        "-w",
        "%{http_code} %{num_connects}\n",
        "-H",
        "Content-Type: text/xml",
        "-d",
        order("tea"),
        f"{here.address}/shop",
    )

    assert "415 1\n" in found
    assert "200 0\n" in found
