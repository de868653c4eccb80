"""Faults in both versions of SOAP, and what HTTP says beside them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demaq.documents import parse_document
from demaq.gateways.soap import (
    Fault,
    SoapRefusal,
    action_of,
    content_type,
    fault_status,
    read_fault,
    version_of_content_type,
    write_fault,
    write_refusal,
)

VERSIONS = ["1.1", "1.2"]
CODES = ["Client", "Server", "VersionMismatch", "MustUnderstand"]


def back(data):
    return read_fault(parse_document(data).tree)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("code", CODES)
def test_a_fault_is_read_as_it_was_written(version, code):
    data = write_fault(version, code, "a < b & c", '<?xml version="1.0"?><why xmlns="urn:w"/>')
    assert back(data) == Fault(version=version, code=code, reason="a < b & c", detail='<why xmlns="urn:w"/>')


def test_each_version_has_its_own_words():
    assert b"<faultcode>soapenv:Client</faultcode>" in write_fault("1.1", "Client", "x")
    assert b"<soapenv:Value>soapenv:Sender</soapenv:Value>" in write_fault("1.2", "Client", "x")
    assert b"<soapenv:Value>soapenv:Receiver</soapenv:Value>" in write_fault("1.2", "Server", "x")
    assert b"<soapenv:Value>soapenv:Sender</soapenv:Value>" in write_fault("1.2", "Client.Authentication", "x")
    assert b"<soapenv:Value>soapenv:Receiver</soapenv:Value>" in write_fault("1.2", "Odd", "x")


@pytest.mark.parametrize("version", VERSIONS)
@given(reason=st.text(st.characters(exclude_categories=()), max_size=20), code=st.text(max_size=5))
def test_whatever_a_reason_holds_the_fault_is_well_formed(version, reason, code):
    assert back(write_fault(version, code, reason)) is not None


def test_a_fault_of_another_house_is_understood():
    data = """<S:Envelope xmlns:S="http://www.w3.org/2003/05/soap-envelope"><S:Body><S:Fault xmlns:m="urn:m">
      <S:Code><S:Value>S:Sender</S:Value><S:Subcode><S:Value>m:Late</S:Value></S:Subcode></S:Code>
      <S:Reason><S:Text xml:lang="en">too
        late</S:Text><S:Text xml:lang="de">zu spät</S:Text></S:Reason><S:Role>urn:hub</S:Role>
      <S:Detail><m:a>1</m:a><m:b q="m:x"/></S:Detail></S:Fault></S:Body></S:Envelope>"""
    assert back(data) == Fault(
        version="1.2",
        code="Client",
        reason="too late",
        detail='<m:a xmlns:m="urn:m">1</m:a><m:b xmlns:m="urn:m" q="m:x"/>',
        subcode="Late",
        role="urn:hub",
    )


def test_a_fault_without_anything_in_it_is_still_one():
    data = '<e:Envelope xmlns:e="http://schemas.xmlsoap.org/soap/envelope/"><e:Body><e:Fault/></e:Body></e:Envelope>'
    assert back(data) == Fault(version="1.1", code="Server", reason="")


def test_no_fault_is_none():
    assert back("<order/>") is None


def test_a_refusal_in_soap_1_2_says_what_was_not_understood():
    refusal = SoapRefusal("MustUnderstand", "no", version="1.2", not_understood=["{urn:s}Security", "plain"])
    data = write_refusal(refusal)
    assert b'<soapenv:NotUnderstood xmlns:n="urn:s" qname="n:Security"/>' in data
    assert b'<soapenv:NotUnderstood qname="plain"/>' in data
    assert back(data) == Fault(version="1.2", code="MustUnderstand", reason="no")


def test_the_status_of_a_fault_depends_on_the_version():
    assert [fault_status("1.1", code) for code in CODES] == [500, 500, 500, 500]
    assert [fault_status("1.2", code) for code in CODES] == [400, 500, 500, 500]


def test_the_content_type_tells_the_version_and_in_soap_1_2_the_action():
    assert content_type("1.1", "urn:a") == "text/xml; charset=utf-8"
    assert content_type("1.2", 'urn:"a') == 'application/soap+xml; charset=utf-8; action="urn:\\"a"'
    assert version_of_content_type("Text/XML; charset=utf-8") == "1.1"
    assert version_of_content_type("application/soap+xml") == "1.2"
    assert version_of_content_type("application/xml") is None
    assert version_of_content_type(None) is None


@pytest.mark.parametrize(
    ("kind", "header", "action"),
    [
        ("text/xml", '"urn:a"', "urn:a"),
        ("text/xml", "urn:a", "urn:a"),
        ("text/xml", "'urn:a'", "urn:a"),
        ("text/xml", '""', None),
        ("text/xml", '"', '"'),
        ("text/xml", None, None),
        (None, None, None),
        ('application/soap+xml; charset=utf-8; action="urn:a"', None, "urn:a"),
        ("application/soap+xml;action=urn:a", None, "urn:a"),
        ('application/soap+xml; action=""', None, None),
        ("application/soap+xml; charset", None, None),
    ],
)
def test_the_action_stands_where_its_version_has_it(kind, header, action):
    assert action_of(kind, header) == action


@given(st.text(max_size=30))
def test_any_header_at_all_can_be_looked_at(text):
    action_of(f"application/soap+xml; {text}", None)
    version_of_content_type(text)
