"""Faults of WS-ReliableMessaging in both versions of SOAP, ours and those of others."""

from __future__ import annotations

import pytest
from lxml import etree

from demaq.documents import parse_document
from demaq.soap import make_fault_answer, read_envelope, read_fault
from demaq.soap.faults import write_protocol_fault
from demaq.soap.refusals import refuse
from demaq.soap.reliability.number_ranges import NumberRanges
from demaq.soap.reliability.reliability_faults import (
    FaultName,
    ReliabilityFault,
    make_protocol_fault,
    read_reliability_fault,
)
from demaq.soap.reliability.reliability_versions import RELIABILITY_1_0, RELIABILITY_1_1, RELIABILITY_HEADERS

S11 = "http://schemas.xmlsoap.org/soap/envelope/"
S12 = "http://www.w3.org/2003/05/soap-envelope"
RM = RELIABILITY_1_1.namespace
RM10 = RELIABILITY_1_0.namespace
IN_BODY = (FaultName.CREATE_SEQUENCE_REFUSED, FaultName.WSRM_REQUIRED)


def read(data):
    tree = parse_document(data).tree
    fault = read_fault(tree)
    assert fault is not None
    return read_reliability_fault(fault, read_envelope(tree, RELIABILITY_HEADERS).headers)


@pytest.mark.parametrize("soap", ["1.1", "1.2"])
@pytest.mark.parametrize("name", list(FaultName))
@pytest.mark.parametrize("version", [RELIABILITY_1_0, RELIABILITY_1_1], ids=["1.0", "1.1"])
def test_a_fault_is_read_as_it_was_written(version, name, soap):
    fault = ReliabilityFault(
        version=version,
        name=name,
        identifier=None if name in IN_BODY else "urn:a&b",
        ranges=NumberRanges.up_to(5),
        is_from_receiver=name == FaultName.CREATE_SEQUENCE_REFUSED,
    )
    found = read(write_protocol_fault(make_protocol_fault(fault), soap))
    assert found is not None
    expected = name if version.has_close or name != FaultName.SEQUENCE_CLOSED else FaultName.SEQUENCE_TERMINATED
    assert (found.version, found.name, found.identifier) == (version, expected, fault.identifier)
    assert found.reason
    if soap == "1.2":
        assert found.is_from_receiver == fault.is_from_receiver


@pytest.mark.parametrize("version", [RELIABILITY_1_0, RELIABILITY_1_1], ids=["1.0", "1.1"])
def test_where_the_subcode_and_the_detail_are_in_soap_1_1(version):
    fault = ReliabilityFault(version=version, name=FaultName.UNKNOWN_SEQUENCE, identifier="urn:a")
    tree = parse_document(write_protocol_fault(make_protocol_fault(fault), "1.1")).tree
    assert tree.findtext(".//faultcode") == "soapenv:Client"
    assert tree.find(".//detail") is None
    [block] = tree.getroot()[0]
    names = [etree.QName(one).localname for one in block.iter()]
    expected = ["SequenceFault", "FaultCode", "Detail", "Identifier"]
    assert names == (expected if version.has_close else [name for name in expected if name != "Detail"])

    refused = ReliabilityFault(version=version, name=FaultName.CREATE_SEQUENCE_REFUSED)
    tree = parse_document(write_protocol_fault(make_protocol_fault(refused), "1.1")).tree
    code = tree.find(".//faultcode")
    assert code is not None
    assert code.text == "c:CreateSequenceRefused"
    assert code.nsmap["c"] == version.namespace
    assert len(tree.getroot()) == 1


def test_details_are_those_of_the_specification():
    rollover = ReliabilityFault(version=RELIABILITY_1_1, name=FaultName.MESSAGE_NUMBER_ROLLOVER, identifier="urn:a")
    detail = make_protocol_fault(rollover).detail
    assert detail is not None
    assert etree.fromstring(f"<d>{detail}</d>").xpath("string()") == f"urn:a{2**63 - 1}"
    invalid = ReliabilityFault(
        version=RELIABILITY_1_1,
        name=FaultName.INVALID_ACKNOWLEDGEMENT,
        identifier="urn:a",
        ranges=NumberRanges.of([(3, 9)]),
    )
    detail = make_protocol_fault(invalid).detail
    assert detail is not None
    element = etree.fromstring(detail)
    assert element.tag == f"{{{RM}}}SequenceAcknowledgement"
    assert (element[1].get("Lower"), element[1].get("Upper")) == ("3", "9")
    assert make_protocol_fault(invalid).action == f"{RM}/fault"


def test_a_fault_answers_a_refused_request():
    fault = ReliabilityFault(version=RELIABILITY_1_1, name=FaultName.WSRM_REQUIRED)
    answer = make_fault_answer("1.1", refuse(make_protocol_fault(fault), "1.2"))
    assert answer.status == 400
    found = read(answer.data)
    assert found is not None
    assert found.name == FaultName.WSRM_REQUIRED


GSOAP = f"""<SOAP-ENV:Envelope xmlns:SOAP-ENV="{S11}" xmlns:wsrm="{RM10}"><SOAP-ENV:Header><wsrm:SequenceFault>
<wsrm:FaultCode>wsrm:UnknownSequence</wsrm:FaultCode><wsrm:Detail>The value of the wsrm:Identifier is not a known Sequence identifier.</wsrm:Detail>
</wsrm:SequenceFault></SOAP-ENV:Header><SOAP-ENV:Body><SOAP-ENV:Fault><faultcode>wsrm:UnknownSequence</faultcode>
<faultstring>The value of the wsrm:Identifier is not a known Sequence identifier.</faultstring></SOAP-ENV:Fault></SOAP-ENV:Body></SOAP-ENV:Envelope>"""

WCF = f"""<s:Envelope xmlns:s="{S12}"><s:Body><s:Fault><s:Code><s:Value>s:Sender</s:Value><s:Subcode>
<s:Value xmlns:a="{RM}">a:SequenceTerminated</s:Value></s:Subcode></s:Code><s:Reason><s:Text xml:lang="en-US">It timed out.</s:Text></s:Reason>
<s:Detail><r:Identifier xmlns:r="{RM}">urn:uuid:1</r:Identifier></s:Detail></s:Fault></s:Body></s:Envelope>"""

CXF = f"""<soap:Envelope xmlns:soap="{S11}"><soap:Header><SequenceFault xmlns="{RM}" xmlns:x="{RM}"><FaultCode>x:SequenceClosed</FaultCode>
<Detail><Identifier>urn:uuid:1</Identifier></Detail></SequenceFault></soap:Header><soap:Body><soap:Fault><faultcode>soap:Client</faultcode>
<faultstring>closed</faultstring></soap:Fault></soap:Body></soap:Envelope>"""


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (GSOAP, (RELIABILITY_1_0, FaultName.UNKNOWN_SEQUENCE, None)),
        (WCF, (RELIABILITY_1_1, FaultName.SEQUENCE_TERMINATED, "urn:uuid:1")),
        (CXF, (RELIABILITY_1_1, FaultName.SEQUENCE_CLOSED, "urn:uuid:1")),
    ],
    ids=["gSOAP", "WCF", "CXF"],
)
def test_faults_of_others_are_read(data, expected):
    found = read(data)
    assert found is not None
    assert (found.version, found.name, found.identifier) == expected


@pytest.mark.parametrize(
    "data",
    [
        GSOAP.replace("UnknownSequence", "Surprise"),
        GSOAP.replace(RM10, "urn:other"),
        WCF.replace("a:SequenceTerminated", "SequenceTerminated"),
        WCF.replace("a:SequenceTerminated", "a:"),
        CXF.replace("<FaultCode>x:SequenceClosed</FaultCode>", ""),
        CXF.replace("x:SequenceClosed", ""),
    ],
)
def test_another_fault_is_none_of_these(data):
    assert read(data) is None


def test_a_huge_detail_is_not_read():
    found = read(WCF.replace("urn:uuid:1", "a" * 200_000))
    assert found is not None
    assert found.identifier is None
