"""The versions of WS-ReliableMessaging: 1.1 and 1.2, which share a namespace, and 1.0 of February 2005.

Sections are those of WS-ReliableMessaging 1.2 unless a comment says otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from demaq.soap.addressing.addressing_versions import ADDRESSING_1_0, ADDRESSING_2004, AddressingVersion

MESSAGE_NUMBER_MAX: Final = 2**63 - 1
"""The last message number of a sequence (3.7). 1.0 allows more, which other implementations do not accept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReliabilityVersion:
    """What is different in one version."""

    name: str
    namespace: str
    addressing: AddressingVersion
    """The version of WS-Addressing that it was written for."""
    has_close: bool
    """Whether a sequence is closed before it is terminated, and both are answered. 1.0 marks its last message."""
    wraps_detail: bool
    """Whether SequenceFault has the detail in an element of its own."""

    def tag(self, name: str) -> str:
        """Return a qualified name in the namespace of this version."""
        return f"{{{self.namespace}}}{name}"

    def action(self, name: str) -> str:
        """Return the action of a protocol message, which is named like its element (3.1), or of a `fault` (4)."""
        return f"{self.namespace}/{name}"


RELIABILITY_1_0 = ReliabilityVersion(
    name="1.0",
    namespace="http://schemas.xmlsoap.org/ws/2005/02/rm",
    addressing=ADDRESSING_2004,
    has_close=False,
    wraps_detail=False,
)
RELIABILITY_1_1 = ReliabilityVersion(
    name="1.1",
    namespace="http://docs.oasis-open.org/ws-rx/wsrm/200702",
    addressing=ADDRESSING_1_0,
    has_close=True,
    wraps_detail=True,
)
RELIABILITY_VERSIONS = {version.name: version for version in (RELIABILITY_1_0, RELIABILITY_1_1)}
BY_NAMESPACE = {version.namespace: version for version in RELIABILITY_VERSIONS.values()}

SEQUENCE = "Sequence"
ACK_REQUESTED = "AckRequested"
ACKNOWLEDGEMENT = "SequenceAcknowledgement"
SEQUENCE_FAULT = "SequenceFault"
LAST_MESSAGE = "LastMessage"
FAULT_ACTION = "fault"

RELIABILITY_HEADERS = frozenset(
    [
        version.tag(name)
        for version in RELIABILITY_VERSIONS.values()
        for name in (SEQUENCE, ACK_REQUESTED, ACKNOWLEDGEMENT, SEQUENCE_FAULT)
    ]
)
"""The header blocks of all versions, for a gateway that understands them."""


def find_version(name: str | None) -> ReliabilityVersion | None:
    """Return the version of a qualified name; None if it is not one of WS-ReliableMessaging."""
    return BY_NAMESPACE.get((name or "")[1:].partition("}")[0])
