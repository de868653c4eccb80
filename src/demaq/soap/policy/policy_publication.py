"""What a published WSDL has to say of the policies of its gateway.

Published is the alternative that the gateway applies, since a client that chose another one would be refused. What the
WSDL says already stays as it is.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from lxml import etree

from demaq.errors import ProgramError
from demaq.soap.definitions import read_definitions
from demaq.soap.policy.addressing_assertions import is_addressing, read_addressing
from demaq.soap.policy.assertions import Alternative
from demaq.soap.policy.gateway_policy import AddressingPolicy, AnswerAddresses, GatewayPolicy
from demaq.soap.policy.normal_form import Normaliser
from demaq.soap.policy.policy_documents import PolicyDocument, PolicyDocuments, names_file
from demaq.soap.policy.policy_errors import PolicyProblems
from demaq.soap.policy.policy_names import (
    ADDRESSING_METADATA,
    POLICY_1_5,
    POLICY_NAMESPACES,
    RM_POLICY_1_1,
    is_operator,
    namespace_of,
)
from demaq.soap.policy.policy_writer import write_alternatives
from demaq.soap.policy.statement_policies import (
    RELIABLE_MESSAGING,
    ExtensionPolicy,
    combine_policies,
    read_extension,
)
from demaq.soap.policy.wsdl_policies import read_interface_policy
from demaq.soap.policy_attachments import PolicyBeside, PortPolicies, PublishedPolicy
from demaq.soap.qualified_names import clark
from demaq.xml_parsers import parse_characters

_BESIDE: Final = "policy"
_ADDRESSING: Final = f'<wsam:Addressing xmlns:wsam="{ADDRESSING_METADATA}"><wsp:Policy/></wsam:Addressing>'
_RELIABILITY: Final = (
    f'<wsrmp:RMAssertion xmlns:wsrmp="{RM_POLICY_1_1}"><wsp:Policy><wsrmp:DeliveryAssurance><wsp:Policy>'
    "<wsrmp:ExactlyOnce/><wsrmp:InOrder/></wsp:Policy></wsrmp:DeliveryAssurance></wsp:Policy></wsrmp:RMAssertion>"
)
"""`DEFAULT_RELIABILITY` as a policy says it."""


def collect_port_policies(
    extensions: Mapping[str, Path | None], interface: Path, port: str | None = None
) -> PortPolicies:
    """Return what a published WSDL has to say besides what it says itself, by `using` clauses with their files.

    Raises OSError, etree.XMLSyntaxError and ProgramError if the policies cannot be used.
    """
    attached: tuple[PublishedPolicy, ...] = ()
    if extensions:
        own = {name: read_extension(name, path) if path is not None else None for name, path in extensions.items()}
        attached = tuple(_list_missing(own, read_interface_policy(interface, port)))
    return PortPolicies(attached=attached, beside=tuple(_list_beside(interface)))


def _list_missing(
    extensions: Mapping[str, ExtensionPolicy | None], interface: GatewayPolicy | None
) -> Iterator[PublishedPolicy]:
    """Yield for each extension what the WSDL does not say of it."""
    policies = {name: own.policy if own is not None else None for name, own in extensions.items()}
    combined = combine_policies(policies, interface)
    theirs = interface or GatewayPolicy()
    for name, own in extensions.items():
        is_there = (theirs.reliability if name == RELIABLE_MESSAGING else theirs.security) is not None
        if own is not None:
            missing = _select_missing(own.alternative, theirs.addressing, is_there=is_there)
            if missing:
                content = write_alternatives([missing], own.version)
                yield PublishedPolicy(name=name, version=own.version, content=content)
        elif not is_there:
            is_unsaid = combined.addressing is not None and combined.addressing.is_implied
            yield _write_default(name, with_addressing=is_unsaid)


def _select_missing(assertions: Alternative, said: AddressingPolicy | None, *, is_there: bool) -> Alternative:
    """Return the assertions of a file without those that the WSDL has: of the extension, and of addressing."""
    missing: Alternative = ()
    for assertion in assertions:
        is_known = is_there
        if is_addressing(assertion):
            answers = read_addressing(assertion, PolicyProblems()).answers
            is_known = said is not None and not said.is_implied and answers in (AnswerAddresses.ANY, said.answers)
        missing += () if is_known else (assertion,)
    return missing


def _write_default(name: str, *, with_addressing: bool) -> PublishedPolicy:
    assertions = (_ADDRESSING if with_addressing else "") + _RELIABILITY
    content = f'<wsp:ExactlyOne xmlns:wsp="{POLICY_1_5}"><wsp:All>{assertions}</wsp:All></wsp:ExactlyOne>'
    return PublishedPolicy(name=name, version=POLICY_1_5, content=content)


def _list_beside(interface: Path) -> Iterator[PolicyBeside]:
    """Yield the policies in files of their own that a WSDL refers to, except those that cannot be read."""
    definitions = read_definitions(Path(os.path.abspath(interface)))
    for file in definitions.read:
        documents = PolicyDocuments()
        document = documents.add(file, definitions.files.root(file))
        for uri in dict.fromkeys(_list_references(document.root)):
            try:
                found = _resolve_beside(documents, document, uri)
            except ProgramError:
                continue  # if the gateway applied it, the program would not be valid
            if found is not None:
                yield PolicyBeside(file=file, uri=uri, policy=found)


def _list_references(root: etree._Element) -> Iterator[str]:
    for element in root.iter("*"):
        if is_operator(str(element.tag), "PolicyReference"):
            yield element.get("URI", "").strip()
        for namespace in POLICY_NAMESPACES:
            yield from element.get(clark(namespace, "PolicyURIs"), "").split()


def _resolve_beside(documents: PolicyDocuments, document: PolicyDocument, uri: str) -> PublishedPolicy | None:
    """Return the policy that a reference means; None if it is in the document itself, or on the network."""
    if not names_file(uri) or document.find(uri) is not None:
        return None
    other, policy = documents.resolve(document, uri, document.locate(document.root))
    version = namespace_of(str(policy.tag))
    content = write_alternatives(Normaliser(documents).normalise(other, policy), version)
    if not all([namespace_of(str(element.tag)) for element in parse_characters(content.encode()).iter("*")]):
        return None  # in the WSDL, names without a namespace would get its default one
    return PublishedPolicy(name=_BESIDE, version=version, content=content)
