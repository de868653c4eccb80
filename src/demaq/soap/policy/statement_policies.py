"""The policy of a gateway: from the files that its `using` clauses name, and from its WSDL."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from demaq.errors import ProgramError
from demaq.soap.policy.assertions import Alternative
from demaq.soap.policy.gateway_policy import DEFAULT_RELIABILITY, AddressingPolicy, GatewayPolicy, merge_addressing
from demaq.soap.policy.normal_form import Normaliser
from demaq.soap.policy.policy_choice import choose_alternative
from demaq.soap.policy.policy_documents import PolicyDocument, PolicyDocuments
from demaq.soap.policy.policy_errors import WRONG_KIND, name_as_written
from demaq.soap.policy.policy_names import namespace_of
from demaq.soap.security.security_requirements import ExchangeRequirements

RELIABLE_MESSAGING: Final = "WS-ReliableMessaging"
SECURITY: Final = "WS-Security"
WITHOUT_POLICY: Final = "DQ0511"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtensionPolicy:
    """The policy in the file of a `using` clause."""

    policy: GatewayPolicy
    alternative: Alternative
    """The assertions that demand it: those of the first alternative that is implemented."""
    version: str
    """The namespace of WS-Policy."""


def read_policy_text(data: bytes, path: Path = Path("policy.xml")) -> GatewayPolicy:
    """Return what a policy demands, from its text. Raises etree.XMLSyntaxError and ProgramError."""
    documents = PolicyDocuments()
    return _read(documents, documents.add_content(path, data))[0]


def read_extension_policy(extension: str, path: Path) -> GatewayPolicy:
    """Return what the file of a `using` clause demands, which speaks of that extension and of addressing alone.

    Raises OSError, etree.XMLSyntaxError and ProgramError.
    """
    return read_extension(extension, path).policy


def read_extension(extension: str, path: Path) -> ExtensionPolicy:
    """Return the policy in the file of a `using` clause. Raises what `read_extension_policy` raises."""
    documents = PolicyDocuments()
    document = documents.read(path)
    policy, alternative = _read(documents, document)
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
    return ExtensionPolicy(policy=policy, alternative=alternative, version=namespace_of(str(document.root.tag)))


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
    chosen = {extension: _choose(extension, own, interface) for extension, own in extensions.items()}
    return GatewayPolicy(
        reliability=chosen[RELIABLE_MESSAGING].reliability if RELIABLE_MESSAGING in chosen else None,
        security=chosen[SECURITY].security if SECURITY in chosen else None,
        addressing=_combine_addressing(chosen, interface),
    )


def _choose(extension: str, own: GatewayPolicy | None, interface: GatewayPolicy | None) -> GatewayPolicy:
    theirs = interface if interface is not None and select_extension(interface, extension) is not None else None
    if own is not None and interface is not None and not _agrees(extension, own, interface):
        raise ProgramError(
            f"the policy of {extension} is not that of the interface",
            hint="leave out the file: the policy of the interface is used then",
            code=WRONG_KIND,
        )
    if own is not None or theirs is not None:
        return own or theirs or GatewayPolicy()
    if extension == RELIABLE_MESSAGING:
        addressing = AddressingPolicy(version=DEFAULT_RELIABILITY.version.addressing, is_implied=True)
        return GatewayPolicy(reliability=DEFAULT_RELIABILITY, addressing=addressing)
    raise ProgramError(
        "WS-Security needs a policy, which says what is signed and encrypted",
        hint=f"using {SECURITY} policy wssecpol.xml, or a WSDL with a policy",
        code=WITHOUT_POLICY,
    )


def _agrees(extension: str, own: GatewayPolicy, interface: GatewayPolicy) -> bool:
    """Return whether a file says of an extension what the WSDL says, which may be nothing.

    Assertions of WS-Security that protect nothing count, too: in the published WSDL both policies hold together.
    """
    if extension == RELIABLE_MESSAGING:
        return interface.reliability in (None, own.reliability)
    return interface.security in (None, own.security)


def _combine_addressing(
    chosen: Mapping[str, GatewayPolicy], interface: GatewayPolicy | None
) -> AddressingPolicy | None:
    """Return what all policies say of addressing. What reliable messaging implies is used if they say nothing."""
    found = interface.addressing if interface is not None else None
    found = None if found is None or found.is_implied else found
    for extension, policy in chosen.items():
        if policy.addressing is None or policy.addressing.is_implied:
            continue
        try:
            found = merge_addressing(found, policy.addressing)
        except ValueError as error:
            raise ProgramError(
                f"the policy of {extension} {error} than another policy of the gateway", code=WRONG_KIND
            ) from None
    reliable = chosen.get(RELIABLE_MESSAGING)
    return found or (reliable.addressing if reliable is not None else None)


def _read(documents: PolicyDocuments, document: PolicyDocument) -> tuple[GatewayPolicy, Alternative]:
    alternatives = Normaliser(documents).normalise(document, document.root)
    return choose_alternative(alternatives, document.locate(document.root))
