"""Messages and headers of WS-ReliableMessaging: as others write them, and as we do."""

from __future__ import annotations

import random
import re
import time
from collections import Counter
from datetime import UTC, datetime

import pytest
from lxml import etree

from demaq.documents import parse_document
from demaq.errors import MessageError
from demaq.soap import SoapRefusal, make_fault_answer, read_addressing, read_envelope, write_envelope
from demaq.soap.addressing.addressing_versions import ADDRESSING_1_0, ADDRESSING_2004, ADDRESSING_HEADERS
from demaq.soap.addressing.endpoint_reference import EndpointReference, make_anonymous
from demaq.soap.qualified_names import ENVELOPES
from demaq.soap.reliability.lifetimes import read_lifetime, write_lifetime
from demaq.soap.reliability.number_ranges import NumberRanges
from demaq.soap.reliability.protocol_messages import (
    CloseSequence,
    CloseSequenceResponse,
    CreateSequence,
    CreateSequenceResponse,
    IncompleteBehavior,
    Offer,
    TerminateSequence,
    TerminateSequenceResponse,
    find_action,
)
from demaq.soap.reliability.protocol_reader import is_last_message_action, read_protocol_message
from demaq.soap.reliability.protocol_writer import write_protocol_message
from demaq.soap.reliability.reliability_versions import RELIABILITY_1_0, RELIABILITY_1_1, RELIABILITY_HEADERS
from demaq.soap.reliability.sequence_headers import (
    RANGES_READ_MAX,
    Acknowledgement,
    AckRequest,
    ReliabilityBlocks,
    SequenceHeader,
    read_reliability,
    write_ack_request,
    write_acknowledgement,
    write_sequence,
)
from tests.support.drawing import example_count

UNDERSTOOD = ADDRESSING_HEADERS | RELIABILITY_HEADERS
BOTH = pytest.mark.parametrize("version", [RELIABILITY_1_0, RELIABILITY_1_1], ids=["1.0", "1.1"])
SOAPS = pytest.mark.parametrize("soap", ["1.1", "1.2"])
S12 = "http://www.w3.org/2003/05/soap-envelope"
S11 = "http://schemas.xmlsoap.org/soap/envelope/"
RM = RELIABILITY_1_1.namespace
RM10 = RELIABILITY_1_0.namespace
WSA = ADDRESSING_1_0.namespace
WSA04 = ADDRESSING_2004.namespace
ID = "urn:uuid:656652b8-9af2-4e94-9d07-2dc21c05ed27"


def opened(data):
    return read_envelope(parse_document(data).tree, UNDERSTOOD)


def read_message(data):
    return read_protocol_message(opened(data))


def read_blocks(data):
    envelope = opened(data)
    return read_reliability(envelope.headers, envelope.version)


def end(address, version=ADDRESSING_1_0, *parameters):
    return EndpointReference(version=version, address=address, parameters=parameters)


# what others write

WCF_CREATE = f"""<s:Envelope xmlns:s="{S12}" xmlns:a="{WSA}"><s:Header>
<a:Action s:mustUnderstand="1">{RM}/CreateSequence</a:Action><a:MessageID>urn:uuid:949cca61</a:MessageID>
<a:ReplyTo><a:Address>http://Business456.com/clientA</a:Address></a:ReplyTo>
<a:To s:mustUnderstand="1">http://BusinessABC.com/serviceA</a:To></s:Header>
<s:Body><CreateSequence xmlns="{RM}"><AcksTo><a:Address>http://Business456.com/clientA</a:Address></AcksTo>
<Offer><Identifier>urn:uuid:066b4730</Identifier><Endpoint><a:Address>http://Business456.com/clientA</a:Address></Endpoint>
<IncompleteSequenceBehavior>DiscardFollowingFirstGap</IncompleteSequenceBehavior></Offer></CreateSequence></s:Body></s:Envelope>"""

CXF_CREATE_1_0 = f"""<soap:Envelope xmlns:soap="{S11}"><soap:Header>
<Action xmlns="{WSA04}">{RM10}/CreateSequence</Action><MessageID xmlns="{WSA04}">urn:uuid:1</MessageID></soap:Header>
<soap:Body><ns2:CreateSequence xmlns="{WSA04}" xmlns:ns2="{RM10}" xmlns:ns3="urn:unused">
<ns2:AcksTo><Address>{WSA04}/role/anonymous</Address></ns2:AcksTo><ns2:Expires>P0Y0M0DT1H30M0.000S</ns2:Expires>
<ns2:Offer><ns2:Identifier>urn:uuid:2</ns2:Identifier><ns2:Expires>PT0S</ns2:Expires></ns2:Offer>
</ns2:CreateSequence></soap:Body></soap:Envelope>"""

GSOAP_NAMESPACES = f"""xmlns:SOAP-ENV="{S11}" xmlns:SOAP-ENC="http://schemas.xmlsoap.org/soap/encoding/"
 xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xmlns:xsd="http://www.w3.org/2001/XMLSchema"
 xmlns:chan="http://schemas.microsoft.com/ws/2005/02/duplex" xmlns:wsa5="{WSA}"
 xmlns:netrm="http://schemas.microsoft.com/ws/2006/05/rm" xmlns:ns="urn:rm\""""

GSOAP_CREATE_1_0 = f"""<?xml version="1.0" encoding="UTF-8"?>
<SOAP-ENV:Envelope {GSOAP_NAMESPACES} xmlns:wsrm="{RM10}">
	<SOAP-ENV:Header>
		<wsa5:MessageID>urn:uuid:6251709e-59cf-4987-a43c-986966334873</wsa5:MessageID>
		<wsa5:ReplyTo SOAP-ENV:mustUnderstand="1">
			<wsa5:Address>{WSA}/anonymous</wsa5:Address>
		</wsa5:ReplyTo>
		<wsa5:To SOAP-ENV:mustUnderstand="1">http://127.0.0.1:18767/</wsa5:To>
		<wsa5:Action SOAP-ENV:mustUnderstand="1">{RM10}/CreateSequence</wsa5:Action>
	</SOAP-ENV:Header>
	<SOAP-ENV:Body>
		<wsrm:CreateSequence>
			<wsrm:AcksTo>
				<wsa5:Address>{WSA}/anonymous</wsa5:Address>
			</wsrm:AcksTo>
			<wsrm:Expires>PT00H10M00S</wsrm:Expires>
			<wsrm:Offer>
				<wsrm:Identifier>urn:uuid:62517064-1787-4e12-ab8b-45673200000000</wsrm:Identifier>
				<wsrm:Endpoint>
					<wsa5:Address/>
				</wsrm:Endpoint>
				<wsrm:IncompleteSequenceBehavior>DiscardEntireSequence</wsrm:IncompleteSequenceBehavior>
			</wsrm:Offer>
		</wsrm:CreateSequence>
	</SOAP-ENV:Body>
</SOAP-ENV:Envelope>
"""
"""It has an Endpoint and a behavior that 1.0 does not know."""

GSOAP_LAST_MESSAGE_1_0 = f"""<?xml version="1.0" encoding="UTF-8"?>
<SOAP-ENV:Envelope {GSOAP_NAMESPACES} xmlns:wsrm="{RM10}">
	<SOAP-ENV:Header>
		<wsa5:MessageID>urn:uuid:68491255-7c55-4c8c-a38e-1f2946e87ccd</wsa5:MessageID>
		<wsa5:To SOAP-ENV:mustUnderstand="1">http://127.0.0.1:18768/</wsa5:To>
		<wsa5:Action SOAP-ENV:mustUnderstand="1">{RM10}/LastMessage</wsa5:Action>
		<wsrm:Sequence>
			<wsrm:Identifier>{ID}</wsrm:Identifier>
			<wsrm:MessageNumber>3</wsrm:MessageNumber>
			<wsrm:LastMessage></wsrm:LastMessage>
		</wsrm:Sequence>
		<wsrm:AckRequested>
			<wsrm:Identifier>{ID}</wsrm:Identifier>
		</wsrm:AckRequested>
	</SOAP-ENV:Header>
	<SOAP-ENV:Body></SOAP-ENV:Body>
</SOAP-ENV:Envelope>
"""

WCF_CREATED = f"""<s:Envelope xmlns:s="{S12}" xmlns:a="{WSA}"><s:Body><CreateSequenceResponse xmlns="{RM}">
<Identifier>{ID}</Identifier><IncompleteSequenceBehavior>NoDiscard</IncompleteSequenceBehavior>
<Accept><AcksTo><a:Address>http://BusinessABC.com/serviceA</a:Address></AcksTo></Accept>
</CreateSequenceResponse></s:Body></s:Envelope>"""

CXF_CREATED_1_0 = f"""<soap:Envelope xmlns:soap="{S11}"><soap:Body><CreateSequenceResponse xmlns="{RM10}" xmlns:ns2="{WSA04}">
<Identifier> {ID} </Identifier><Expires>PT0S</Expires><Accept><AcksTo><ns2:Address>http://b.invalid/</ns2:Address>
</AcksTo></Accept><x:Extension xmlns:x="urn:x"/></CreateSequenceResponse></soap:Body></soap:Envelope>"""


def body(inside, soap="1.1"):
    return f'<e:Envelope xmlns:e="{ENVELOPES[soap]}"><e:Body>{inside}</e:Body></e:Envelope>'


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (
            WCF_CREATE,
            CreateSequence(
                version=RELIABILITY_1_1,
                acks_to=end("http://Business456.com/clientA"),
                offer=Offer(
                    identifier="urn:uuid:066b4730",
                    endpoint=end("http://Business456.com/clientA"),
                    behavior=IncompleteBehavior.DISCARD_FOLLOWING_FIRST_GAP,
                ),
            ),
        ),
        (
            CXF_CREATE_1_0,
            CreateSequence(
                version=RELIABILITY_1_0,
                acks_to=make_anonymous(ADDRESSING_2004),
                expires_seconds=5400.0,
                offer=Offer(identifier="urn:uuid:2"),
            ),
        ),
        (
            GSOAP_CREATE_1_0,
            CreateSequence(
                version=RELIABILITY_1_0,
                acks_to=make_anonymous(ADDRESSING_1_0),
                expires_seconds=600.0,
                offer=Offer(identifier="urn:uuid:62517064-1787-4e12-ab8b-45673200000000"),
            ),
        ),
        (
            WCF_CREATED,
            CreateSequenceResponse(
                version=RELIABILITY_1_1, identifier=ID, accepted_acks_to=end("http://BusinessABC.com/serviceA")
            ),
        ),
        (
            CXF_CREATED_1_0,
            CreateSequenceResponse(
                version=RELIABILITY_1_0, identifier=ID, accepted_acks_to=end("http://b.invalid/", ADDRESSING_2004)
            ),
        ),
        (
            body(
                f'<r:CloseSequence xmlns:r="{RM}"><r:Identifier>{ID}</r:Identifier><r:LastMsgNumber>30</r:LastMsgNumber></r:CloseSequence>'
            ),
            CloseSequence(version=RELIABILITY_1_1, identifier=ID, last_number=30),
        ),
        (
            body(f'<r:CloseSequence xmlns:r="{RM}"><r:Identifier>{ID}</r:Identifier></r:CloseSequence>'),
            CloseSequence(version=RELIABILITY_1_1, identifier=ID),
        ),
        (
            body(
                f'<CloseSequenceResponse xmlns="{RM}"><Identifier a:x="1" xmlns:a="urn:a">{ID}</Identifier></CloseSequenceResponse>'
            ),
            CloseSequenceResponse(version=RELIABILITY_1_1, identifier=ID),
        ),
        (
            body(
                f'<TerminateSequence xmlns="{RM}"><Identifier>{ID}</Identifier><LastMsgNumber>30</LastMsgNumber></TerminateSequence>'
            ),
            TerminateSequence(version=RELIABILITY_1_1, identifier=ID, last_number=30),
        ),
        (
            body(
                f'<wsrm:TerminateSequence xmlns:wsrm="{RM10}"><wsrm:Identifier>{ID}</wsrm:Identifier></wsrm:TerminateSequence>'
            ),
            TerminateSequence(version=RELIABILITY_1_0, identifier=ID),
        ),
        (
            body(
                f'<TerminateSequenceResponse xmlns="{RM}"><Identifier>{ID}</Identifier></TerminateSequenceResponse>',
                "1.2",
            ),
            TerminateSequenceResponse(version=RELIABILITY_1_1, identifier=ID),
        ),
    ],
)
def test_protocol_messages_of_others_are_read(data, expected):
    assert read_message(data) == expected


WCF_MESSAGE = f"""<s:Envelope xmlns:s="{S12}" xmlns:r="{RM}" xmlns:netrm="http://schemas.microsoft.com/ws/2006/05/rm"><s:Header>
<r:AckRequested><r:Identifier>{ID}</r:Identifier></r:AckRequested>
<r:Sequence s:mustUnderstand="1"><r:Identifier>{ID}</r:Identifier><r:MessageNumber>10</r:MessageNumber></r:Sequence>
<r:SequenceAcknowledgement><r:Identifier>urn:other</r:Identifier><r:AcknowledgementRange Lower="1" Upper="30"></r:AcknowledgementRange>
<r:Final></r:Final><netrm:BufferRemaining>8</netrm:BufferRemaining></r:SequenceAcknowledgement></s:Header><s:Body/></s:Envelope>"""

WCF_LAST_MESSAGE_1_0 = f"""<s:Envelope xmlns:s="{S12}" xmlns:a="{WSA}" xmlns:r="{RM10}"><s:Header>
<a:Action s:mustUnderstand="1">{RM10}/LastMessage</a:Action><r:Sequence s:mustUnderstand="1"><r:Identifier>
    {ID}
  </r:Identifier><r:MessageNumber>
    10
  </r:MessageNumber><r:LastMessage/></r:Sequence>
<r:AckRequested><r:Identifier>{ID}</r:Identifier><r:MaxMessageNumberUsed>10</r:MaxMessageNumberUsed></r:AckRequested>
</s:Header><s:Body></s:Body></s:Envelope>"""

GSOAP_ACKNOWLEDGEMENT = f"""<SOAP-ENV:Envelope xmlns:SOAP-ENV="{S11}" xmlns:wsrm="{RM}"><SOAP-ENV:Header>
<wsrm:SequenceAcknowledgement><wsrm:Identifier>{ID}</wsrm:Identifier><wsrm:AcknowledgementRange Upper="4" Lower="4"/>
<wsrm:AcknowledgementRange Upper="2" Lower="1"/></wsrm:SequenceAcknowledgement>
<wsrm:SequenceAcknowledgement><wsrm:Identifier>urn:b</wsrm:Identifier><wsrm:Nack>3</wsrm:Nack><wsrm:Nack>5</wsrm:Nack></wsrm:SequenceAcknowledgement>
<wsrm:SequenceAcknowledgement><wsrm:Identifier>urn:c</wsrm:Identifier><wsrm:None/></wsrm:SequenceAcknowledgement>
<wsrm:SequenceAcknowledgement><wsrm:Identifier>urn:d</wsrm:Identifier><wsrm:Final></wsrm:Final>
<wsrm:AcknowledgementRange Upper="3" Lower="1"></wsrm:AcknowledgementRange></wsrm:SequenceAcknowledgement>
</SOAP-ENV:Header><SOAP-ENV:Body/></SOAP-ENV:Envelope>"""


def test_headers_of_a_message_of_wcf_are_read():
    assert read_blocks(WCF_MESSAGE) == ReliabilityBlocks(
        sequence=SequenceHeader(version=RELIABILITY_1_1, identifier=ID, message_number=10),
        ack_requests=(AckRequest(version=RELIABILITY_1_1, identifier=ID),),
        acknowledgements=(
            Acknowledgement(
                version=RELIABILITY_1_1, identifier="urn:other", ranges=NumberRanges.up_to(30), is_final=True
            ),
        ),
    )


@pytest.mark.parametrize(
    ("data", "number"), [(WCF_LAST_MESSAGE_1_0, 10), (GSOAP_LAST_MESSAGE_1_0, 3)], ids=["WCF", "gSOAP"]
)
def test_the_last_message_in_1_0_is_read(data, number):
    assert read_blocks(data) == ReliabilityBlocks(
        sequence=SequenceHeader(version=RELIABILITY_1_0, identifier=ID, message_number=number, is_last=True),
        ack_requests=(AckRequest(version=RELIABILITY_1_0, identifier=ID),),
    )
    addressing = read_addressing(opened(data).headers, opened(data).version)
    assert addressing is not None
    assert is_last_message_action(addressing.action)
    assert not is_last_message_action("urn:other")


def test_acknowledgements_of_gsoap_are_read():
    assert read_blocks(GSOAP_ACKNOWLEDGEMENT).acknowledgements == (
        Acknowledgement(version=RELIABILITY_1_1, identifier=ID, ranges=NumberRanges.of([(1, 2), (4, 4)])),
        Acknowledgement(version=RELIABILITY_1_1, identifier="urn:b", missing=(3, 5)),
        Acknowledgement(version=RELIABILITY_1_1, identifier="urn:c"),
        Acknowledgement(version=RELIABILITY_1_1, identifier="urn:d", ranges=NumberRanges.up_to(3), is_final=True),
    )


def test_a_message_of_an_application_is_no_protocol_message():
    assert read_message(body("<order/>")) is None
    assert read_message(body("")) is None
    assert read_blocks(body("<order/>")) == ReliabilityBlocks()


# what we write


def every_message(version):
    acks_to = end("http://a.invalid/?x&y", version.addressing, '<k xmlns="urn:k">7</k>')
    yield CreateSequence(version=version, acks_to=make_anonymous(version.addressing))
    yield CreateSequence(
        version=version,
        acks_to=acks_to,
        expires_seconds=90.5,
        offer=Offer(
            identifier="urn:o",
            endpoint=acks_to if version.has_close else None,
            expires_seconds=3.0,
            behavior=IncompleteBehavior.DISCARD_ENTIRE_SEQUENCE if version.has_close else IncompleteBehavior.NO_DISCARD,
        ),
    )
    yield CreateSequenceResponse(version=version, identifier="urn:<i>&")
    yield CreateSequenceResponse(version=version, identifier=ID, expires_seconds=1.0, accepted_acks_to=acks_to)
    yield TerminateSequence(version=version, identifier=ID)
    if version.has_close:
        yield TerminateSequence(version=version, identifier=ID, last_number=5)
        yield TerminateSequenceResponse(version=version, identifier=ID)
        yield CloseSequence(version=version, identifier=ID, last_number=2**63 - 1)
        yield CloseSequenceResponse(version=version, identifier=ID)


@BOTH
@SOAPS
def test_protocol_messages_are_read_as_they_were_written(version, soap):
    written = list(every_message(version))
    assert [read_message(write_envelope(soap, write_protocol_message(one))) for one in written] == written


@BOTH
@SOAPS
def test_headers_are_read_as_they_were_written(version, soap):
    sequence = SequenceHeader(version=version, identifier=ID, message_number=7, is_last=not version.has_close)
    requests = (AckRequest(version=version, identifier=ID), AckRequest(version=version, identifier="urn:b"))
    acknowledgements = (
        Acknowledgement(version=version, identifier=ID, ranges=NumberRanges.parse("1-3,5"), is_final=version.has_close),
        Acknowledgement(version=version, identifier=ID, missing=(4, 6)),
    )
    blocks = [
        write_sequence(sequence, ENVELOPES[soap]),
        *map(write_ack_request, requests),
        *map(write_acknowledgement, acknowledgements),
    ]
    envelope = opened(write_envelope(soap, "<a/>", blocks))
    assert read_reliability(envelope.headers, soap) == ReliabilityBlocks(
        sequence=sequence, ack_requests=requests, acknowledgements=acknowledgements
    )
    assert envelope.headers[0].must_understand


def test_an_acknowledgement_of_nothing_is_valid_in_each_version():
    nothing = Acknowledgement(version=RELIABILITY_1_1, identifier=ID, is_final=True)
    names = [etree.QName(child).localname for child in etree.fromstring(write_acknowledgement(nothing))]
    assert names == ["Identifier", "None", "Final"]
    old = Acknowledgement(version=RELIABILITY_1_0, identifier=ID, is_final=True)
    names = [etree.QName(child).localname for child in etree.fromstring(write_acknowledgement(old))]
    assert names == ["Identifier", "Nack"]


@BOTH
def test_actions_are_named_like_the_elements(version):
    assert find_action(TerminateSequence(version=version, identifier=ID)) == f"{version.namespace}/TerminateSequence"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("PT10M", 600.0), ("P1DT2H", 93600.0), ("PT0.5S", 0.5), ("PT0S", None), ("P0D", None), ("P1Y2M", 36720000.0)],
)
def test_lifetimes_are_durations(text, seconds):
    assert read_lifetime(text) == seconds
    assert read_lifetime(write_lifetime(seconds)) == seconds


@pytest.mark.parametrize("text", ["P9000Y", "P999999999Y", "PT999999999H"])
def test_the_end_of_a_very_long_life_is_a_time(text):
    seconds = read_lifetime(text)
    assert seconds is not None
    assert datetime.fromtimestamp(time.time() + seconds, UTC).year < 3000


# hostile input


@pytest.mark.parametrize(
    "inside",
    [
        f'<CreateSequence xmlns="{RM}"/>',
        f'<CreateSequence xmlns="{RM}"><AcksTo/></CreateSequence>',
        f'<CreateSequence xmlns="{RM}"><AcksTo><Address xmlns="urn:other">http://x.invalid/</Address></AcksTo></CreateSequence>',
        f'<CreateSequence xmlns="{RM}">{f"<AcksTo><Address xmlns={WSA!r}>http://x.invalid/</Address></AcksTo>" * 2}</CreateSequence>',
        f'<CreateSequence xmlns="{RM}"><AcksTo><Address xmlns="{WSA}">http://x.invalid/</Address></AcksTo><Expires>-PT1S</Expires></CreateSequence>',
        f'<CreateSequence xmlns="{RM}"><AcksTo><Address xmlns="{WSA}">http://x.invalid/</Address></AcksTo><Expires>tomorrow</Expires></CreateSequence>',
        f'<CreateSequence xmlns="{RM}"><AcksTo><Address xmlns="{WSA}">http://x.invalid/</Address></AcksTo><Expires>P{"9" * 5000}D</Expires></CreateSequence>',
        f'<CreateSequence xmlns="{RM}"><AcksTo><Address xmlns="{WSA}">http://x.invalid/</Address></AcksTo><Offer/></CreateSequence>',
        f'<CreateSequenceResponse xmlns="{RM}"><Identifier>x</Identifier><Accept/></CreateSequenceResponse>',
        f'<CreateSequenceResponse xmlns="{RM}"><Identifier>x</Identifier><IncompleteSequenceBehavior>Shrug</IncompleteSequenceBehavior></CreateSequenceResponse>',
        f'<CreateSequenceResponse xmlns="{RM}"><Identifier/></CreateSequenceResponse>',
        f'<CloseSequence xmlns="{RM}"><Identifier>{"x" * 1001}</Identifier></CloseSequence>',
        f'<CloseSequence xmlns="{RM}"><Identifier>a b</Identifier></CloseSequence>',
        f'<CloseSequence xmlns="{RM}"><Identifier>a</Identifier><Identifier>a</Identifier></CloseSequence>',
        f'<CloseSequence xmlns="{RM}"><Identifier xmlns="urn:other">a</Identifier></CloseSequence>',
        f'<CloseSequence xmlns="{RM}"><Identifier>a</Identifier><LastMsgNumber>0</LastMsgNumber></CloseSequence>',
        f'<CloseSequence xmlns="{RM}"><Identifier>a</Identifier><LastMsgNumber>-3</LastMsgNumber></CloseSequence>',
        f'<CloseSequence xmlns="{RM}"><Identifier>a</Identifier><LastMsgNumber>{2**64}</LastMsgNumber></CloseSequence>',
        f'<CloseSequence xmlns="{RM}"><Identifier>a</Identifier><LastMsgNumber>{"9" * 5000}</LastMsgNumber></CloseSequence>',
        f'<CloseSequence xmlns="{RM10}"><Identifier>a</Identifier></CloseSequence>',
        f'<Surprise xmlns="{RM}"/>',
        f'<Sequence xmlns="{RM}"><Identifier>a</Identifier></Sequence>',
    ],
)
def test_an_invalid_protocol_message_is_refused_as_the_fault_of_its_sender(inside):
    with pytest.raises(SoapRefusal) as caught:
        read_message(body(inside))
    assert caught.value.fault == "Client"
    parse_document(make_fault_answer("1.1", caught.value).data)


@pytest.mark.parametrize(
    "block",
    [
        "<r:Sequence><r:MessageNumber>1</r:MessageNumber></r:Sequence>",
        "<r:Sequence><r:Identifier>a</r:Identifier></r:Sequence>",
        *[
            f"<r:Sequence><r:Identifier>a</r:Identifier><r:MessageNumber>{number}</r:MessageNumber></r:Sequence>"
            for number in ("0", "-1", "1.5", "", "one", "\u0661", "1_0", str(2**64), "9" * 100_000)
        ],
        "<r:Sequence><r:Identifier>a</r:Identifier><r:MessageNumber>1</r:MessageNumber></r:Sequence>" * 2,
        "<r:AckRequested/>",
        "<r:SequenceAcknowledgement><r:AcknowledgementRange Lower='1' Upper='2'/></r:SequenceAcknowledgement>",
        *[
            f"<r:SequenceAcknowledgement><r:Identifier>a</r:Identifier>{inside}</r:SequenceAcknowledgement>"
            for inside in (
                '<r:AcknowledgementRange Lower="5" Upper="2"/>',
                '<r:AcknowledgementRange Lower="-5" Upper="2"/>',
                '<r:AcknowledgementRange Lower="5"/>',
                '<r:AcknowledgementRange Lower="1" Upper="99999999999999999999999"/>',
                '<r:AcknowledgementRange Lower="1" Upper="2"/><r:Nack>3</r:Nack>',
                "<r:None/><r:Nack>3</r:Nack>",
                "<r:Nack>0</r:Nack>",
                "<r:Nack/>",
                "<r:None/><r:None/>",
                '<r:AcknowledgementRange Lower="1" Upper="2"/>' * (RANGES_READ_MAX + 1),
            )
        ],
    ],
)
def test_an_invalid_header_is_refused_as_the_fault_of_its_sender(block):
    data = f'<e:Envelope xmlns:e="{S11}"><e:Header xmlns:r="{RM}">{block}</e:Header><e:Body/></e:Envelope>'
    with pytest.raises(SoapRefusal) as caught:
        read_blocks(data)
    assert caught.value.fault == "Client"
    parse_document(make_fault_answer("1.1", caught.value).data)


def test_overlapping_and_huge_ranges_are_merged():
    block = (
        f'<r:SequenceAcknowledgement xmlns:r="{RM}"><r:Identifier>a</r:Identifier><r:AcknowledgementRange Lower="1" Upper="{2**64 - 1}"/>'
        '<r:AcknowledgementRange Lower="5" Upper="7"/><r:AcknowledgementRange Lower="0" Upper="2"/></r:SequenceAcknowledgement>'
    )
    [found] = read_blocks(write_envelope("1.1", None, [block])).acknowledgements
    assert found.ranges.ranges == ((1, 2**64 - 1),)


def test_blocks_of_other_namespaces_and_roles_are_ignored():
    inside = "<Identifier>a</Identifier><MessageNumber>1</MessageNumber>"
    data = (
        f'<e:Envelope xmlns:e="{S11}"><e:Header><Sequence xmlns="urn:other">{inside}</Sequence>'
        f'<Sequence xmlns="{RM}" e:actor="urn:audit">{inside}</Sequence><Sequence>{inside}</Sequence>'
        f'<Unknown xmlns="{RM}"/></e:Header><e:Body/></e:Envelope>'
    )
    assert read_blocks(data) == ReliabilityBlocks()


@BOTH
@pytest.mark.parametrize("name", ["UsesSequenceSTR", "UsesSequenceSSL"])
def test_sequences_that_are_bound_to_a_security_context_are_refused(version, name):
    message = CreateSequence(version=version, acks_to=make_anonymous(version.addressing))
    data = write_envelope("1.2", write_protocol_message(message), [f'<r:{name} xmlns:r="{version.namespace}"/>'])
    with pytest.raises(SoapRefusal, match=name) as caught:
        read_message(data)
    assert caught.value.fault == "MustUnderstand"
    assert caught.value.not_understood == (version.tag(name),)


SAMPLES = [
    *(WCF_CREATE, CXF_CREATE_1_0, GSOAP_CREATE_1_0, WCF_CREATED, CXF_CREATED_1_0),
    *(WCF_MESSAGE, WCF_LAST_MESSAGE_1_0, GSOAP_LAST_MESSAGE_1_0, GSOAP_ACKNOWLEDGEMENT),
]
DAMAGES = [
    *("", "0", "-1", str(2**63), str(2**64), "9" * 400, "NaN", "PT-1S", "&#x661;", "urn:other", RM, RM10, WSA, WSA04),
    *(
        "Identifier",
        "MessageNumber",
        "Sequence",
        "AcksTo",
        "Address",
        "Nack",
        "None",
        "Final",
        "Offer",
        "Lower",
        "<x/>",
    ),
]
PIECE = re.compile(r"[A-Za-z0-9:/.\-]+")


def test_a_damaged_envelope_is_read_or_refused_and_nothing_else(chance: random.Random):
    seen: Counter[str] = Counter()
    for _ in range(max(400, example_count(400, "DEMAQ_DAMAGED_ENVELOPES"))):
        data = chance.choice(SAMPLES)
        for _ in range(chance.randint(1, 3)):
            piece = chance.choice(list(PIECE.finditer(data)))
            data = data[: piece.start()] + chance.choice(DAMAGES) + data[piece.end() :]
        try:
            document = parse_document(data)
        except MessageError:
            seen["not well-formed"] += 1
            continue
        try:
            envelope = read_envelope(document.tree, UNDERSTOOD)
            read_addressing(envelope.headers, envelope.version)
            read_reliability(envelope.headers, envelope.version)
            read_protocol_message(envelope)
            seen["read"] += 1
        except SoapRefusal as refusal:
            parse_document(make_fault_answer("1.1", refusal).data)
            seen["refused"] += 1
    assert min(seen["read"], seen["refused"]) > 2, seen
