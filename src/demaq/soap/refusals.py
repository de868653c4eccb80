"""Refused envelopes, with the fault codes of SOAP."""

from __future__ import annotations

from collections.abc import Sequence

from demaq.errors import MessageError

CLIENT = "Client"
SERVER = "Server"
VERSION_MISMATCH = "VersionMismatch"
MUST_UNDERSTAND = "MustUnderstand"


class SoapRefusal(MessageError):
    """Raised for an envelope that is invalid or has header blocks that are not understood."""

    def __init__(
        self, fault: str, message: str, *, version: str | None = None, not_understood: Sequence[str] = ()
    ) -> None:
        super().__init__("schemaViolation", message)
        self.fault = fault
        """The code of the fault that answers it."""
        self.version = version
        """The version of SOAP of the envelope; None if it is unknown."""
        self.not_understood = tuple(not_understood)
        """Names of mandatory header blocks that are not understood."""

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:  # type: ignore[override]  # it has other arguments
        return _refusal, (self.fault, self.message, self.version, self.not_understood)


def _refusal(fault: str, message: str, version: str | None, not_understood: Sequence[str]) -> SoapRefusal:
    return SoapRefusal(fault, message, version=version, not_understood=not_understood)
