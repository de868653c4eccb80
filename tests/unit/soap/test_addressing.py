"""WS-Addressing: requests may carry it, and answers then say what they belong to and where they go."""

from __future__ import annotations

import json
import pickle
from uuid import UUID

import pytest
from lxml import etree

from demaq.documents import parse_document
from demaq.soap import (
    SoapRefusal,
    make_answer_headers,
    make_fault_answer,
    read_addressing,
    read_envelope,
    read_fault,
    write_envelope,
)
from demaq.soap.addressing.action_checks import check_action, find_answer_action
from demaq.soap.addressing.addressing_faults import (
    DUPLICATE_MESSAGE_ID,
    make_action_not_supported,
    make_destination_unreachable,
    make_endpoint_unavailable,
    make_header_required,
    make_invalid_header,
)
from demaq.soap.addressing.addressing_headers import (
    AddressingHeaders,
    Relationship,
    check_required,
    make_message_id,
    write_addressing,
)
from demaq.soap.addressing.addressing_versions import ADDRESSING, ADDRESSING_1_0, ADDRESSING_2004, ANONYMOUS
from demaq.soap.addressing.answer_routes import (
    Nowhere,
    OnConnection,
    ToEndpoint,
    check_elsewhere_only,
    route_answer,
    route_fault,
)
from demaq.soap.addressing.endpoint_reference import (
    PARAMETERS_CHARACTERS_MAX,
    PARAMETERS_MAX,
    EndpointReference,
)
from demaq.soap.faults import write_protocol_fault
from tests.support.soap import wsdls
from tests.support.soap.wsdls import interface_of

BOTH = pytest.mark.parametrize("version", [ADDRESSING_1_0, ADDRESSING_2004], ids=["1.0", "2004/08"])
ELSEWHERE = "<w:Address>http://x.invalid</w:Address>"


def headers(*blocks, version=ADDRESSING_1_0, soap="1.1"):
    texts = [
        f'<w:{name} xmlns:w="{version.namespace}" xmlns:e="http://schemas.xmlsoap.org/soap/envelope/" e:mustUnderstand="1">'
        f"{text}</w:{name}>"
        for name, text in blocks
    ]
    return read_envelope(parse_document(write_envelope(soap, "<a/>", texts)).tree).headers


def read(*blocks, version=ADDRESSING_1_0):
    found = read_addressing(headers(*blocks, version=version), "1.1")
    assert found is not None
    return found


def read_back(blocks):
    found = read_addressing(read_envelope(parse_document(write_envelope("1.2", "<a/>", blocks)).tree).headers, "1.2")
    assert found is not None
    return found


def problem(refusal):
    """Return the local name of the most specific code in the fault that answers a refused request."""
    fault = read_fault(parse_document(make_fault_answer("1.2", refusal).data).tree)
    assert fault is not None
    return [fault.code, *fault.subcodes][-1].rpartition("}")[2]


@BOTH
def test_a_request_with_addresses_is_understood_and_answered(version):
    request = read(
        ("MessageID", "urn:uuid:1"),
        ("Action", " urn:ask "),
        ("To", "http://here.invalid/"),
        ("ReplyTo", f"<w:Address>{version.anonymous}</w:Address>"),
        version=version,
    )
    assert (request.version, request.message_id, request.action) == (version, "urn:uuid:1", "urn:ask")
    answer = read_back(make_answer_headers(request, message_id="urn:uuid:2"))
    assert answer == AddressingHeaders(
        version=version,
        message_id="urn:uuid:2",
        action="urn:askResponse",
        relationships=(Relationship(message_id="urn:uuid:1", kind=version.reply),),
    )
    assert answer.answers == "urn:uuid:1"


def test_a_request_without_addresses_has_none():
    assert read_addressing(headers(), "1.1") is None


def test_a_block_for_another_role_is_not_ours():
    block = f'<w:Action xmlns:w="{ADDRESSING}" xmlns:e="http://schemas.xmlsoap.org/soap/envelope/" e:actor="urn:audit">urn:x</w:Action>'
    envelope = read_envelope(parse_document(write_envelope("1.1", "<a/>", [block])).tree)
    assert read_addressing(envelope.headers, "1.1") is None


def test_a_block_that_is_given_twice_is_refused():
    with pytest.raises(SoapRefusal, match="given twice") as caught:
        read_addressing(headers(("To", "a"), ("To", "b")), "1.1")
    assert problem(caught.value) == "InvalidCardinality"


def test_a_message_id_is_a_uuid_of_the_source_that_is_given():
    assert make_message_id(lambda: UUID(int=7)) == "urn:uuid:00000000-0000-0000-0000-000000000007"


@BOTH
def test_all_headers_are_read_as_they_were_written(version):
    def end(address, *parameters):
        return EndpointReference(version=version, address=address, parameters=parameters)

    written = AddressingHeaders(
        version=version,
        message_id="urn:uuid:1",
        to="http://a.invalid/?x=1&y=2",
        action="urn:do",
        source=end("mailto:a@b.invalid"),
        reply_to=end("http://b.invalid/", '<p:id xmlns:p="urn:p" a="&lt;">7</p:id>', "<plain/>"),
        fault_to=end("http://c.invalid/"),
        relationships=(
            Relationship(message_id="urn:uuid:0", kind=version.reply),
            Relationship(message_id="urn:uuid:9", kind="urn:follows" if version.marks_parameters else "{urn:k}follows"),
        ),
    )
    assert read_back(write_addressing(written, "http://www.w3.org/2003/05/soap-envelope")) == written
    for endpoint in (written.reply_to, written.fault_to):
        assert endpoint is not None
        assert EndpointReference.from_plain(json.loads(json.dumps(endpoint.to_plain()))) == endpoint


def test_an_endpoint_of_wcf_is_read_with_its_parameters_and_without_its_metadata():
    request = read(
        (
            "ReplyTo",
            '<w:Address>http://b.invalid/</w:Address><w:ReferenceParameters><k:Key xmlns:k="urn:k">1</k:Key></w:ReferenceParameters>'
            '<w:Metadata><x xmlns="urn:m"/></w:Metadata>',
        )
    )
    assert request.reply_to is not None
    assert [etree.fromstring(text).tag for text in request.reply_to.parameters] == ["{urn:k}Key"]


def test_an_answer_elsewhere_echoes_reference_parameters_as_header_blocks():
    request = read(
        ("MessageID", "urn:uuid:1"),
        (
            "ReplyTo",
            "<w:Address>http://b.invalid/</w:Address><w:ReferenceParameters><n>5</n></w:ReferenceParameters>",
        ),
    )
    route = route_answer(request)
    assert isinstance(route, ToEndpoint)
    blocks = make_answer_headers(request, message_id="urn:uuid:2", to=route.endpoint)
    assert read_back(blocks).to == "http://b.invalid/"
    [echoed] = [block for block in map(etree.fromstring, blocks) if block.tag == "n"]
    assert (echoed.text, echoed.items()) == ("5", [(f"{{{ADDRESSING}}}IsReferenceParameter", "true")])


def test_reference_properties_of_2004_are_echoed_without_a_mark():
    request = read(
        ("MessageID", "urn:uuid:1"),
        (
            "ReplyTo",
            "<w:Address>http://b.invalid/</w:Address><w:ReferenceProperties><n>5</n></w:ReferenceProperties>",
        ),
        version=ADDRESSING_2004,
    )
    blocks = make_answer_headers(request, message_id="urn:uuid:2", to=request.reply_to)
    assert [block.items() for block in map(etree.fromstring, blocks) if block.tag == "n"] == [[]]


@pytest.mark.parametrize(
    ("blocks", "answer", "fault"),
    [
        ((), OnConnection, OnConnection),
        ((("ReplyTo", ELSEWHERE),), ToEndpoint, ToEndpoint),
        ((("FaultTo", ELSEWHERE),), OnConnection, ToEndpoint),
        ((("ReplyTo", ELSEWHERE), ("FaultTo", f"<w:Address>{ANONYMOUS}</w:Address>")), ToEndpoint, OnConnection),
        ((("ReplyTo", f"<w:Address>{ADDRESSING}/none</w:Address>"),), Nowhere, Nowhere),
    ],
)
def test_where_an_answer_goes_and_where_a_fault(blocks, answer, fault):
    request = read(("Action", "urn:a"), *blocks)
    assert (type(route_answer(request)), type(route_fault(request))) == (answer, fault)


def test_without_addresses_answers_go_to_the_connection():
    assert (route_answer(None), route_fault(None)) == (OnConnection(), OnConnection())


def test_the_connection_is_refused_where_only_addresses_are_answered():
    with pytest.raises(SoapRefusal) as caught:
        check_elsewhere_only(read(("Action", "urn:a")), "1.1")
    assert problem(caught.value) == "OnlyNonAnonymousAddressSupported"
    check_elsewhere_only(read(("ReplyTo", ELSEWHERE)), "1.1")


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("", "MissingAddressInEPR"),
        ("http://x.invalid", "MissingAddressInEPR"),
        ('<Address xmlns="urn:other">http://x.invalid</Address>', "MissingAddressInEPR"),
        ("<w:Address/>", "InvalidAddress"),
        ("<w:Address>here</w:Address>", "InvalidAddress"),
        ("<w:Address>http://a b</w:Address>", "InvalidAddress"),
        (f"<w:Address>http://{'a' * 5000}</w:Address>", "InvalidAddress"),
        (ELSEWHERE * 2, "InvalidEPR"),
        (
            f"{ELSEWHERE}<w:ReferenceParameters {' '.join(f'xmlns:n{n}={chr(34)}urn:{n}{chr(34)}' for n in range(230))}><p/></w:ReferenceParameters>",
            "InvalidEPR",
        ),
        (ELSEWHERE + "<x/>" * 200, "InvalidEPR"),
        (
            f"{ELSEWHERE}<w:ReferenceParameters>{'<p/>' * (PARAMETERS_MAX + 1)}</w:ReferenceParameters>",
            "InvalidEPR",
        ),
        (
            f"{ELSEWHERE}<w:ReferenceParameters><p>{'a' * PARAMETERS_CHARACTERS_MAX}</p></w:ReferenceParameters>",
            "InvalidEPR",
        ),
    ],
)
@pytest.mark.parametrize("name", ["ReplyTo", "FaultTo", "From"])
def test_an_invalid_endpoint_is_refused(name, content, expected):
    with pytest.raises(SoapRefusal) as caught:
        read((name, content))
    assert problem(caught.value) == expected


def test_a_text_that_is_too_long_is_refused():
    with pytest.raises(SoapRefusal) as caught:
        read(("MessageID", "a" * 2001))
    assert problem(caught.value) == "InvalidAddressingHeader"


@BOTH
def test_headers_that_are_required_are_missed(version):
    with pytest.raises(SoapRefusal, match="Action") as caught:
        check_required(AddressingHeaders(version=version), "1.1", expects_answer=False)
    assert problem(caught.value).endswith("HeaderRequired")
    request = AddressingHeaders(version=version, action="urn:a")
    check_required(request, "1.1", expects_answer=False)
    with pytest.raises(SoapRefusal, match="MessageID"):
        check_required(request, "1.1", expects_answer=True)


FAULTS = [
    (lambda v: make_invalid_header(v, "MessageID", DUPLICATE_MESSAGE_ID, "again"), "DuplicateMessageID", "Client"),
    (lambda v: make_header_required(v, "To"), "MessageAddressingHeaderRequired", "Client"),
    (lambda v: make_destination_unreachable(v, "urn:<x>"), "DestinationUnreachable", "Client"),
    (lambda v: make_action_not_supported(v, "urn:a", "urn:b"), "ActionNotSupported", "Client"),
    (lambda v: make_endpoint_unavailable(v, "urn:x", 5000), "EndpointUnavailable", "Server"),
]


@pytest.mark.parametrize(("make", "name", "code"), FAULTS, ids=[name for _, name, _ in FAULTS])
def test_a_fault_has_its_subcode_and_detail_in_both_versions_of_soap(make, name, code):
    fault = make(ADDRESSING_1_0)
    in_1_2 = read_fault(parse_document(write_protocol_fault(fault, "1.2")).tree)
    assert in_1_2 is not None
    assert (in_1_2.code, in_1_2.subcodes[-1]) == (code, f"Q{{{ADDRESSING}}}{name}")
    assert in_1_2.detail is not None

    tree = parse_document(write_protocol_fault(fault, "1.1")).tree
    in_1_1 = read_fault(tree)
    assert in_1_1 is not None
    assert (in_1_1.code, in_1_1.detail) == (f"Q{{{ADDRESSING}}}{name}", None)
    [detail] = [block for block in read_envelope(tree).headers if block.name == ADDRESSING_1_0.tag("FaultDetail")]
    expected = etree.fromstring(f"<d>{in_1_2.detail}</d>").xpath("string()")
    assert etree.fromstring(detail.text).xpath("string()") == expected


@pytest.mark.parametrize(("make", "name", "code"), FAULTS, ids=[name for _, name, _ in FAULTS])
def test_a_fault_of_2004_has_one_subcode(make, name, code):
    fault = read_fault(parse_document(write_protocol_fault(make(ADDRESSING_2004), "1.2")).tree)
    expected = {
        "DuplicateMessageID": "InvalidMessageInformationHeader",
        "MessageAddressingHeaderRequired": "MessageInformationHeaderRequired",
    }.get(name, name)
    assert fault is not None
    assert fault.subcodes == (f"Q{{{ADDRESSING_2004.namespace}}}{expected}",)


def test_a_refusal_with_its_fault_can_be_pickled():
    with pytest.raises(SoapRefusal) as caught:
        read(("To", "a"), ("To", "b"))
    again = pickle.loads(pickle.dumps(caught.value))
    assert (again.protocol, again.version, str(again)) == (caught.value.protocol, "1.1", str(caught.value))


# actions


def test_actions_without_declaration_are_those_of_the_binding_and_of_the_default_pattern(tmp_path):
    order, remark, ping = interface_of(tmp_path, wsdls.document_wsdl()).operations
    assert order.actions.input == "urn:shop/placeOrder"
    assert order.actions.accepts("urn:shop:Orders:placeOrderRequest")
    assert order.actions.output == "urn:shop:Orders:placeOrderResponse"
    assert order.actions.faults == {"SoldOut": "urn:shop:Orders:placeOrder:Fault:SoldOut"}
    assert (remark.actions.accepts("urn:shop:Orders:remark"), remark.actions.output) == (True, None)
    assert ping.actions.output == "urn:shop:Orders:pingResponse"


def test_the_default_pattern_of_a_namespace_with_slashes(tmp_path):
    wsdl = (
        wsdls.document_wsdl()
        .replace('xmlns:t="urn:shop"', 'xmlns:t="http://shop.invalid/"')
        .replace('targetNamespace="urn:shop"', 'targetNamespace="http://shop.invalid/"')
        .replace('<wsdl:input message="t:Note"/>', '<wsdl:input name="tell" message="t:Note"/>')
        .replace('soapAction="urn:shop/remark"', 'soapAction=""')
    )
    order, remark, _ = interface_of(tmp_path, wsdl).operations
    assert order.actions.output == "http://shop.invalid/Orders/placeOrderResponse"
    assert order.actions.faults == {"SoldOut": "http://shop.invalid/Orders/placeOrder/Fault/SoldOut"}
    assert remark.actions.input == "http://shop.invalid/Orders/tell"


@pytest.mark.parametrize(
    "namespace",
    [
        "http://www.w3.org/2007/05/addressing/metadata",
        "http://www.w3.org/2006/05/addressing/wsdl",
        ADDRESSING_2004.namespace,
    ],
)
def test_declared_actions_are_the_only_ones(tmp_path, namespace):
    wsdl = (
        wsdls.document_wsdl()
        .replace("<wsdl:input message=", f'<wsdl:input xmlns:w="{namespace}" w:Action="urn:in" message=')
        .replace("<wsdl:output message=", f'<wsdl:output xmlns:w="{namespace}" w:Action="urn:out" message=')
        .replace(
            '<wsdl:fault name="SoldOut" message=',
            f'<wsdl:fault xmlns:w="{namespace}" w:Action="urn:bad" name="SoldOut" message=',
        )
    )
    order = interface_of(tmp_path, wsdl).operations[0]
    actions = order.actions
    assert (actions.input, actions.output, actions.faults) == ("urn:in", "urn:out", {"SoldOut": "urn:bad"})
    assert not actions.accepts("urn:shop/placeOrder")

    request = AddressingHeaders(action="urn:in")
    check_action(request, order, "urn:in", "1.1")
    check_action(request, order, "", "1.1")
    assert find_answer_action(order, request) == "urn:out"
    assert find_answer_action(order, request, fault="SoldOut") == "urn:bad"
    assert find_answer_action(order, request, fault="") == f"{ADDRESSING}/soap/fault"
    with pytest.raises(SoapRefusal, match="urn:other") as caught:
        check_action(request, order, "urn:other", "1.1")
    assert problem(caught.value) == "ActionMismatch"
    with pytest.raises(SoapRefusal, match="urn:shop/placeOrder") as caught:
        check_action(AddressingHeaders(action="urn:shop/placeOrder"), order, "urn:shop/placeOrder", "1.1")
    assert problem(caught.value) == "ActionNotSupported"
