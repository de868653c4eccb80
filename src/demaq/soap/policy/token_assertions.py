"""X509Token, UsernameToken and HttpsToken (WS-SecurityPolicy 1.2, section 5)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from demaq.soap.policy.assertions import Assertion
from demaq.soap.policy.policy_errors import PolicyProblems, name_as_written
from demaq.soap.policy.policy_names import SECURITY_POLICIES, SECURITY_POLICY_1_3
from demaq.soap.qualified_names import shorten
from demaq.soap.security.security_requirements import PasswordForm, TokenForm, UsernameRequirement

_INCLUDE: Final = "IncludeToken"
_TO_RECIPIENT: Final = {"Always": True, "AlwaysToRecipient": True, "AlwaysToInitiator": False, "Never": False}
_TO_INITIATOR: Final = {"Always": True, "AlwaysToRecipient": False, "AlwaysToInitiator": True, "Never": False}
_X509_VERSIONS: Final = ("WssX509V3Token10", "WssX509V3Token11")
_USERNAME_VERSIONS: Final = ("WssUsernameToken10", "WssUsernameToken11")
_REFERENCES: Final = {
    "RequireIssuerSerialReference": TokenForm.ISSUER_SERIAL,
    "RequireKeyIdentifierReference": TokenForm.SUBJECT_KEY_IDENTIFIER,
    "RequireThumbprintReference": TokenForm.THUMBPRINT,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class X509Usage:
    """A certificate, in which messages it is contained, and how it is named in others."""

    to_recipient: bool = True
    to_initiator: bool = True
    references: tuple[TokenForm, ...] = tuple(_REFERENCES.values())

    def forms(self, *, to_recipient: bool) -> tuple[TokenForm, ...]:
        """Return how the certificate may be named in requests, or in answers."""
        is_included = self.to_recipient if to_recipient else self.to_initiator
        return (TokenForm.BINARY_TOKEN, TokenForm.EMBEDDED) if is_included else self.references


def is_security(assertion: Assertion, *locals_: str) -> bool:
    """Return whether an assertion is one of WS-SecurityPolicy, with one of these names if there are any."""
    return assertion.namespace in SECURITY_POLICIES and (not locals_ or assertion.local in locals_)


def read_token(holder: Assertion, problems: PolicyProblems, *kinds: str) -> Assertion | None:
    """Return the one token of an assertion such as InitiatorToken, if it is of one of these kinds."""
    problems.refuse_parameters(holder)
    tokens = holder.nested or ()
    for token in tokens:
        if not is_security(token, *kinds):
            problems.refuse(token, f"supported here: {', '.join(kinds)}")
    if len(tokens) != 1:
        problems.add(f"{name_as_written(holder.element)} has {len(tokens)} tokens, not one", holder.at)
    fitting = [token for token in tokens if is_security(token, *kinds)]
    return fitting[0] if fitting else None


def read_x509_token(token: Assertion, problems: PolicyProblems) -> X509Usage:
    """Return how the certificate of an X509Token is used."""
    problems.refuse_parameters(token, _INCLUDE)
    include = _read_inclusion(token, problems)
    references: list[TokenForm] = []
    for nested in token.nested or ():
        problems.refuse_content(nested)
        if is_security(nested, *_REFERENCES):
            references.append(_REFERENCES[nested.local])
        elif not is_security(nested, *_X509_VERSIONS):
            problems.refuse(nested)
    if len(references) > 1:
        problems.add(f"{name_as_written(token.element)} requires several references at once", token.at)
    return X509Usage(
        to_recipient=_TO_RECIPIENT[include],
        to_initiator=_TO_INITIATOR[include],
        references=tuple(references[:1]) or tuple(_REFERENCES.values()),
    )


def read_username_token(token: Assertion, problems: PolicyProblems) -> UsernameRequirement:
    """Return what a UsernameToken asks for. The password is text unless it is to be hashed."""
    problems.refuse_parameters(token, _INCLUDE)
    if not _TO_RECIPIENT[_read_inclusion(token, problems)]:
        problems.add(
            f"{name_as_written(token.element)} must be in each request", token.at, "IncludeToken is AlwaysToRecipient"
        )
    asked: set[str] = set()
    for nested in token.nested or ():
        problems.refuse_content(nested)
        if is_security(nested, *_USERNAME_VERSIONS, "HashPassword") or _is_of_1_3(nested):
            asked.add(nested.local)
        elif is_security(nested, "NoPassword"):
            problems.refuse(nested, "a user without a password proves nothing; leave it out or write sp:HashPassword")
        else:
            problems.refuse(nested)
    is_digest = "HashPassword" in asked
    return UsernameRequirement(
        password=PasswordForm.DIGEST if is_digest else PasswordForm.TEXT,
        nonce=is_digest or "Nonce" in asked,
        created=is_digest or "Created" in asked,
    )


def read_https_token(token: Assertion, problems: PolicyProblems) -> None:
    """Add what an HttpsToken asks for besides HTTPS."""
    problems.refuse_parameters(token, "RequireClientCertificate", _INCLUDE)
    if token.attribute("RequireClientCertificate") not in (None, "false", "0"):
        problems.add("client certificates of HTTPS are not supported here", token.at)
    for nested in token.nested or ():
        problems.refuse(nested)


def _read_inclusion(token: Assertion, problems: PolicyProblems) -> str:
    """Return when a token is in the message. Without the attribute it always is (5.1.1)."""
    written = token.attribute(_INCLUDE)
    if written is None:
        return "Always"
    namespace, _, value = written.rpartition("/")
    if namespace.removesuffix(f"/{_INCLUDE}") not in SECURITY_POLICIES or value not in _TO_RECIPIENT:
        problems.add(
            f"IncludeToken {shorten(written)} is not supported", token.at, "Never, Always or AlwaysToRecipient"
        )
        return "Always"
    return value


def _is_of_1_3(assertion: Assertion) -> bool:
    return assertion.namespace == SECURITY_POLICY_1_3 and assertion.local in ("Nonce", "Created")
