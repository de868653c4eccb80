"""A client of another project reads the WSDL that we serve, and exchanges messages with us on loopback."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import zeep
import zeep.wsa
from lxml import etree

from demaq.documents import parse_document
from demaq.errors import MessageError
from demaq.soap import (
    Interface,
    content_type,
    make_answer,
    make_answer_headers,
    make_fault_answer,
    read_action,
    read_addressing,
    read_call,
    read_envelope,
    read_interface,
)
from tests.support.soap import wsdls
from tests.support.soap.wsdls import HEAD, MESSAGES, PORT_TYPE, TAIL, TYPES, interface_of

ANSWERS = {
    "placeOrder": '<confirmation xmlns="urn:orders"><number>7</number></confirmation>',
    "ping": '<pingResponse xmlns="urn:shop"/>',
    "price": '<o:priceResponse xmlns:o="urn:orders"><euros>2.50</euros></o:priceResponse>',
    "hello": '<helloResponse xmlns="urn:wrapped"><helloResult>good day, Ann</helloResult></helloResponse>',
}
SOLD_OUT = '<soldOut xmlns="urn:orders"><item>gold</item></soldOut>'


class Handler(BaseHTTPRequestHandler):
    """As a gateway would do it, with answers that are known before."""

    server: Any

    def do_GET(self) -> None:
        interface, address = self.server.interface, self.server.address
        query = parse_qs(urlsplit(self.path).query, keep_blank_values=True)
        name = (query.get("wsdl") or query.get("xsd") or [""])[0]
        found = interface.publish_file(name, address) if name else interface.publish(address)
        self._answer(200 if found else 404, "text/xml", found or b"")

    def do_POST(self) -> None:
        data = self.rfile.read(int(self.headers["content-length"]))
        try:
            envelope = read_envelope(parse_document(data).tree)
            request = read_addressing(envelope.headers, envelope.version)
            action = read_action(self.headers["content-type"], self.headers["soapaction"])
            found = read_call(self.server.interface, envelope, action)
        except MessageError as error:
            answer = make_fault_answer(self.server.interface.version, error)
            self._answer(answer.status, answer.content_type, answer.data)
            return
        self.server.received.append(found.message)
        if found.operation.is_one_way:
            self._answer(202, "text/plain", b"")
            return
        message = SOLD_OUT if "gold" in found.message else ANSWERS[found.operation.name]
        headers = make_answer_headers(request, message_id="urn:uuid:2") if request else ()
        answer = make_answer(found.operation, message, envelope.version, headers)
        self._answer(answer.status, answer.content_type, answer.data)

    def _answer(self, status: int, kind: str, data: bytes) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def served(interface: Interface) -> Iterator[Any]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        node: Any = server
        node.interface, node.address, node.received = interface, f"http://127.0.0.1:{server.server_port}/shop", []
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield node
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def client_of(interface: Interface, **options: Any) -> Iterator[tuple[Any, Any]]:
    with served(interface) as node:
        client = zeep.Client(f"{node.address}?wsdl", **options)
        try:
            yield client, node
        finally:
            client.transport.session.close()


def root_of(text: str) -> etree._Element:
    return parse_document(text).tree.getroot()


@pytest.mark.parametrize("version", ["1.1", "1.2"])
def test_zeep_places_an_order(tmp_path, version):
    with client_of(interface_of(tmp_path, wsdls.document_wsdl(version))) as (client, node):
        assert client.service.placeOrder(item="tea", pieces=3) == 7
        order = root_of(node.received[0])
        assert (order.tag, [child.text for child in order]) == ("{urn:orders}order", ["tea", "3"])
        client.service.remark("thanks")
        client.service.ping()
        assert root_of(node.received[1]).text == "thanks"
        assert node.received[2] == '<ping xmlns="urn:shop"/>'


@pytest.mark.parametrize("version", ["1.1", "1.2"])
def test_zeep_gets_a_declared_fault_with_its_detail(tmp_path, version):
    with client_of(interface_of(tmp_path, wsdls.document_wsdl(version))) as (client, _):
        with pytest.raises(zeep.exceptions.Fault) as caught:
            client.service.placeOrder(item="gold", pieces=1)
        assert caught.value.message == "SoldOut"
        assert caught.value.detail.find("{urn:orders}soldOut") is not None


@pytest.mark.parametrize("version", ["1.1", "1.2"])
def test_zeep_gets_a_fault_for_a_message_that_is_not_valid(tmp_path, version):
    interface = interface_of(tmp_path, wsdls.document_wsdl(version))
    with client_of(interface) as (client, node):
        order = client.create_message(client.service, "placeOrder", item="tea", pieces=3)
        order.find(".//{urn:orders}pieces").text = "many"
        answer = client.transport.post_xml(node.address, order, {"content-type": content_type(version)})
        assert b"'many' is not a valid value" in answer.content


def test_zeep_calls_an_rpc_operation(tmp_path):
    with client_of(interface_of(tmp_path, wsdls.RPC)) as (client, node):
        assert str(client.service.price(item={"name": "tea"}, pieces=2)) == "2.50"
        assert [child.tag for child in root_of(node.received[0])] == ["item", "pieces"]


def test_zeep_calls_a_wrapped_operation_by_its_parameters(tmp_path):
    text = """<wsdl:definitions xmlns:wsdl="http://schemas.xmlsoap.org/wsdl/" xmlns:w="urn:wrapped"
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
    with client_of(interface_of(tmp_path, text)) as (client, _):
        assert client.service.hello(name="Ann") == "good day, Ann"


def test_zeep_finds_the_files_that_the_wsdl_is_made_of(tmp_path):
    xs = 'xmlns:xs="http://www.w3.org/2001/XMLSchema"'
    concrete = HEAD + '<wsdl:import namespace="urn:shop" location="parts/abstract.wsdl"/>'
    concrete += wsdls.binding() + wsdls.service(wsdls.port()) + TAIL
    importing = '<xs:schema><xs:import namespace="urn:orders" schemaLocation="../orders all.xsd"/></xs:schema>'
    files = {
        "app/parts/abstract.wsdl": HEAD + wsdls.types(importing) + MESSAGES + PORT_TYPE + TAIL,
        "app/orders all.xsd": f'<xs:schema {xs} targetNamespace="urn:orders"><xs:include schemaLocation="../outside.xsd"/></xs:schema>',
        "outside.xsd": TYPES.replace("<xs:schema", f"<xs:schema {xs}"),
        "app/shop.wsdl": concrete,
    }
    interface_of(tmp_path, concrete.replace("parts/", "app/parts/"), files=files)
    interface = read_interface(tmp_path / "app/shop.wsdl")
    with client_of(interface) as (client, _):
        assert client.service.placeOrder(item="tea", pieces=3) == 7
    assert interface.publish_file("outside.xsd", "http://here/") is not None
    assert interface.publish_file("../outside.xsd", "http://here/") is None
    assert interface.publish_file("/etc/passwd", "http://here/") is None


def test_zeep_can_call_what_has_no_service_in_its_wsdl(tmp_path):
    text = HEAD + wsdls.types(TYPES) + MESSAGES + PORT_TYPE + TAIL
    with client_of(interface_of(tmp_path, text, "Orders")) as (client, node):
        assert client.service.placeOrder(item="tea", pieces=3) == 7
        client.service.remark("thanks")
        client.service.ping()
        assert len(node.received) == 3


def test_zeep_can_call_what_has_a_binding_and_no_service(tmp_path):
    text = HEAD + wsdls.types(TYPES) + MESSAGES + PORT_TYPE + wsdls.binding("1.2") + TAIL
    with client_of(interface_of(tmp_path, text, "Orders")) as (client, _):
        assert client.service.placeOrder(item="tea", pieces=3) == 7


def test_zeep_reads_the_example(tmp_path):
    wsdl = (Path(__file__).parents[3] / "examples/procurement/supplier.wsdl").read_text()
    with client_of(interface_of(tmp_path, wsdl)) as (client, _):
        assert list(client.service._operations) == ["requestCapacity"]


def test_zeep_with_addresses_gets_an_answer_that_relates_to_its_request(tmp_path):
    history = zeep.plugins.HistoryPlugin()
    interface = interface_of(tmp_path, wsdls.document_wsdl())
    with client_of(interface, plugins=[zeep.wsa.WsAddressingPlugin(), history]) as (client, _):
        assert client.service.placeOrder(item="tea", pieces=3) == 7
    assert history.last_sent is not None
    assert history.last_received is not None
    asked_id = history.last_sent["envelope"].findtext(".//{http://www.w3.org/2005/08/addressing}MessageID")
    relates = history.last_received["envelope"].findtext(".//{http://www.w3.org/2005/08/addressing}RelatesTo")
    assert asked_id == relates


def test_zeep_gets_a_fault_that_names_the_unknown_header(tmp_path):
    with client_of(interface_of(tmp_path, wsdls.document_wsdl())) as (client, _):
        block = etree.Element("{urn:security}Security")
        block.set("{http://schemas.xmlsoap.org/soap/envelope/}mustUnderstand", "1")
        with pytest.raises(zeep.exceptions.Fault) as caught:
            client.service.placeOrder(item="tea", pieces=3, _soapheaders=[block])
        assert caught.value.code.endswith(":MustUnderstand")
