"""Policies of gateways, read again from the published WSDL."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from demaq.errors import ProgramError
from demaq.soap import read_interface
from demaq.soap.policy import (
    GatewayPolicy,
    collect_port_policies,
    combine_policies,
    read_extension_policy,
    read_interface_policy,
)
from tests.support.drawing import draw_until
from tests.support.soap import wsdls
from tests.support.soap.policies import (
    CXF,
    GSOAP,
    METRO,
    POLICY_1_2,
    POLICY_1_5,
    RELIABLE,
    SIGNED_BODY,
    SP_1_1,
    SP_1_2,
    WCF_RELIABLE,
    WCF_RELIABLE_1_1,
    WCF_TRANSPORT,
    WSA,
    asymmetric,
    nested,
    policy,
    suite,
    transport,
    user,
)
from tests.support.soap.published_files import fetch_all, save_all
from tests.support.soap.wsdls import HEAD, MESSAGES, PORT_TYPE, TAIL, TYPES

SECURITY, RELIABILITY = "WS-Security", "WS-ReliableMessaging"
FILES: Mapping[str, Mapping[str, str]] = {
    SECURITY: {"CXF": CXF, "WCF": WCF_TRANSPORT, "body": SIGNED_BODY},
    RELIABILITY: {"WCF": WCF_RELIABLE, "WCF 1.1": WCF_RELIABLE_1_1, "usual": RELIABLE},
}
TAKEN = ' xmlns:wsp="urn:taken" xmlns:sp="urn:taken" xmlns:x="urn:cards" xmlns:wsu="urn:taken" xmlns:y="urn:x"'
"""Prefixes of policies that mean something else in the WSDL, and other prefixes for namespaces of policies."""
INTERFACES = {
    "document": wsdls.document_wsdl(),
    "SOAP 1.2": wsdls.document_wsdl("1.2"),
    "rpc": wsdls.RPC,
    "no service": HEAD + wsdls.types(TYPES) + MESSAGES + PORT_TYPE + wsdls.binding() + TAIL,
    "abstract": HEAD + wsdls.types(TYPES) + MESSAGES + PORT_TYPE + TAIL,
    "other prefixes": wsdls.document_wsdl().replace(" xmlns:t=", f"{TAKEN} xmlns:t="),
}
BINDING_APART = HEAD + wsdls.types(TYPES) + MESSAGES + PORT_TYPE + wsdls.binding() + TAIL
INTERFACES["binding apart"] = (
    HEAD + '<wsdl:import namespace="urn:shop" location="parts/b.wsdl"/>' + wsdls.service(wsdls.port()) + TAIL
)


@dataclass(kw_only=True)
class Gateway:
    """A gateway with its files in a folder."""

    folder: Path
    interface: str = "shop.wsdl"
    using: dict[str, Path | None] = field(default_factory=dict)

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    @property
    def path(self) -> Path:
        return self.folder / self.interface

    def combine(self) -> GatewayPolicy:
        own = {name: read_extension_policy(name, path) if path else None for name, path in self.using.items()}
        return combine_policies(own, read_interface_policy(self.path))

    def publish(self) -> Path:
        """Return the path of the WSDL that a client has got."""
        published = read_interface(self.path).with_policies(collect_port_policies(self.using, self.path))
        folder = self.folder / "got"
        folder.mkdir()
        return save_all(fetch_all(published), folder)


def check_published(gateway: Gateway) -> None:
    """A client that reads the published WSDL gets the policy of the gateway, and publishing that again adds nothing."""
    expected = gateway.combine()
    theirs = read_interface_policy(gateway.path) or GatewayPolicy()
    got = gateway.publish()
    again = read_interface_policy(got)
    assert combine_policies(dict.fromkeys(gateway.using), again) == expected
    if not find_unused(theirs, gateway.using):
        assert again == expected
    more = collect_port_policies(gateway.using, got)
    assert (more.attached, more.beside) == ((), ())
    read_interface(got)


def find_unused(interface: GatewayPolicy, using: Mapping[str, object]) -> set[str]:
    """Return the extensions of the WSDL that the gateway does not use, and does not change."""
    asked = {SECURITY: interface.security, RELIABILITY: interface.reliability}
    return {name for name, policy in asked.items() if policy is not None and name not in using}


@pytest.mark.sampled
@pytest.mark.parametrize("shape", INTERFACES)
@pytest.mark.parametrize("name", [*FILES[SECURITY], None])
@pytest.mark.parametrize("other", [*FILES[RELIABILITY], None, "default"])
def test_policies_of_files_are_read_again_from_the_published_wsdl(tmp_path, shape, name, other):
    gateway = make_gateway(tmp_path, shape)
    if name is not None:
        gateway.using[SECURITY] = gateway.write("security.xml", FILES[SECURITY][name])
    if other is not None:
        text = FILES[RELIABILITY].get(other)
        gateway.using[RELIABILITY] = gateway.write("reliability.xml", text) if text else None
    if gateway.using:
        check_published(gateway)


@pytest.mark.parametrize("text", [METRO, GSOAP, CXF, WCF_RELIABLE], ids=["Metro", "gSOAP", "CXF", "WCF"])
@pytest.mark.parametrize("place", ["embedded", "beside"])
def test_policies_of_the_wsdl_are_read_again_from_the_published_one(tmp_path, text, place):
    gateway = make_gateway(tmp_path, "document")
    attach(gateway, text, is_beside=place == "beside")
    found = read_interface_policy(gateway.path)
    assert found is not None
    gateway.using = {
        name: None for name, asked in ((SECURITY, found.security), (RELIABILITY, found.reliability)) if asked
    }
    check_published(gateway)


def make_gateway(folder: Path, shape: str) -> Gateway:
    gateway = Gateway(folder=folder)
    gateway.write("parts/b.wsdl", BINDING_APART)
    gateway.write(gateway.interface, INTERFACES[shape])
    return gateway


def attach(gateway: Gateway, text: str, *, is_beside: bool) -> None:
    """Attach a policy to the binding of a WSDL that is in one file, or to its portType if there is none."""
    wsdl = gateway.path.read_text()
    named = (
        text.replace("Policy ", 'Policy xml:id="TheirOwn" ', 1)
        .replace(' wsu:Id="', ' x="')
        .replace(' xml:id="Or', ' x="')
    )
    if is_beside:
        gateway.write("beside.xml", f"<them>{named}</them>")
    else:
        wsdl = wsdl.replace(TAIL, named + TAIL)
    uri = "beside.xml#TheirOwn" if is_beside else "#TheirOwn"
    owner = "<wsdl:binding" if "<wsdl:binding" in wsdl else "<wsdl:portType"
    wsdl = wsdl.replace(owner, f'{owner} xmlns:p="{POLICY_1_5}" p:PolicyURIs="{uri}"', 1)
    gateway.write(gateway.interface, wsdl)


# --- drawn -----------------------------------------------------------------------------------------------------------

ADDRESSING = [
    "",
    "",
    "<wsaw:UsingAddressing/>",
    nested("wsam:Addressing"),
    nested("wsam:Addressing", "<wsam:AnonymousResponses/>"),
    nested("wsam:Addressing", "<wsam:NonAnonymousResponses/>"),
    '<old:UsingAddressing xmlns:old="http://schemas.xmlsoap.org/ws/2004/08/addressing/policy"/>',
]


def test_drawn_gateways_publish_what_they_ask_for(tmp_path, chance: random.Random):
    seen: Counter[str] = Counter()
    wanted = {"published", "disagreed", "beside", "embedded", "referred", "both", "unused", *INTERFACES}
    for number, _ in enumerate(draw_until(lambda: wanted <= seen.keys(), 200, "PUBLISHED_POLICIES")):
        shape = chance.choice(list(INTERFACES))
        gateway = make_gateway(tmp_path / str(number), shape)
        happened = {shape, *draw_policies(chance, gateway, shape)}
        try:
            gateway.combine()
        except ProgramError:
            seen["disagreed"] += 1
            with pytest.raises(ProgramError):
                collect_port_policies(gateway.using, gateway.path)
            continue
        check_published(gateway)
        seen.update(happened | {"published"})
    assert wanted <= seen.keys()
    assert seen["published"] > seen["disagreed"] / 3


def draw_policies(chance: random.Random, gateway: Gateway, shape: str) -> set[str]:
    """Give a gateway policies in files, in its WSDL, or in both; return what is special about them."""
    happened: set[str] = set()
    texts = {SECURITY: draw_security(chance), RELIABILITY: draw_reliability(chance)}
    for name in chance.choice([[SECURITY], [RELIABILITY], [SECURITY, RELIABILITY], [RELIABILITY, SECURITY]]):
        content, addressing = texts[name], chance.choice(ADDRESSING)
        if chance.random() < 0.4:
            happened.add("referred")
            other = policy(content, ' wsu:Id="R"', wsp=chance.choice([POLICY_1_2, POLICY_1_5]))
            gateway.write("parts/other file.xml", f"<policies>{other}</policies>")
            content = '<wsp:PolicyReference URI="parts/other%20file.xml#R"/>'
        text = policy(draw_form(chance, content + addressing), wsp=chance.choice([POLICY_1_2, POLICY_1_5]))
        gateway.using[name] = gateway.write(f"{name}.xml", text)
        if chance.random() < 0.2:
            gateway.using[name] = None
    happened |= {"both"} if len(gateway.using) == 2 else set()
    if shape != "binding apart" and chance.random() < 0.5:
        own = [text for text in texts.values() if chance.random() < 0.5]
        text = policy("".join([*own, chance.choice(ADDRESSING)]))
        is_beside = chance.random() < 0.5
        attach(gateway, text, is_beside=is_beside)
        happened.add("beside" if is_beside else "embedded")
        happened |= {"unused"} if find_unused(read_or_nothing(gateway), gateway.using) else set()
    return happened


def read_or_nothing(gateway: Gateway) -> GatewayPolicy:
    try:
        return read_interface_policy(gateway.path) or GatewayPolicy()
    except ProgramError:
        return GatewayPolicy()


def draw_form(chance: random.Random, content: str) -> str:
    """Return content among alternatives that are not implemented, and among things that may be left out."""
    if chance.random() < 0.4:
        content = f'<x:unknown wsp:Optional="true"/>{content}'
    if chance.random() < 0.4:
        return f"<wsp:ExactlyOne><wsp:All><x:unknown/></wsp:All><wsp:All>{content}</wsp:All><wsp:All/></wsp:ExactlyOne>"
    return chance.choice([content, f"<wsp:All>{content}</wsp:All>", f"<wsp:Policy>{content}</wsp:Policy>"])


def draw_security(chance: random.Random) -> str:
    flags = [one for one in ("<sp:IncludeTimestamp/>", "<sp:EncryptBeforeSigning/>") if chance.random() < 0.5]
    binding = chance.choice(["", asymmetric(suite(), *flags), transport(suite(), *flags[:1])])
    binding = binding.replace("<sp:EncryptBeforeSigning/>", "") if binding.startswith("<sp:Tr") else binding
    paths = ["//x:card", "//*[local-name() = 'a:b']", '/*/child::*/x:card[@x:no = "sp:1"]/foo']
    parts = [
        "<sp:SignedParts><sp:Body/></sp:SignedParts>",
        '<sp:SignedElements><sp:XPath xmlns:bolt="urn:bolt">//bolt:nut</sp:XPath></sp:SignedElements>',  # the WSDL has t:
        f'<sp:EncryptedParts><sp:Body/><sp:Header Namespace="{WSA}" Name="To"/></sp:EncryptedParts>',
        f"<sp:EncryptedElements><sp:XPath>{chance.choice(paths)}</sp:XPath></sp:EncryptedElements>",
        '<sp:SignedElements><sp:XPath xmlns:x="urn:else">/*<!-- root -->//x:a</sp:XPath></sp:SignedElements>',
        nested(
            "sp:SupportingTokens", user(chance.choice(["<sp:HashPassword/>", '<sp:HashPassword wsp:Optional="1"/>']))
        ),
        nested("sp:Wss11", "<sp:MustSupportRefThumbprint/>", '<sp:RequireSignatureConfirmation wsp:Ignorable="true"/>'),
    ]
    content = binding + "".join(chance.sample(parts, chance.randint(1, 3)))
    return (
        content
        if chance.random() < 0.7
        else f'<wsp:All xmlns:sp="{SP_1_1}">{content.replace(SP_1_2, SP_1_1)}</wsp:All>'
    )


def draw_reliability(chance: random.Random) -> str:
    times = "".join(
        [
            f'<wsrm:{name} Milliseconds="{chance.randint(1, 9)}"/>'
            for name in ("InactivityTimeout", "BaseRetransmissionInterval")
            if chance.random() < 0.5
        ]
    )
    choices = "<wsp:ExactlyOne><wsrmp:AtLeastOnce/><wsrmp:AtMostOnce/></wsp:ExactlyOne>"
    return chance.choice(
        [
            f"<wsrm:RMAssertion>{times}</wsrm:RMAssertion>",
            "<wsrmp:RMAssertion/>",
            nested(
                "wsrmp:RMAssertion", nested("wsrmp:DeliveryAssurance", choices, '<wsrmp:InOrder wsp:Optional="true"/>')
            ),
            nested("wsrmp:RMAssertion", '<wsrmp:SequenceSTR wsp:Optional="true"/>'),
        ]
    )
