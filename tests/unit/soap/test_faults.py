"""Faults in both versions of SOAP, and what HTTP says beside them."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from demaq.documents import parse_document
from demaq.soap import (
    Fault,
    SoapRefusal,
    content_type,
    convert_fault,
    describe_fault,
    fault_status,
    read_action,
    read_fault,
    write_fault,
    write_refusal,
)
from demaq.soap.refusals import ProtocolFault, refuse
from demaq.soap.security.security_faults import failed_authentication
from demaq.soap.security.wss_names import WSSE

VERSIONS = ["1.1", "1.2"]
CODES = ["Client", "Server", "VersionMismatch", "MustUnderstand"]


def back(data):
    return read_fault(parse_document(data).tree)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("code", CODES)
def test_a_fault_is_read_as_it_was_written(version, code):
    data = write_fault(version, code, "a < b & c", '<?xml version="1.0"?><why xmlns="urn:w"/>')
    language = "en" if version == "1.2" else ""
    assert back(data) == Fault(
        version=version, code=code, reasons=((language, "a < b & c"),), detail='<why xmlns="urn:w"/>'
    )


def test_each_version_has_its_own_words():
    assert b"<faultcode>soapenv:Client</faultcode>" in write_fault("1.1", "Client", "x")
    assert b"<soapenv:Value>soapenv:Sender</soapenv:Value>" in write_fault("1.2", "Client", "x")
    assert b"<soapenv:Value>soapenv:Receiver</soapenv:Value>" in write_fault("1.2", "Server", "x")
    assert b"<soapenv:Value>soapenv:Sender</soapenv:Value>" in write_fault("1.2", "Client.Authentication", "x")
    assert b"<soapenv:Value>soapenv:Receiver</soapenv:Value>" in write_fault("1.2", "Odd", "x")
    assert b'<faultcode xmlns:c="urn:o">c:Odd</faultcode>' in write_fault("1.1", "Q{urn:o}Odd", "x")
    assert b'<soapenv:Value xmlns:c="urn:o">c:Odd</soapenv:Value></soapenv:Subcode>' in write_fault(
        "1.2", "Q{urn:o}Odd", "x"
    )


@pytest.mark.parametrize("version", VERSIONS)
@given(reason=st.text(st.characters(exclude_categories=()), max_size=20), code=st.text(max_size=5))
def test_whatever_a_reason_holds_the_fault_is_well_formed(version, reason, code):
    assert back(write_fault(version, code, reason)) is not None


FOREIGN = {
    "1.2": """<S:Envelope xmlns:S="http://www.w3.org/2003/05/soap-envelope" xmlns="urn:m" xmlns:u="urn:unused"><S:Body>
      <S:Fault xmlns:m="urn:m">
        <S:Code><S:Value>S:Sender</S:Value><S:Subcode><S:Value>m:Late</S:Value><S:Subcode><S:Value>m:Very</S:Value>
          </S:Subcode></S:Subcode></S:Code>
        <S:Reason><S:Text xml:lang="de">zu spät</S:Text><S:Text xml:lang="en">too
          late</S:Text></S:Reason><S:Node>urn:node</S:Node><S:Role>urn:hub</S:Role>
        <S:Detail m:level="3 &lt; 4" xml:lang="en"><m:a>1</m:a>
          <b q="m:x"/><none xmlns=""/></S:Detail></S:Fault></S:Body></S:Envelope>""",
    "1.1": """<S:Envelope xmlns:S="http://schemas.xmlsoap.org/soap/envelope/"><S:Body><S:Fault xmlns:m="urn:m">
      <faultcode>m:Late</faultcode><faultstring xml:lang="en">too late</faultstring><faultactor>urn:hub</faultactor>
      <detail m:level="3 &lt; 4" xml:lang="en"><m:a>1</m:a>
        <b xmlns="urn:m" q="m:x"/><none/></detail></S:Fault></S:Body></S:Envelope>""",
}


def test_a_fault_of_another_house_is_read_whole():
    assert back(FOREIGN["1.2"]) == Fault(
        version="1.2",
        code="Client",
        reasons=(("de", "zu spät"), ("en", "too late")),
        subcodes=("Q{urn:m}Late", "Q{urn:m}Very"),
        role="urn:hub",
        node="urn:node",
        detail=back(FOREIGN["1.2"]).detail,
        detail_attributes=' xmlns:a0="urn:m" a0:level="3 &lt; 4" xml:lang="en"',
    )
    assert back(FOREIGN["1.2"]).reason == "too late"
    assert back(FOREIGN["1.1"]) == Fault(
        version="1.1",
        code="Q{urn:m}Late",
        reasons=(("en", "too late"),),
        role="urn:hub",
        detail=back(FOREIGN["1.1"]).detail,
        detail_attributes=' xmlns:a0="urn:m" a0:level="3 &lt; 4" xml:lang="en"',
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_the_detail_comes_into_an_error_message_as_it_was(version):
    element = etree.fromstring(describe_fault(back(FOREIGN[version])))
    detail = element.find("detail")
    assert detail is not None
    assert dict(detail.attrib.items()) == {"{urn:m}level": "3 < 4", "{http://www.w3.org/XML/1998/namespace}lang": "en"}
    assert [child.tag for child in detail] == ["{urn:m}a", "{urn:m}b", "none"]
    assert detail[1].nsmap["m"] == "urn:m"  # its attribute names it
    assert b"urn:unused" not in etree.tostring(detail)
    expected = {"1.1": ["code", "reason", "role", "detail"]}
    assert [child.tag for child in element] == expected.get(
        version, ["code", "subcode", "subcode", "reason", "reason", "node", "role", "detail"]
    )


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("other", VERSIONS)
def test_a_fault_says_the_same_in_the_other_version(version, other):
    given, came = back(FOREIGN[version]), back(convert_fault(back(FOREIGN[version]), other))
    assert came.version == other
    assert (came.role, came.reason, came.detail_attributes) == (given.role, given.reason, given.detail_attributes)
    assert [child.tag for child in etree.fromstring(f"<d>{came.detail}</d>")] == ["{urn:m}a", "{urn:m}b", "none"]
    if version == other:
        assert came == given
    if (version, other) == ("1.1", "1.2"):
        assert (came.code, came.subcodes) == ("Server", ("Q{urn:m}Late",))
    if (version, other) == ("1.2", "1.1"):
        assert came.code == "Client"


def test_text_in_a_detail_is_kept():
    data = """<e:Fault xmlns:e="http://schemas.xmlsoap.org/soap/envelope/"><faultcode>e:Server</faultcode>
      <detail>at 12 &amp; 13: <x/> and<!-- or --> so</detail></e:Fault>"""
    assert back(data).detail.replace(' xmlns:e="http://schemas.xmlsoap.org/soap/envelope/"', "") == (
        "at 12 &amp; 13: <x/> and<!-- or --> so"
    )


def test_a_fault_without_anything_in_it_is_still_one():
    data = '<e:Envelope xmlns:e="http://schemas.xmlsoap.org/soap/envelope/"><e:Body><e:Fault/></e:Body></e:Envelope>'
    assert back(data) == Fault(version="1.1", code="Server")
    assert back(data).reason == ""
    assert back(convert_fault(back(data), "1.2")).code == "Server"


def test_no_fault_is_none():
    assert back("<order/>") is None


def test_a_refusal_in_soap_1_2_says_what_was_not_understood():
    refusal = SoapRefusal("MustUnderstand", "no", version="1.2", not_understood=["{urn:s}Security", "plain"])
    data = write_refusal(refusal)
    assert b'<soapenv:NotUnderstood xmlns:n="urn:s" qname="n:Security"/>' in data
    assert b'<soapenv:NotUnderstood qname="plain"/>' in data
    assert back(data) == Fault(version="1.2", code="MustUnderstand", reasons=(("en", "no"),))


def test_a_refusal_in_soap_1_2_says_which_envelopes_are_understood():
    data = write_refusal(SoapRefusal("VersionMismatch", "no"), "1.2")
    found = parse_document(data).tree.findall(".//{http://www.w3.org/2003/05/soap-envelope}SupportedEnvelope")
    assert [one.nsmap["v"] for one in found] == [
        "http://www.w3.org/2003/05/soap-envelope",
        "http://schemas.xmlsoap.org/soap/envelope/",
    ]


def test_the_status_of_a_fault_depends_on_the_version():
    assert [fault_status("1.1", code) for code in CODES] == [500, 500, 500, 500]
    assert [fault_status("1.2", code) for code in CODES] == [400, 500, 500, 500]


def test_the_content_type_tells_the_version_and_in_soap_1_2_the_action():
    assert content_type("1.1", "urn:a") == "text/xml; charset=utf-8"
    assert content_type("1.2", 'urn:"a') == 'application/soap+xml; charset=utf-8; action="urn:\\"a"'


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
    assert read_action(kind, header) == action


@given(st.text(max_size=30))
def test_any_header_at_all_can_be_looked_at(text):
    read_action(f"application/soap+xml; {text}", None)


GENERAL, SPECIAL = "Q{urn:f}General", "Q{urn:f}Special"


@pytest.mark.parametrize("version", VERSIONS)
def test_a_refusal_of_a_protocol_has_its_subcodes_in_soap_1_2_and_its_own_code_in_soap_1_1(version):
    protocol = ProtocolFault(
        code="Client", subcodes=(GENERAL, SPECIAL), reason="no", action="urn:f", code_of_1_1=SPECIAL
    )
    refusal = refuse(protocol, version, kind="authentication")
    fault = back(write_refusal(refusal))
    assert (fault.code, list(fault.subcodes)) == ((SPECIAL, []) if version == "1.1" else ("Client", [GENERAL, SPECIAL]))
    again = pickle.loads(pickle.dumps(refusal))
    assert (again.kind, again.protocol, again.version) == ("authentication", protocol, version)


FAULTS_OF_SECURITY = {
    "1.1": '<faultcode xmlns:c="{wsse}">c:FailedAuthentication</faultcode>'
    "<faultstring>the user or the password is wrong</faultstring>",
    "1.2": "<soapenv:Code><soapenv:Value>soapenv:Sender</soapenv:Value><soapenv:Subcode>"
    '<soapenv:Value xmlns:c="{wsse}">c:FailedAuthentication</soapenv:Value></soapenv:Subcode></soapenv:Code>'
    '<soapenv:Reason><soapenv:Text xml:lang="en">the user or the password is wrong</soapenv:Text></soapenv:Reason>',
}


@pytest.mark.parametrize("version", VERSIONS)
def test_a_fault_of_ws_security_has_its_code_where_each_version_has_it_and_no_detail(version):
    refusal = failed_authentication()
    expected = f"<soapenv:Fault>{FAULTS_OF_SECURITY[version].format(wsse=WSSE)}</soapenv:Fault></soapenv:Body>"
    assert expected in write_refusal(refusal, version).decode()
    assert refusal.kind == "authentication"
    assert refusal.protocol is not None
    assert refusal.protocol.action == "http://www.w3.org/2005/08/addressing/soap/fault"
