"""Refusals of WS-Security with their fault codes (SOAP Message Security 1.1, section 12) and kinds of error message.

Texts name what was expected and never a password, a key or decrypted content.
"""

from __future__ import annotations

from typing import Final

from demaq.soap.addressing.addressing_versions import ADDRESSING_1_0
from demaq.soap.qualified_names import clark
from demaq.soap.refusals import CLIENT, ProtocolFault, SoapRefusal, refuse
from demaq.soap.security.wss_names import WSSE, WSU

UNDECIPHERABLE: Final = "the message could not be decrypted, or what was decrypted is not valid"
"""The one text for everything that can be wrong with ciphertext. A more precise one would help to decrypt."""


def invalid_security(message: str, kind: str = "refused") -> SoapRefusal:
    """Return the refusal of a header that is malformed or lacks something."""
    return _refuse(clark(WSSE, "InvalidSecurity"), kind, message)


def unsupported_token(message: str) -> SoapRefusal:
    return _refuse(clark(WSSE, "UnsupportedSecurityToken"), "refused", message)


def unsupported_algorithm(message: str) -> SoapRefusal:
    return _refuse(clark(WSSE, "UnsupportedAlgorithm"), "refused", message)


def invalid_token(message: str, kind: str = "invalidCertificate") -> SoapRefusal:
    return _refuse(clark(WSSE, "InvalidSecurityToken"), kind, message)


def unavailable_token(message: str, kind: str = "invalidSignature") -> SoapRefusal:
    """Return the refusal of a reference to a token that is not known here."""
    return _refuse(clark(WSSE, "SecurityTokenUnavailable"), kind, message)


def failed_authentication(message: str = "the user or the password is wrong") -> SoapRefusal:
    return _refuse(clark(WSSE, "FailedAuthentication"), "authentication", message)


def failed_check(message: str) -> SoapRefusal:
    return _refuse(clark(WSSE, "FailedCheck"), "invalidSignature", message)


def failed_decryption() -> SoapRefusal:
    return _refuse(clark(WSSE, "FailedCheck"), "decryptionFailure", UNDECIPHERABLE)


def expired_message(message: str) -> SoapRefusal:
    return _refuse(clark(WSU, "MessageExpired"), "refused", message)


def replayed_message() -> SoapRefusal:
    """Return the refusal of a message that was received before. The code is that of a message that is too old."""
    return expired_message("this message, or the nonce in it, was received before")


def _refuse(code: str, kind: str, message: str) -> SoapRefusal:
    """Return the refusal with a code of WS-Security: the faultcode of SOAP 1.1, a subcode in SOAP 1.2 (section 12).

    WS-Security has no action of its own, so it is the one that WS-Addressing has for other specifications (SOAP
    Binding 6).
    """
    fault = ProtocolFault(
        code=CLIENT,
        subcodes=(f"Q{code}",),
        reason=message,
        action=ADDRESSING_1_0.other_fault_action,
        code_of_1_1=f"Q{code}",
    )
    return refuse(fault, kind=kind)
