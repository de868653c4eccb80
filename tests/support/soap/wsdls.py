"""WSDL files of many shapes, written as their authors would."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from demaq.soap import Interface, read_interface

SOAP_NAMESPACES = {"1.1": "http://schemas.xmlsoap.org/wsdl/soap/", "1.2": "http://schemas.xmlsoap.org/wsdl/soap12/"}
TRANSPORT = "http://schemas.xmlsoap.org/soap/http"

HEAD = """<wsdl:definitions xmlns:wsdl="http://schemas.xmlsoap.org/wsdl/" xmlns:xs="http://www.w3.org/2001/XMLSchema"
  xmlns:soap="http://schemas.xmlsoap.org/wsdl/soap/" xmlns:soap12="http://schemas.xmlsoap.org/wsdl/soap12/"
  xmlns:t="urn:shop" xmlns:o="urn:orders" targetNamespace="urn:shop">"""
TAIL = "</wsdl:definitions>"

TYPES = """<xs:schema targetNamespace="urn:orders" elementFormDefault="qualified">
  <xs:element name="order"><xs:complexType><xs:sequence>
    <xs:element name="item" type="xs:string"/><xs:element name="pieces" type="xs:int"/>
  </xs:sequence></xs:complexType></xs:element>
  <xs:element name="confirmation"><xs:complexType><xs:sequence>
    <xs:element name="number" type="xs:int"/>
  </xs:sequence></xs:complexType></xs:element>
  <xs:element name="soldOut"><xs:complexType><xs:sequence>
    <xs:element name="item" type="xs:string"/>
  </xs:sequence></xs:complexType></xs:element>
  <xs:element name="customer" type="xs:string"/>
  <xs:element name="note" type="xs:string"/>
</xs:schema>"""

MESSAGES = """
<wsdl:message name="Order"><wsdl:part name="body" element="o:order"/></wsdl:message>
<wsdl:message name="Confirmation"><wsdl:part name="body" element="o:confirmation"/></wsdl:message>
<wsdl:message name="SoldOut"><wsdl:part name="fault" element="o:soldOut"/></wsdl:message>
<wsdl:message name="Note"><wsdl:part name="body" element="o:note"/></wsdl:message>
<wsdl:message name="Customer"><wsdl:part name="customer" element="o:customer"/></wsdl:message>
<wsdl:message name="Nothing"/>"""

PORT_TYPE = """<wsdl:portType name="Orders">
  <wsdl:operation name="placeOrder"><wsdl:input message="t:Order"/><wsdl:output message="t:Confirmation"/>
    <wsdl:fault name="SoldOut" message="t:SoldOut"/></wsdl:operation>
  <wsdl:operation name="remark"><wsdl:input message="t:Note"/></wsdl:operation>
  <wsdl:operation name="ping"><wsdl:input message="t:Nothing"/><wsdl:output message="t:Nothing"/></wsdl:operation>
</wsdl:portType>"""


def binding(version: str = "1.1", name: str = "OrdersBinding") -> str:
    soap = "soap" if version == "1.1" else "soap12"
    literal = f'<{soap}:body use="literal"/>'
    return f"""<wsdl:binding name="{name}" type="t:Orders">
  <{soap}:binding transport="{TRANSPORT}"/>
  <wsdl:operation name="placeOrder"><{soap}:operation soapAction="urn:shop/placeOrder"/>
    <wsdl:input><{soap}:header message="t:Customer" part="customer" use="literal"/>{literal}</wsdl:input>
    <wsdl:output>{literal}</wsdl:output>
    <wsdl:fault name="SoldOut"><{soap}:fault name="SoldOut" use="literal"/></wsdl:fault></wsdl:operation>
  <wsdl:operation name="remark"><{soap}:operation soapAction="urn:shop/remark"/>
    <wsdl:input>{literal}</wsdl:input></wsdl:operation>
  <wsdl:operation name="ping"><{soap}:operation soapAction="urn:shop/ping"/>
    <wsdl:input>{literal}</wsdl:input><wsdl:output>{literal}</wsdl:output></wsdl:operation>
</wsdl:binding>"""


def port(name: str = "OrdersPort", of: str = "OrdersBinding", version: str = "1.1") -> str:
    soap = "soap" if version == "1.1" else "soap12"
    return f"""<wsdl:port name="{name}" binding="t:{of}">
      <{soap}:address location="http://shop.invalid/{name}"/></wsdl:port>"""


def service(*ports: str, name: str = "Shop") -> str:
    return f'<wsdl:service name="{name}">{"".join(ports)}</wsdl:service>'


def types(*schemas: str) -> str:
    return f"<wsdl:types>{''.join(schemas)}</wsdl:types>"


def document_wsdl(version: str = "1.1") -> str:
    """Bare documents: an order that is confirmed, a remark without an answer, a ping without any content."""
    return HEAD + types(TYPES) + MESSAGES + PORT_TYPE + binding(version) + service(port(version=version)) + TAIL


BOTH_VERSIONS = (
    HEAD
    + types(TYPES)
    + MESSAGES
    + PORT_TYPE
    + binding("1.1", "One")
    + binding("1.2", "Two")
    + service(port("PortOne", "One", "1.1"), port("PortTwo", "Two", "1.2"))
    + TAIL
)

RPC = (
    HEAD
    + types(
        """<xs:schema targetNamespace="urn:orders"><xs:complexType name="Item"><xs:sequence>
        <xs:element name="name" type="xs:string"/></xs:sequence></xs:complexType>
        <xs:complexType name="Gift"><xs:complexContent><xs:extension base="o:Item"><xs:sequence>
        <xs:element name="greeting" type="xs:string"/></xs:sequence></xs:extension></xs:complexContent></xs:complexType>
        <xs:element name="price" type="xs:string"/></xs:schema>"""
    )
    + """<wsdl:message name="Ask"><wsdl:part name="item" type="o:Item"/><wsdl:part name="pieces" type="xs:int"/></wsdl:message>
    <wsdl:message name="Answer"><wsdl:part name="euros" type="xs:decimal"/></wsdl:message>
    <wsdl:portType name="Prices"><wsdl:operation name="price">
      <wsdl:input message="t:Ask"/><wsdl:output message="t:Answer"/></wsdl:operation></wsdl:portType>
    <wsdl:binding name="PricesBinding" type="t:Prices">"""
    + f'<soap:binding style="rpc" transport="{TRANSPORT}"/>'
    + """<wsdl:operation name="price"><soap:operation soapAction=""/>
      <wsdl:input><soap:body use="literal" namespace="urn:orders"/></wsdl:input>
      <wsdl:output><soap:body use="literal" namespace="urn:orders"/></wsdl:output></wsdl:operation></wsdl:binding>"""
    + service(port("PricesPort", "PricesBinding"))
    + TAIL
)


def interface_of(folder: Path, text: str, port: str | None = None, files: Mapping[str, str] | None = None) -> Interface:
    """Read a WSDL, with the files it needs beside it."""
    for name, content in {"shop.wsdl": text, **(files or {})}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
    return read_interface(folder / "shop.wsdl", port)
