"""The namespaces of SOAP and WSDL. A qualified name is written `{namespace}local`, as in lxml."""

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
"""The namespace of SOAP extensions in a WSDL, by the version of SOAP."""


SHOWN_MAX = 500
"""The most characters of foreign text that are quoted in an error."""


def clark(namespace: str | None, local: str) -> str:
    return f"{{{namespace}}}{local}" if namespace else local


def local_name(name: str) -> str:
    return name.rpartition("}")[2]


def resolve_name(element: etree._Element, written: str) -> str:
    """Return the qualified name of `prefix:local` in the scope of an element. An unknown prefix is no namespace."""
    prefix, _, local = written.strip().rpartition(":")
    namespace = XML if prefix == "xml" else element.nsmap.get(prefix or None)
    return clark(namespace, local)


def shorten(text: str) -> str:
    """Return a text from outside, cut for an error message."""
    return text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}…"


def child_elements(parent: etree._Element, at_most: int | None = None) -> list[etree._Element]:
    """Return the child elements, or the first of them, without comments and processing instructions."""
    return list(islice(parent.iterchildren("*"), at_most))
