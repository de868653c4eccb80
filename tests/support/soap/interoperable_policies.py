"""Policies that other people's tools can fulfil, and certificates that they accept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.support.soap.policies import WSA, asymmetric, nested, policy, suite, user, x509
from tests.support.soap.raw_reliability import WSRM
from tests.support.soap.security_parties import make_certificate

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

LONG: Final = (-10, 36500)


def bind(algorithms: str = "Basic256Sha256", recipient: str = "AlwaysToInitiator") -> str:
    """Return a binding whose answers hold the certificate of the service, unless it is said otherwise."""
    content = ("<sp:IncludeTimestamp/>", "<sp:OnlySignEntireHeadersAndBody/>")
    return asymmetric(suite(f"sp:{algorithms}"), *content, recipient=x509(recipient))


def sign_parts(*namespaces: str) -> str:
    """Return that the body is signed, and the headers of some namespaces."""
    headers = [f'<sp:Header Namespace="{namespace}"/>' for namespace in namespaces]
    return f"<sp:SignedParts><sp:Body/>{''.join(headers)}</sp:SignedParts>"


_BODY: Final = "<sp:EncryptedParts><sp:Body/></sp:EncryptedParts>"
SIGNED_BODY_AND_TIME: Final = policy(bind() + sign_parts())
SIGNED_NEVER_INCLUDED: Final = policy(bind(recipient="Never") + sign_parts(WSA))
SIGNED_ADDRESSED: Final = policy(bind() + sign_parts(WSA))
SIGNED_RELIABLE: Final = policy(bind() + sign_parts(WSA, WSRM["1.1"]))
ENCRYPTED_RSA_1_5: Final = policy(bind("Basic256Sha256Rsa15") + sign_parts(WSA) + _BODY)
"""gSOAP encrypts keys with RSA 1.5 alone, and data with AES-CBC or AES-GCM; no suite has RSA 1.5 and AES-GCM."""
ENCRYPTED_INCLUDED: Final = policy(bind("Basic256Sha256Rsa15", "Always") + sign_parts(WSA) + _BODY)
"""The certificate of the service is in requests as well."""
USER_DIGEST: Final = policy(nested("sp:SupportingTokens", user("<sp:WssUsernameToken10/>", "<sp:HashPassword/>")))
USER_TEXT: Final = policy(nested("sp:SupportingTokens", user("<sp:WssUsernameToken10/>")))


def make_certificates() -> dict[str, Certificate]:
    """Return certificates for all parties. OpenSSL trusts them by themselves only if they may issue others."""
    return {name: make_certificate(name, days=LONG, ca=True) for name in ("client", "service", "stranger")}
