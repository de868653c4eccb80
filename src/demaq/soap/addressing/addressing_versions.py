"""The two versions of WS-Addressing that are in use: 1.0 of 2005/08, and the member submission of 2004/08.

Sections are those of WS-Addressing 1.0 unless a comment says otherwise: Core, SOAP Binding, Metadata.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class AddressingVersion:
    """The names that one version of WS-Addressing uses."""

    namespace: str
    anonymous: str
    """The address of a sender that waits for the answer on its connection."""
    none: str | None
    """The address to which nothing is sent."""
    fault_action: str
    """The action of a fault of WS-Addressing itself (SOAP Binding 6)."""
    other_fault_action: str
    """The action of a fault of SOAP or of an application that has none of its own."""
    reply: str
    """The relationship of an answer: an IRI in 1.0 (Core 3.1), a QName in 2004/08 (3)."""
    marks_parameters: bool
    """Whether header blocks say that they are reference parameters (SOAP Binding 2.3)."""

    def tag(self, name: str) -> str:
        """Return a qualified name in the namespace of this version."""
        return f"{{{self.namespace}}}{name}"


ADDRESSING = "http://www.w3.org/2005/08/addressing"
_SUBMISSION = "http://schemas.xmlsoap.org/ws/2004/08/addressing"

ADDRESSING_1_0 = AddressingVersion(
    namespace=ADDRESSING,
    anonymous=f"{ADDRESSING}/anonymous",
    none=f"{ADDRESSING}/none",
    fault_action=f"{ADDRESSING}/fault",
    other_fault_action=f"{ADDRESSING}/soap/fault",
    reply=f"{ADDRESSING}/reply",
    marks_parameters=True,
)
ADDRESSING_2004 = AddressingVersion(
    namespace=_SUBMISSION,
    anonymous=f"{_SUBMISSION}/role/anonymous",
    none=None,
    fault_action=f"{_SUBMISSION}/fault",
    other_fault_action=f"{_SUBMISSION}/fault",
    reply=f"{{{_SUBMISSION}}}Reply",
    marks_parameters=False,
)
ADDRESSING_VERSIONS = {version.namespace: version for version in (ADDRESSING_1_0, ADDRESSING_2004)}

ANONYMOUS = ADDRESSING_1_0.anonymous
TEXT_BLOCKS = ("MessageID", "To", "Action")
ENDPOINT_BLOCKS = ("From", "ReplyTo", "FaultTo")
RELATES_TO = "RelatesTo"

ADDRESSING_HEADERS = frozenset(
    [
        version.tag(name)
        for version in ADDRESSING_VERSIONS.values()
        for name in (*TEXT_BLOCKS, *ENDPOINT_BLOCKS, RELATES_TO)
    ]
)
"""The header blocks of both versions."""
