"""Policies that are attached to a WSDL, at each place where WS-PolicyAttachment allows them."""

from __future__ import annotations

from pathlib import Path

import pytest

from demaq.errors import ProgramError
from demaq.soap.policy.gateway_policy import GatewayPolicy
from demaq.soap.policy.statement_policies import read_policy_text
from demaq.soap.policy.wsdl_policies import read_interface_policy
from demaq.soap.security import MessageParts
from tests.support.soap.policies import CXF, RELIABLE, asymmetric, declare, suite
from tests.support.soap.wsdls import HEAD, MESSAGES, PORT_TYPE, TAIL, TYPES, binding, port, service, types

SIGNED = "<sp:SignedParts><sp:Body/></sp:SignedParts>"
P = f'<wsp:Policy wsu:Id="P">{SIGNED}</wsp:Policy>'
REFERENCE = '<wsp:PolicyReference URI="#P"/>'


def wsdl(*policies: str, change: dict[str, str] | None = None) -> str:
    """Return a WSDL with these policies, and with some of its text replaced."""
    text = TYPES_AND_MESSAGES + PORT_TYPE + binding() + service(port())
    for old, new in (change or {}).items():
        assert old in text
        text = text.replace(old, new)
    return HEAD.replace(">", f" {declare()}>") + "".join(policies) + text + TAIL


TYPES_AND_MESSAGES = types(TYPES) + MESSAGES


def policy_of(folder: Path, text: str) -> GatewayPolicy | None:
    (folder / "shop.wsdl").write_text(text)
    return read_interface_policy(folder / "shop.wsdl")


def parts_of(folder: Path, text: str) -> tuple[MessageParts, MessageParts]:
    found = policy_of(folder, text)
    assert found is not None
    assert found.security is not None
    return found.security.request.signed, found.security.answer.signed


def refusal(folder: Path, text: str) -> str:
    with pytest.raises(ProgramError) as caught:
        policy_of(folder, text)
    return str(caught.value)


BODY, NOTHING = MessageParts(body=True), MessageParts()


def test_a_wsdl_without_policies_demands_nothing(tmp_path):
    assert policy_of(tmp_path, wsdl()) is None
    assert policy_of(tmp_path, wsdl(P)) is None


@pytest.mark.parametrize(
    "change",
    [
        {'<wsdl:service name="Shop">': f'<wsdl:service name="Shop">{REFERENCE}'},
        {
            '<wsdl:port name="OrdersPort" binding="t:OrdersBinding">': f'<wsdl:port name="OrdersPort" binding="t:OrdersBinding">{REFERENCE}'
        },
        {"<soap:binding ": f"{REFERENCE}<soap:binding "},
        {"<soap:binding ": f"<wsp:Policy>{SIGNED}</wsp:Policy><soap:binding "},
        {'<wsdl:binding name="OrdersBinding"': '<wsdl:binding name="OrdersBinding" wsp:PolicyURIs=" #P  #P "'},
        {'<wsdl:portType name="Orders"': '<wsdl:portType name="Orders" wsp:PolicyURIs="#P"'},
        {"<soap:operation ": f"{REFERENCE}<soap:operation "},
    ],
)
def test_a_policy_of_the_port_or_of_all_operations_holds_for_both_messages(tmp_path, change):
    assert parts_of(tmp_path, wsdl(P, change=change)) == (BODY, BODY)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"<wsdl:input>": f"<wsdl:input>{REFERENCE}"}, (BODY, NOTHING)),
        ({"<wsdl:input message": '<wsdl:input wsp:PolicyURIs="#P" message'}, (BODY, NOTHING)),
    ],
)
def test_a_policy_of_inputs_holds_for_requests(tmp_path, change, expected):
    assert parts_of(tmp_path, wsdl(P, change=change)) == expected


def test_policies_of_port_operation_and_message_hold_together(tmp_path):
    header = '<sp:SignedParts><sp:Header Namespace="urn:h"/></sp:SignedParts>'
    text = wsdl(
        P,
        f'<wsp:Policy wsu:Id="Binding">{asymmetric(suite(), "<sp:IncludeTimestamp/>")}</wsp:Policy>',
        f'<wsp:Policy wsu:Id="Header">{header}</wsp:Policy>',
        change={
            "<soap:binding ": '<wsp:PolicyReference URI="#Binding"/><soap:binding ',
            "<soap:operation ": f"{REFERENCE}<soap:operation ",
            "<wsdl:input>": '<wsdl:input><wsp:PolicyReference URI="#Header"/>',
        },
    )
    request, answer = parts_of(tmp_path, text)
    assert request == MessageParts(body=True, timestamp=True, headers=("{urn:h}*",))
    assert answer == MessageParts(body=True, timestamp=True)


def test_a_policy_in_a_file_beside_the_wsdl_is_found(tmp_path):
    (tmp_path / "cxf.xml").write_text(CXF)
    found = policy_of(
        tmp_path, wsdl(change={"<soap:binding ": '<wsp:PolicyReference URI="cxf.xml#SignEncr"/><soap:binding '})
    )
    assert found == read_policy_text(CXF.encode())


def test_a_policy_in_an_imported_wsdl_is_found(tmp_path):
    abstract = HEAD.replace(">", f" {declare()}>") + TYPES_AND_MESSAGES + PORT_TYPE + TAIL
    abstract = abstract.replace('name="Orders">', 'name="Orders" wsp:PolicyURIs="#P">').replace(TAIL, P + TAIL)
    (tmp_path / "abstract.wsdl").write_text(abstract)
    concrete = (
        HEAD + '<wsdl:import namespace="urn:shop" location="abstract.wsdl"/>' + binding() + service(port()) + TAIL
    )
    assert parts_of(tmp_path, concrete) == (BODY, BODY)


def test_reliability_and_addressing_come_from_the_wsdl(tmp_path):
    inner = RELIABLE[RELIABLE.index("\n") : RELIABLE.rindex("</")]
    change = {
        "<soap:binding ": f'<wsaw:UsingAddressing wsdl:required="true"/><wsp:Policy>{inner}</wsp:Policy><soap:binding '
    }
    assert policy_of(tmp_path, wsdl(change=change)) == read_policy_text(RELIABLE.encode())
    optional = policy_of(tmp_path, wsdl(change={"<soap:binding ": "<wsaw:UsingAddressing/><soap:binding "}))
    assert optional is None


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"<soap:binding ": "<wsp:Policy>\n <x:a/></wsp:Policy><soap:binding "}, "x:a is not supported"),
        ({"<soap:binding ": '<wsp:PolicyReference URI="#Q"/><soap:binding '}, 'no policy has the identifier "Q"'),
        ({'<soap:operation soapAction="urn:shop/ping"/>': REFERENCE}, 'operation "ping" has another policy'),
        ({'<wsdl:fault name="SoldOut">': f'<wsdl:fault name="SoldOut">{REFERENCE}'}, "a fault of operation"),
        (
            {"<wsdl:input>": f"<wsdl:input><wsp:Policy>{asymmetric(suite())}</wsp:Policy>"},
            "cannot be given for one message",
        ),
        (
            {"<wsdl:input>": "<wsdl:input><wsp:Policy><wsrmp:RMAssertion/></wsp:Policy>"},
            "wsrmp:RMAssertion is not supported",
        ),
    ],
)
def test_what_cannot_be_used_of_an_attached_policy_is_refused_with_its_place(tmp_path, change, words):
    message = refusal(tmp_path, wsdl(P, change=change))
    assert words in message
    file, line, column, _ = message.split(":", 3)
    assert (file.endswith("shop.wsdl"), int(line) >= 1, int(column) >= 1) == (True, True, True)


def test_the_place_is_that_of_the_element(tmp_path):
    text = wsdl(change={"<soap:binding ": "<wsp:Policy>\n é <x:a/></wsp:Policy><soap:binding "})
    before = text[: text.index("<x:a/>")]
    expected = f"{before.count(chr(10)) + 1}:{len(before) - before.rindex(chr(10))}: x:a is not supported"
    assert refusal(tmp_path, text).endswith(expected)
