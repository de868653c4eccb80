"""WS-Security 1.0 and 1.1 without any I/O: `secure` adds a security header to an envelope, `verify` checks one.

Keys, clock, randomness and the replay cache are arguments. Importing this package loads neither xmlsec nor
cryptography, which are only needed by nodes with such a policy.
"""

from demaq.soap.security.algorithm_suite import AlgorithmSuite
from demaq.soap.security.own_key import OwnKey, read_own_key
from demaq.soap.security.secure_envelope import ProtectedEnvelope, Protection, secure
from demaq.soap.security.security_requirements import (
    ElementPath,
    ExchangeRequirements,
    MessageParts,
    PasswordForm,
    ProtectionOrder,
    SecurityRequirements,
    TokenForm,
    UsernameRequirement,
)
from demaq.soap.security.trust_store import TrustStore
from demaq.soap.security.username_tokens import UserCredential, UserDirectory, UserPasswords
from demaq.soap.security.verification_settings import ReplayCache, SecurityLimits, VerificationSettings
from demaq.soap.security.verify_envelope import SenderIdentity, Verification, VerifiedEnvelope, verify

__all__ = [
    "AlgorithmSuite",
    "ElementPath",
    "ExchangeRequirements",
    "MessageParts",
    "OwnKey",
    "PasswordForm",
    "ProtectedEnvelope",
    "Protection",
    "ProtectionOrder",
    "ReplayCache",
    "SecurityLimits",
    "SecurityRequirements",
    "SenderIdentity",
    "TokenForm",
    "TrustStore",
    "UserCredential",
    "UserDirectory",
    "UserPasswords",
    "UsernameRequirement",
    "Verification",
    "VerificationSettings",
    "VerifiedEnvelope",
    "read_own_key",
    "secure",
    "verify",
]
