"""Refused envelopes, with the fault codes of SOAP and of the protocols in its header."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from demaq.errors import MessageError

CLIENT = "Client"
SERVER = "Server"
VERSION_MISMATCH = "VersionMismatch"
MUST_UNDERSTAND = "MustUnderstand"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtocolFault:
    """A fault that a protocol in the header defines, for either version of SOAP.

    The protocols are WS-Addressing, WS-ReliableMessaging and WS-Security.
    """

    code: str
    """Client or Server."""
    subcodes: Sequence[str]
    """The most general one first, each as `Q{namespace}name`. SOAP 1.1 has none."""
    reason: str
    action: str
    """The action of WS-Addressing for a message with this fault."""
    detail: str | None = None
    """Elements of the detail in SOAP 1.2. SOAP 1.1 allows no detail about a header (4.4)."""
    code_of_1_1: str
    """The code in SOAP 1.1."""
    blocks_of_1_1: Sequence[str] = ()
    """Header blocks that have the detail in SOAP 1.1."""


class SoapRefusal(MessageError):
    """Raised for an envelope that is invalid or has header blocks that are not understood."""

    def __init__(
        self,
        fault: str,
        message: str,
        *,
        version: str | None = None,
        not_understood: Sequence[str] = (),
        kind: str = "schemaViolation",
        protocol: ProtocolFault | None = None,
    ) -> None:
        super().__init__(kind, message)
        self.fault = fault
        """The code of the fault that answers it."""
        self.version = version
        """The version of SOAP of the envelope; None if it is unknown."""
        self.not_understood = tuple(not_understood)
        """Names of mandatory header blocks that are not understood."""
        self.protocol = protocol
        """The fault, if a protocol in the header defines it."""

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:  # type: ignore[override]  # it has other arguments
        return _refusal, (self.fault, self.message, self.version, self.not_understood, self.kind, self.protocol)


def refuse(fault: ProtocolFault, version: str | None = None, *, kind: str = "schemaViolation") -> SoapRefusal:
    """Return the error for an envelope that a protocol in its header refuses; `kind` is that of the error message."""
    return SoapRefusal(fault.code, fault.reason, version=version, kind=kind, protocol=fault)


def _refusal(
    fault: str,
    message: str,
    version: str | None,
    not_understood: Sequence[str],
    kind: str,
    protocol: ProtocolFault | None,
) -> SoapRefusal:
    return SoapRefusal(fault, message, version=version, not_understood=not_understood, kind=kind, protocol=protocol)
