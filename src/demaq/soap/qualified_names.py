"""Names of the standards that the SOAP layer speaks. A name is written `{namespace}local`, as lxml writes it."""

from __future__ import annotations

from itertools import islice

from lxml import etree

WSDL = "http://schemas.xmlsoap.org/wsdl/"
WSDL_2 = "http://www.w3.org/ns/wsdl"
MIME = "http://schemas.xmlsoap.org/wsdl/mime/"
XML = "http://www.w3.org/XML/1998/namespace"
XML_SCHEMA = "http://www.w3.org/2001/XMLSchema"
SOAP_ENCODING = "http://schemas.xmlsoap.org/soap/encoding/"

SOAP_1_1 = "1.1"
SOAP_1_2 = "1.2"

ENVELOPES = {
    SOAP_1_1: "http://schemas.xmlsoap.org/soap/envelope/",
    SOAP_1_2: "http://www.w3.org/2003/05/soap-envelope",
}
"""The namespace of envelopes by the version of SOAP."""

BINDINGS = {
    SOAP_1_1: "http://schemas.xmlsoap.org/wsdl/soap/",
    SOAP_1_2: "http://schemas.xmlsoap.org/wsdl/soap12/",
}
"""The namespace of what a WSDL says about SOAP, by the version of SOAP."""


SHOWN_MAX = 500
"""How much of a name or a text of somebody else's is repeated in an error."""


def clark(namespace: str | None, local: str) -> str:
    return f"{{{namespace}}}{local}" if namespace else local


def local_name(name: str) -> str:
    return name.rpartition("}")[2]


def resolved(element: etree._Element, written: str) -> str:
    """Return the name that `prefix:local` stands for where it is written. An unknown prefix is no namespace at all."""
    prefix, _, local = written.strip().rpartition(":")
    namespace = XML if prefix == "xml" else element.nsmap.get(prefix or None)
    return clark(namespace, local)


def shown(text: str) -> str:
    """Return a text from outside as it may stand in an error."""
    return text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}…"


def elements_of(parent: etree._Element, at_most: int | None = None) -> list[etree._Element]:
    """Return the child elements, or the first of them: no comments, no processing instructions."""
    return list(islice(parent.iterchildren("*"), at_most))
