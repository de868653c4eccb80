"""Policies in a published WSDL: embedded in its definitions, and referred to by what they hold for.

The form is that of WS-PolicyAttachment 1.5, section 4. The schema of WSDL 1.1 has elements of other namespaces after
the documentation and before everything else, so that is their place.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lxml import etree

from demaq.soap.element_copies import copy_element
from demaq.soap.qualified_names import WSDL, XML, clark
from demaq.soap.security.wss_names import WSU, WSU_ID
from demaq.xml_parsers import parse_characters

_PREFIX: Final = "wsp"
_DOCUMENTATION: Final = clark(WSDL, "documentation")
_IDENTIFIERS: Final = (WSU_ID, clark(XML, "id"), "Name")


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedPolicy:
    """A policy as a WSDL has it."""

    name: str
    """The extension that it is about, which its identifier ends with."""
    version: str
    """The namespace of WS-Policy."""
    content: str
    """The element ExactlyOne of its normal form, which needs nothing outside of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyBeside:
    """A policy in a file of its own that a WSDL refers to. It is embedded in the published one."""

    file: Path
    """The file of the WSDL with the reference."""
    uri: str
    """The reference."""
    policy: PublishedPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class PortPolicies:
    """The policies that a port is published with, besides those that are in its WSDL."""

    attached: tuple[PublishedPolicy, ...] = ()
    """What the gateway asks for and the WSDL does not say."""
    beside: tuple[PolicyBeside, ...] = ()


def attach_policies(owner: etree._Element, policies: Iterable[PublishedPolicy]) -> None:
    """Add policies to the definitions around a binding or a port, and references to them as its first elements."""
    root = owner.getroottree().getroot()
    documentation = owner.find(_DOCUMENTATION)
    place = owner.index(documentation) + 1 if documentation is not None else 0
    for number, policy in enumerate(policies):
        name = _embed_policy(root, policy, f"{owner.get('name')}_{policy.name}")
        tag = clark(policy.version, "PolicyReference")
        owner.insert(place + number, etree.Element(tag, {"URI": f"#{name}"}, {_PREFIX: policy.version}))


def embed_policies_beside(root: etree._Element, policies: Iterable[PolicyBeside]) -> None:
    """Add policies to the definitions of a WSDL that refers to them, and turn the references to them."""
    for beside in policies:
        name = f"#{_embed_policy(root, beside.policy, beside.policy.name)}"
        for reference in root.iter("{*}PolicyReference"):
            if reference.get("URI", "").strip() == beside.uri:
                reference.set("URI", name)
        for element in root.iter("*"):
            for attribute in [one for one in element.attrib if str(one).endswith("}PolicyURIs")]:
                uris = [name if uri == beside.uri else uri for uri in element.get(attribute, "").split()]
                element.set(attribute, " ".join(uris))


def _embed_policy(root: etree._Element, policy: PublishedPolicy, wanted: str) -> str:
    """Add a policy to the definitions of a WSDL; return its identifier, which is the wanted one if it is free."""
    used = {one.get(name, "").strip().removeprefix("#") for one in root.iter("*") for name in _IDENTIFIERS}
    name, number = wanted, 1
    while name in used:
        number += 1
        name = f"{wanted}_{number}"
    element = etree.Element(clark(policy.version, "Policy"), {WSU_ID: name}, {_PREFIX: policy.version, "wsu": WSU})
    first = next(iter([child for child in root if _is_definition(child)]), None)
    root.insert(len(root) if first is None else root.index(first), element)
    copy_element(element, parse_characters(policy.content.encode()))
    element.tail = "\n"
    return name


def _is_definition(child: etree._Element) -> bool:
    return str(child.tag).startswith(f"{{{WSDL}}}") and child.tag != _DOCUMENTATION
