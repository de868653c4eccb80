"""Refusals of WS-Security with their fault codes (SOAP Message Security 1.1, section 12) and kinds of error message.

Texts name what was expected and never a password, a key or decrypted content.
"""

from __future__ import annotations

from typing import Final

from demaq.soap.refusals import CLIENT, SoapRefusal
from demaq.soap.security.wss_names import WSSE, WSU

UNDECIPHERABLE: Final = "the message could not be decrypted, or what was decrypted is not valid"
"""The one text for everything that can be wrong with ciphertext. A more precise one would help to decrypt."""


def invalid_security(message: str, kind: str = "refused") -> SoapRefusal:
    """Return the refusal of a header that is malformed or lacks something."""
    return _refuse("InvalidSecurity", kind, message)


def unsupported_token(message: str) -> SoapRefusal:
    return _refuse("UnsupportedSecurityToken", "refused", message)


def unsupported_algorithm(message: str) -> SoapRefusal:
    return _refuse("UnsupportedAlgorithm", "refused", message)


def invalid_token(message: str, kind: str = "invalidCertificate") -> SoapRefusal:
    return _refuse("InvalidSecurityToken", kind, message)


def unavailable_token(message: str, kind: str = "invalidSignature") -> SoapRefusal:
    """Return the refusal of a reference to a token that is not known here."""
    return _refuse("SecurityTokenUnavailable", kind, message)


def failed_authentication(message: str = "the user or the password is wrong") -> SoapRefusal:
    return _refuse("FailedAuthentication", "authentication", message)


def failed_check(message: str) -> SoapRefusal:
    return _refuse("FailedCheck", "invalidSignature", message)


def failed_decryption() -> SoapRefusal:
    return _refuse("FailedCheck", "decryptionFailure", UNDECIPHERABLE)


def expired_message(message: str) -> SoapRefusal:
    return SoapRefusal(CLIENT, message, kind="refused", subcodes=[f"Q{{{WSU}}}MessageExpired"])


def replayed_message() -> SoapRefusal:
    """Return the refusal of a message that was received before. The code is that of a message that is too old."""
    return expired_message("this message, or the nonce in it, was received before")


def _refuse(code: str, kind: str, message: str) -> SoapRefusal:
    return SoapRefusal(CLIENT, message, kind=kind, subcodes=[f"Q{{{WSSE}}}{code}"])
