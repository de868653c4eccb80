"""AsymmetricBinding and TransportBinding (WS-SecurityPolicy 1.2, section 7), and the options Wss10 and Wss11 (8)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from demaq.soap.policy.assertions import Assertion
from demaq.soap.policy.policy_errors import PolicyProblems, name_as_written
from demaq.soap.policy.policy_suites import read_suite
from demaq.soap.policy.token_assertions import (
    X509Usage,
    is_security,
    read_https_token,
    read_token,
    read_x509_token,
)
from demaq.soap.security.algorithm_suite import AlgorithmSuite
from demaq.soap.security.security_requirements import ProtectionOrder

TRANSPORT: Final = "TransportBinding"
ASYMMETRIC: Final = "AsymmetricBinding"
_TOKENS: Final = {
    "InitiatorToken": ("initiator_signs", "initiator_decrypts"),
    "InitiatorSignatureToken": ("initiator_signs",),
    "InitiatorEncryptionToken": ("initiator_decrypts",),
    "RecipientToken": ("recipient_signs", "recipient_decrypts"),
    "RecipientSignatureToken": ("recipient_signs",),
    "RecipientEncryptionToken": ("recipient_decrypts",),
}
_SUPPORTED_REFERENCES: Final = (
    "MustSupportRefKeyIdentifier",
    "MustSupportRefIssuerSerial",
    "MustSupportRefThumbprint",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SecurityBinding:
    """How messages are protected. Without a binding assertion: X.509 in any form, and sound algorithms."""

    kind: str | None = None
    suite: AlgorithmSuite = field(default_factory=AlgorithmSuite)
    timestamp: bool = False
    order: ProtectionOrder = ProtectionOrder.SIGN_BEFORE_ENCRYPT
    is_entire: bool = False
    """Only whole headers and the whole Body are signed."""
    tokens: dict[str, X509Usage] = field(default_factory=dict)


def read_binding(assertion: Assertion, problems: PolicyProblems) -> SecurityBinding:
    """Return what a binding assertion says."""
    problems.refuse_parameters(assertion)
    is_transport = assertion.local == TRANSPORT
    suite: AlgorithmSuite | None = None
    flags: set[str] = set()
    tokens: dict[str, X509Usage] = {}
    has_transport_token = False
    for nested in assertion.nested or ():
        if is_security(nested, "AlgorithmSuite"):
            suite = read_suite(nested, problems)
        elif is_security(nested, "Layout"):
            _check_layout(nested, problems)
        elif is_security(nested, "IncludeTimestamp"):
            problems.refuse_content(nested)
            flags.add(nested.local)
        elif is_transport and is_security(nested, "TransportToken"):
            has_transport_token = True
            token = read_token(nested, problems, "HttpsToken")
            if token is not None:
                read_https_token(token, problems)
        elif not is_transport and is_security(nested, *_TOKENS):
            _add_token(nested, tokens, problems)
        elif not is_transport and is_security(nested, "EncryptBeforeSigning", "OnlySignEntireHeadersAndBody"):
            problems.refuse_content(nested)
            flags.add(nested.local)
        else:
            problems.refuse(nested)
    for missing in _find_missing(is_transport, suite, has_transport_token, tokens):
        problems.add(f"{name_as_written(assertion.element)} has no {missing}", assertion.at)
    return SecurityBinding(
        kind=assertion.local,
        suite=suite or AlgorithmSuite(),
        timestamp="IncludeTimestamp" in flags,
        order=(
            ProtectionOrder.ENCRYPT_BEFORE_SIGN
            if "EncryptBeforeSigning" in flags
            else ProtectionOrder.SIGN_BEFORE_ENCRYPT
        ),
        is_entire="OnlySignEntireHeadersAndBody" in flags,
        tokens=tokens,
    )


def reads_confirmation(assertion: Assertion, problems: PolicyProblems) -> bool:
    """Return whether Wss10 or Wss11 asks for signature confirmation; what is not supported of it becomes a problem."""
    problems.refuse_parameters(assertion)
    is_asked = False
    for nested in assertion.nested or ():
        problems.refuse_content(nested)
        if assertion.local == "Wss11" and is_security(nested, "RequireSignatureConfirmation"):
            is_asked = True
        elif not is_security(nested, *_SUPPORTED_REFERENCES):
            problems.refuse(nested)
    return is_asked


def _add_token(holder: Assertion, tokens: dict[str, X509Usage], problems: PolicyProblems) -> None:
    token = read_token(holder, problems, "X509Token")
    usage = read_x509_token(token, problems) if token is not None else X509Usage()
    for use in _TOKENS[holder.local]:
        if use in tokens:
            problems.add(f"{name_as_written(holder.element)} gives a token that was given before", holder.at)
        tokens[use] = usage


def _check_layout(assertion: Assertion, problems: PolicyProblems) -> None:
    problems.refuse_parameters(assertion)
    for nested in assertion.nested or ():
        problems.refuse_content(nested)
        if not is_security(nested, "Strict", "Lax"):
            problems.refuse(nested, "supported are Strict and Lax")


def _find_missing(
    is_transport: bool, suite: AlgorithmSuite | None, has_transport_token: bool, tokens: dict[str, X509Usage]
) -> list[str]:
    missing = [] if suite is not None else ["AlgorithmSuite"]
    if is_transport:
        return [*missing, *([] if has_transport_token else ["TransportToken"])]
    sides = {"initiator": "InitiatorToken", "recipient": "RecipientToken"}
    return [*missing, *[name for side, name in sides.items() if f"{side}_signs" not in tokens]]
