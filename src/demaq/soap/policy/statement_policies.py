"""The policy of a gateway: from the files that its `using` clauses name, and from its WSDL."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from demaq.errors import ProgramError
from demaq.soap.policy.gateway_policy import DEFAULT_RELIABILITY, AddressingPolicy, GatewayPolicy
from demaq.soap.policy.normal_form import Normaliser
from demaq.soap.policy.policy_choice import choose_policy
from demaq.soap.policy.policy_documents import PolicyDocument, PolicyDocuments
from demaq.soap.policy.policy_errors import WRONG_KIND, name_as_written
from demaq.soap.security.security_requirements import ExchangeRequirements

RELIABLE_MESSAGING: Final = "WS-ReliableMessaging"
SECURITY: Final = "WS-Security"
WITHOUT_POLICY: Final = "DQ0511"


def read_policy_text(data: bytes, path: Path = Path("policy.xml")) -> GatewayPolicy:
    """Return what a policy demands, from its text. Raises etree.XMLSyntaxError and ProgramError."""
    documents = PolicyDocuments()
    return _read(documents, documents.add_content(path, data))


def read_extension_policy(extension: str, path: Path) -> GatewayPolicy:
    """Return what the file of a `using` clause demands, which speaks of that extension and of addressing alone.

    Raises OSError, etree.XMLSyntaxError and ProgramError.
    """
    documents = PolicyDocuments()
    document = documents.read(path)
    policy = _read(documents, document)
    other = SECURITY if extension == RELIABLE_MESSAGING else RELIABLE_MESSAGING
    at = document.locate(document.root)
    if select_extension(policy, other) is not None:
        raise ProgramError(
            f"the policy of {extension} has assertions of {other}",
            at,
            f"put them into a file of their own: using {other} policy FILE",
            WRONG_KIND,
        )
    if select_extension(policy, extension) is None:
        raise ProgramError(
            f"{name_as_written(document.root)} asks for nothing of {extension}",
            at,
            "it has an RMAssertion"
            if extension == RELIABLE_MESSAGING
            else "it has a binding or SignedParts, for example",
            WRONG_KIND,
        )
    return policy


def select_extension(policy: GatewayPolicy, extension: str) -> object | None:
    """Return what a policy demands of an extension; None if nothing."""
    if extension == RELIABLE_MESSAGING:
        return policy.reliability
    return policy.security if policy.security is not None and is_protected(policy.security) else None


def is_protected(exchange: ExchangeRequirements) -> bool:
    """Return whether a policy protects anything."""
    return any([side.needs_header or side.https for side in (exchange.request, exchange.answer)])


def combine_policies(extensions: Mapping[str, GatewayPolicy | None], interface: GatewayPolicy | None) -> GatewayPolicy:
    """Return the policy of a gateway: that of its `using` clauses, and that of its WSDL where a clause has no file.

    An extension of the WSDL without a `using` clause is not part of it. Raises ProgramError if two policies disagree,
    and if WS-Security has none.
    """
    found = GatewayPolicy()
    for extension, own in extensions.items():
        chosen = _choose(extension, own, interface)
        if extension == RELIABLE_MESSAGING:
            found = replace(found, reliability=chosen.reliability)
        else:
            found = replace(found, security=chosen.security)
        found = replace(found, addressing=found.addressing or chosen.addressing)
    if interface is not None and interface.addressing is not None:
        found = replace(found, addressing=interface.addressing)
    return found


def _choose(extension: str, own: GatewayPolicy | None, interface: GatewayPolicy | None) -> GatewayPolicy:
    theirs = interface if interface is not None and select_extension(interface, extension) is not None else None
    if (
        own is not None
        and theirs is not None
        and select_extension(own, extension) != select_extension(theirs, extension)
    ):
        raise ProgramError(
            f"the policy of {extension} is not that of the interface",
            hint="leave out the file: the policy of the interface is used then",
            code=WRONG_KIND,
        )
    if own is not None or theirs is not None:
        return own or theirs or GatewayPolicy()
    if extension == RELIABLE_MESSAGING:
        version = DEFAULT_RELIABILITY.version.addressing
        return GatewayPolicy(reliability=DEFAULT_RELIABILITY, addressing=AddressingPolicy(version=version))
    raise ProgramError(
        "WS-Security needs a policy, which says what is signed and encrypted",
        hint=f"using {SECURITY} policy wssecpol.xml, or a WSDL with a policy",
        code=WITHOUT_POLICY,
    )


def _read(documents: PolicyDocuments, document: PolicyDocument) -> GatewayPolicy:
    alternatives = Normaliser(documents).normalise(document, document.root)
    return choose_policy(alternatives, document.locate(document.root))
