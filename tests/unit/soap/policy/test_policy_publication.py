"""The policies in a published WSDL: where they are, in which form, and which of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from lxml import etree

from demaq.errors import ProgramError
from demaq.soap import Interface, read_interface
from demaq.soap.addressing.addressing_versions import ADDRESSING_2004
from demaq.soap.policy import collect_port_policies, read_interface_policy, read_policy_text
from demaq.soap.policy.gateway_policy import DEFAULT_RELIABILITY, AddressingPolicy
from tests.support.soap import wsdls
from tests.support.soap.policies import (
    CXF,
    NAMESPACES,
    POLICY_1_2,
    POLICY_1_5,
    RELIABLE,
    SIGNED_BODY,
    WCF_RELIABLE,
    declare,
    nested,
    policy,
)
from tests.support.soap.published_files import HERE
from tests.support.soap.wsdls import HEAD, MESSAGES, PORT_TYPE, TAIL, TYPES

SECURITY, RELIABILITY = "WS-Security", "WS-ReliableMessaging"
WSDL = "{http://schemas.xmlsoap.org/wsdl/}"
WSU_ID = f"{{{NAMESPACES['wsu']}}}Id"
SIGNED = "<sp:SignedParts><sp:Body/></sp:SignedParts>"
ADDRESSED = nested("wsam:Addressing")


def make(
    folder: Path,
    using: Mapping[str, str | None],
    wsdl: str = wsdls.document_wsdl(),
    port: str | None = None,
    files: Mapping[str, str] | None = None,
) -> Interface:
    """Return the interface of a gateway with these policies, each the text of a file or the default."""
    for file, content in {"shop.wsdl": wsdl, **(files or {})}.items():
        (folder / file).write_text(content)
    paths: dict[str, Path | None] = {}
    for name, text in using.items():
        paths[name] = folder / f"{name}.xml" if text is not None else None
        if text is not None:
            (folder / f"{name}.xml").write_text(text)
    return read_interface(folder / "shop.wsdl", port).with_policies(
        collect_port_policies(paths, folder / "shop.wsdl", port)
    )


def parse(data: bytes | None) -> etree._Element:
    assert data is not None
    return etree.fromstring(data)


def owners(root: etree._Element) -> dict[str, list[str]]:
    """Return the elements with references to policies by their names, each with the identifiers of its policies."""
    found: dict[str, list[str]] = {}
    for reference in root.iter("{*}PolicyReference"):
        owner = reference.getparent()
        assert owner is not None
        found.setdefault(f"{etree.QName(owner).localname} {owner.get('name')}", []).append(reference.get("URI", "")[1:])
    return found


def embedded(root: etree._Element) -> dict[str, etree._Element]:
    """Return the policies of the definitions by their identifiers."""
    return {one.get(WSU_ID, ""): one for one in root.iterchildren("{*}Policy")}


def names(element: etree._Element) -> list[str]:
    return [etree.QName(one).localname for one in element.iter("*")]


def is_in_order(root: etree._Element) -> bool:
    """Whether documentation comes first and elements of other namespaces before those of WSDL, as its schema says."""
    for element in root.iter(
        f"{WSDL}definitions", f"{WSDL}binding", f"{WSDL}port", f"{WSDL}service", f"{WSDL}portType"
    ):
        ranks = [
            0 if child.tag == f"{WSDL}documentation" else 2 if str(child.tag).startswith(WSDL) else 1
            for child in element.iterchildren("*")
        ]
        if ranks != sorted(ranks):
            return False
    return True


def test_a_policy_is_embedded_in_the_definitions_and_referred_to_by_the_binding(tmp_path):
    root = parse(make(tmp_path, {SECURITY: SIGNED_BODY, RELIABILITY: WCF_RELIABLE}).publish(HERE))
    ids = ["OrdersBinding_WS-Security", "OrdersBinding_WS-ReliableMessaging"]
    assert owners(root) == {"binding OrdersBinding": ids}
    assert list(embedded(root)) == ids
    assert [etree.QName(one).localname for one in root][:3] == ["Policy", "Policy", "types"]
    [binding] = root.iterchildren(f"{WSDL}binding")
    assert [etree.QName(one).localname for one in binding][:3] == ["PolicyReference", "PolicyReference", "binding"]
    assert is_in_order(root)


def test_a_policy_and_its_reference_are_in_the_version_of_the_file(tmp_path):
    root = parse(make(tmp_path, {SECURITY: SIGNED_BODY, RELIABILITY: WCF_RELIABLE}).publish(HERE))
    versions = [etree.QName(one).namespace for one in embedded(root).values()]
    assert versions == [POLICY_1_5, POLICY_1_2]
    assert [etree.QName(one).namespace for one in root.iter("{*}PolicyReference")] == versions


def test_a_policy_of_references_is_published_in_one_piece(tmp_path):
    inner = policy(nested("wsrmp:RMAssertion"), wsp=POLICY_1_2)
    (tmp_path / "inner.xml").write_text(inner)
    outer = policy(f'<wsp:PolicyReference URI="inner.xml"/><wsp:Policy wsu:Id="A">{ADDRESSED}</wsp:Policy>')
    [published] = embedded(parse(make(tmp_path, {RELIABILITY: outer}).publish(HERE))).values()
    assert names(published) == ["Policy", "ExactlyOne", "All", "RMAssertion", "Policy", "Addressing", "Policy"]
    operators = list(published.iter("{*}Policy", "{*}ExactlyOne", "{*}All"))
    assert {etree.QName(one).namespace for one in operators} == {POLICY_1_5}


def test_the_alternative_that_is_applied_is_published_and_no_other(tmp_path):
    text = policy(
        f"<wsp:ExactlyOne><sp:SymmetricBinding/><wsp:All>{SIGNED}"
        f'<wsaw:UsingAddressing wsp:Optional="true"/></wsp:All><sp:EncryptedParts/></wsp:ExactlyOne>'
    )
    [published] = embedded(parse(make(tmp_path, {SECURITY: text}).publish(HERE))).values()
    assert names(published) == ["Policy", "ExactlyOne", "All", "SignedParts", "Body", "UsingAddressing"]
    assert not list(published.iter("{*}SymmetricBinding"))
    assert not [name for one in published.iter("*") for name in one.attrib if "Optional" in str(name)]


def test_reliability_without_a_file_is_published_with_what_it_means(tmp_path):
    data = make(tmp_path, {RELIABILITY: None}).publish(HERE)
    [published] = embedded(parse(data)).values()
    found = read_policy_text(etree.tostring(published))
    assert found.reliability == DEFAULT_RELIABILITY
    assert published.find(".//{http://www.w3.org/2007/05/addressing/metadata}Addressing") is not None


def test_reliability_without_a_file_says_nothing_of_addressing_where_another_policy_does(tmp_path):
    old = '<a:UsingAddressing xmlns:a="http://schemas.xmlsoap.org/ws/2004/08/addressing/policy"/>'
    data = make(tmp_path, {RELIABILITY: None, SECURITY: policy(SIGNED + old)}).publish(HERE)
    (tmp_path / "got.wsdl").write_bytes(data)
    found = read_interface_policy(tmp_path / "got.wsdl")
    assert found is not None
    assert found.reliability == DEFAULT_RELIABILITY
    assert found.addressing == AddressingPolicy(version=ADDRESSING_2004)


def test_without_a_using_clause_nothing_is_published(tmp_path):
    assert make(tmp_path, {}).publish(HERE) == read_interface(tmp_path / "shop.wsdl").publish(HERE)


def attach(text: str, wsdl: str = wsdls.document_wsdl()) -> str:
    """Return a WSDL with a policy in its binding."""
    inside = text[text.index(">") + 1 : text.rindex("</")]
    wsdl = wsdl.replace("xmlns:t=", f"{declare()} xmlns:t=", 1)
    return wsdl.replace("<soap:binding ", f'<wsp:Policy wsu:Id="Theirs">{inside}</wsp:Policy><soap:binding ', 1)


@pytest.mark.parametrize("file", [SIGNED_BODY, None])
def test_a_policy_that_the_wsdl_has_is_not_there_twice(tmp_path, file):
    data = make(tmp_path, {SECURITY: file}, attach(SIGNED_BODY)).publish(HERE)
    assert data == read_interface(tmp_path / "shop.wsdl").publish(HERE)


def test_of_a_policy_that_the_wsdl_has_only_addressing_is_added(tmp_path):
    root = parse(make(tmp_path, {SECURITY: policy(SIGNED + ADDRESSED)}, attach(SIGNED_BODY)).publish(HERE))
    [published] = embedded(root).values()
    assert names(published) == ["Policy", "ExactlyOne", "All", "Addressing", "Policy"]


def test_a_policy_of_the_wsdl_for_an_extension_that_is_not_used_stays(tmp_path):
    root = parse(make(tmp_path, {RELIABILITY: RELIABLE}, attach(SIGNED_BODY)).publish(HERE))
    assert len(list(root.iter("{*}SignedParts"))) == 1
    assert owners(root) == {"binding OrdersBinding": ["OrdersBinding_WS-ReliableMessaging"]}


def test_policies_that_disagree_are_not_published(tmp_path):
    other = SIGNED_BODY.replace("<sp:Body/>", '<sp:Header Namespace="urn:h"/>')
    with pytest.raises(ProgramError, match="is not that of the interface"):
        make(tmp_path, {SECURITY: other}, attach(SIGNED_BODY))


def test_an_identifier_of_the_wsdl_is_not_used_again(tmp_path):
    taken = '<wsp:Policy {}="OrdersBinding_WS-Security{}"/>'
    wsdl = wsdls.document_wsdl().replace("xmlns:t=", f"{declare()} xmlns:t=", 1)
    wsdl = wsdl.replace(TAIL, taken.format("xml:id", "") + taken.format("Name", "_2") + TAIL)
    root = parse(make(tmp_path, {SECURITY: SIGNED_BODY}, wsdl).publish(HERE))
    assert owners(root) == {"binding OrdersBinding": ["OrdersBinding_WS-Security_3"]}


def test_documentation_and_policies_of_the_wsdl_come_before(tmp_path):
    documented = "<!-- c --><wsdl:documentation>d</wsdl:documentation>"
    wsdl = wsdls.document_wsdl().replace("<wsdl:types>", f"{documented}<e:x xmlns:e='urn:e'/><wsdl:types>")
    wsdl = wsdl.replace("<soap:binding ", f"{documented}<soap:binding ")
    root = parse(make(tmp_path, {SECURITY: SIGNED_BODY}, wsdl).publish(HERE))
    assert is_in_order(root)
    assert owners(root) == {"binding OrdersBinding": ["OrdersBinding_WS-Security"]}


@pytest.mark.parametrize("version", ["1.1", "1.2"])
def test_a_binding_in_an_imported_file_has_the_policy_there(tmp_path, version):
    apart = HEAD + wsdls.types(TYPES) + MESSAGES + PORT_TYPE + wsdls.binding(version) + TAIL
    main = HEAD + '<wsdl:import namespace="urn:shop" location="apart.wsdl"/>'
    main += wsdls.service(wsdls.port(version=version)) + TAIL
    interface = make(tmp_path, {SECURITY: CXF}, main, files={"apart.wsdl": apart})
    assert owners(parse(interface.publish(HERE))) == {}
    root = parse(interface.publish_file("apart.wsdl", HERE))
    assert owners(root) == {"binding OrdersBinding": ["OrdersBinding_WS-Security"]}
    assert list(embedded(root)) == ["OrdersBinding_WS-Security"]
    assert is_in_order(root)


def test_each_served_port_has_its_own_policies(tmp_path):
    one = make(tmp_path, {SECURITY: SIGNED_BODY}, wsdls.BOTH_VERSIONS, "PortOne")
    two = make(tmp_path, {RELIABILITY: None}, wsdls.BOTH_VERSIONS, "PortTwo")
    others = [(one, f"{HERE}/1"), (two, f"{HERE}/2")]
    expected = {"binding One": ["One_WS-Security"], "binding Two": ["Two_WS-ReliableMessaging"]}
    assert owners(parse(one.publish(f"{HERE}/1", others))) == expected
    assert owners(parse(two.publish(f"{HERE}/2", others))) == expected
    assert owners(parse(two.publish(f"{HERE}/2"))) == {"binding Two": ["Two_WS-ReliableMessaging"]}


SHARED = (
    HEAD
    + wsdls.types(TYPES)
    + MESSAGES
    + PORT_TYPE
    + wsdls.binding()
    + wsdls.service(wsdls.port("PortA"), wsdls.port("PortB"))
    + TAIL
)


def test_ports_that_share_a_binding_have_their_policies_themselves_unless_they_agree(tmp_path):
    one = make(tmp_path, {SECURITY: SIGNED_BODY}, SHARED, "PortA")
    same = make(tmp_path, {SECURITY: SIGNED_BODY}, SHARED, "PortB")
    without = read_interface(tmp_path / "shop.wsdl", "PortB")

    root = parse(one.publish(HERE, [(same, f"{HERE}/b")]))
    assert owners(root) == {"binding OrdersBinding": ["OrdersBinding_WS-Security"]}
    root = parse(one.publish(HERE, [(without, f"{HERE}/b")]))
    assert owners(root) == {"port PortA": ["PortA_WS-Security"]}
    assert is_in_order(root)
    assert owners(parse(without.publish(f"{HERE}/b", [(one, HERE)]))) == {"port PortA": ["PortA_WS-Security"]}
    assert owners(parse(without.publish(f"{HERE}/b"))) == {}

    (tmp_path / "got.wsdl").write_bytes(etree.tostring(root))
    assert read_interface_policy(tmp_path / "got.wsdl", "PortA") == read_policy_text(SIGNED_BODY.encode())
    assert read_interface_policy(tmp_path / "got.wsdl", "PortB") is None


def test_a_port_of_another_wsdl_with_the_same_binding_changes_nothing(tmp_path):
    apart = HEAD + wsdls.types(TYPES) + MESSAGES + PORT_TYPE + wsdls.binding() + TAIL
    main = HEAD + '<wsdl:import namespace="urn:shop" location="apart.wsdl"/>' + wsdls.service(wsdls.port()) + TAIL
    other = main.replace("OrdersPort", "Elsewhere")
    one = make(tmp_path, {SECURITY: SIGNED_BODY}, main, files={"apart.wsdl": apart, "other.wsdl": other})
    two = read_interface(tmp_path / "other.wsdl")
    root = parse(one.publish_file("apart.wsdl", HERE, [(two, f"{HERE}/2")]))
    assert owners(root) == {"binding OrdersBinding": ["OrdersBinding_WS-Security"]}
    assert owners(parse(two.publish_file("apart.wsdl", f"{HERE}/2", [(one, HERE)]))) == {}


def test_of_two_gateways_with_one_port_each_publishes_its_own_policy(tmp_path):
    one = make(tmp_path, {SECURITY: SIGNED_BODY})
    two = make(tmp_path, {RELIABILITY: None})
    others = [(one, f"{HERE}/1"), (two, f"{HERE}/2")]
    assert [*embedded(parse(one.publish(f"{HERE}/1", others)))] == ["OrdersBinding_WS-Security"]
    assert [*embedded(parse(two.publish(f"{HERE}/2", others)))] == ["OrdersBinding_WS-ReliableMessaging"]


def test_a_binding_that_is_added_has_the_policy_and_a_name_of_its_own(tmp_path):
    several = wsdls.binding("1.1", "OrdersBinding") + wsdls.binding("1.2", "Two")
    abstract = HEAD + wsdls.types(TYPES) + MESSAGES + PORT_TYPE + several + TAIL
    root = parse(make(tmp_path, {SECURITY: SIGNED_BODY}, abstract, "Orders").publish(HERE))
    assert owners(root) == {"binding OrdersBinding_": ["OrdersBinding__WS-Security"]}
    assert [one.get("binding") for one in root.iter(f"{WSDL}port")] == ["of:OrdersBinding_"]


# --- policies in files beside the WSDL -------------------------------------------------------------------------------


def refer(uri: str) -> str:
    wsdl = wsdls.document_wsdl().replace("xmlns:t=", f"{declare()} xmlns:t=", 1)
    wsdl = wsdl.replace("<wsdl:portType ", f'<wsdl:portType wsp:PolicyURIs=" {uri} {uri}" ')
    return wsdl.replace("<soap:binding ", f'<wsp:PolicyReference URI="{uri}"/><soap:binding ')


def test_a_policy_beside_the_wsdl_is_embedded(tmp_path):
    beside = RELIABLE.replace("Policy ", 'Policy xml:id="R" ', 1)
    interface = make(tmp_path, {RELIABILITY: None}, refer("beside.xml#R"), files={"beside.xml": beside})
    root = parse(interface.publish(HERE))
    assert owners(root) == {"binding OrdersBinding": ["policy"]}
    assert list(embedded(root)) == ["policy"]
    assert [one.get(f"{{{POLICY_1_5}}}PolicyURIs") for one in root.iter(f"{WSDL}portType")] == ["#policy #policy"]
    assert is_in_order(root)


@pytest.mark.parametrize("uri", ["http://p.invalid/p.xml#R", "nope.xml", "plain.xml#R", "bare.xml"])
def test_a_reference_that_leads_to_no_usable_policy_stays(tmp_path, uri):
    bare = policy("<x:a><bare/></x:a>")
    interface = make(tmp_path, {}, refer(uri), files={"plain.xml": "<plain/>", "bare.xml": bare})
    assert interface.publish(HERE) == read_interface(tmp_path / "shop.wsdl").publish(HERE)
