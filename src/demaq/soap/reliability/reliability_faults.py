"""The faults of WS-ReliableMessaging (4, and 4 of 1.0), written and read in both versions of SOAP.

SOAP 1.1 has the subcode and the detail in the header block SequenceFault; only faults about a message that creates a
sequence, or that should be in one, have the subcode in the Body (4.1).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from lxml import etree

from demaq.soap.envelope import Header
from demaq.soap.faults import Fault
from demaq.soap.qualified_names import local_name, resolve_name
from demaq.soap.refusals import CLIENT, SERVER, ProtocolFault
from demaq.soap.reliability.number_ranges import NO_NUMBERS, NumberRanges
from demaq.soap.reliability.reliability_versions import (
    BY_NAMESPACE,
    FAULT_ACTION,
    MESSAGE_NUMBER_MAX,
    SEQUENCE_FAULT,
    ReliabilityVersion,
    find_version,
)
from demaq.soap.reliability.sequence_headers import Acknowledgement, write_acknowledgement
from demaq.xml_escaping import escape
from demaq.xml_parsers import parse_characters

DETAIL_CHARACTERS_MAX = 100_000


class FaultName(StrEnum):
    """What went wrong with a sequence."""

    UNKNOWN_SEQUENCE = "UnknownSequence"
    SEQUENCE_TERMINATED = "SequenceTerminated"
    SEQUENCE_CLOSED = "SequenceClosed"
    MESSAGE_NUMBER_ROLLOVER = "MessageNumberRollover"
    INVALID_ACKNOWLEDGEMENT = "InvalidAcknowledgement"
    CREATE_SEQUENCE_REFUSED = "CreateSequenceRefused"
    WSRM_REQUIRED = "WSRMRequired"
    LAST_MESSAGE_NUMBER_EXCEEDED = "LastMessageNumberExceeded"


_REASONS = {
    FaultName.UNKNOWN_SEQUENCE: "the sequence is not known here",
    FaultName.SEQUENCE_TERMINATED: "the sequence has been terminated",
    FaultName.SEQUENCE_CLOSED: "the sequence is closed and accepts no new messages",
    FaultName.MESSAGE_NUMBER_ROLLOVER: f"message numbers end at {MESSAGE_NUMBER_MAX}",
    FaultName.INVALID_ACKNOWLEDGEMENT: "a message is acknowledged that was never sent",
    FaultName.CREATE_SEQUENCE_REFUSED: "the sequence is not created",
    FaultName.WSRM_REQUIRED: "messages have to be in a sequence of WS-ReliableMessaging",
    FaultName.LAST_MESSAGE_NUMBER_EXCEEDED: "the message number is higher than that of the last message",
}
_IN_BODY = (FaultName.CREATE_SEQUENCE_REFUSED, FaultName.WSRM_REQUIRED)
_NOT_IN_1_0 = {FaultName.SEQUENCE_CLOSED: FaultName.SEQUENCE_TERMINATED}
"""1.0 does not close sequences, so what is closed is terminated."""
_NAMES = frozenset(FaultName)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReliabilityFault:
    """A fault about one sequence."""

    version: ReliabilityVersion
    name: FaultName
    identifier: str | None = None
    """The sequence; None if the fault does not say."""
    ranges: NumberRanges = NO_NUMBERS
    """The acknowledged numbers that were never sent, for an invalid acknowledgement."""
    reason: str = ""
    """A text for people, in place of the usual one."""
    is_from_receiver: bool = False
    """Whether the receiver is the cause, as when it refuses a sequence because it has too many."""


def make_protocol_fault(fault: ReliabilityFault) -> ProtocolFault:
    """Return the fault in the form for envelopes."""
    version = fault.version
    name = _NOT_IN_1_0.get(fault.name, fault.name) if not version.has_close else fault.name
    subcode = f"Q{version.tag(name)}"
    detail = _write_detail(fault)
    code = SERVER if fault.is_from_receiver else CLIENT
    is_in_body = name in _IN_BODY
    wrapped = f"<wsrm:Detail>{detail}</wsrm:Detail>" if version.wraps_detail and detail else detail
    block = (
        f'<wsrm:{SEQUENCE_FAULT} xmlns:wsrm="{version.namespace}"><wsrm:FaultCode>wsrm:{name}</wsrm:FaultCode>'
        f"{wrapped}</wsrm:{SEQUENCE_FAULT}>"
    )
    return ProtocolFault(
        code=code,
        subcodes=(subcode,),
        reason=fault.reason or _REASONS[name],
        action=version.action(FAULT_ACTION),
        detail=detail or None,
        code_of_1_1=subcode if is_in_body else code,
        blocks_of_1_1=() if is_in_body else (block,),
    )


def read_reliability_fault(fault: Fault, headers: Iterable[Header]) -> ReliabilityFault | None:
    """Return a fault as one of WS-ReliableMessaging; None if it is any other.

    gSOAP has the subcode in both places of SOAP 1.1, and no identifier in either.
    """
    for header in headers:
        version = find_version(header.name)
        if version is not None and local_name(header.name) == SEQUENCE_FAULT:
            element = parse_characters(header.text.encode())
            code = element.find(version.tag("FaultCode"))
            name = local_name(resolve_name(code, code.text or "")) if code is not None else ""
            found = _make_read(version, name, element, fault)
            if found is not None:
                return found
    for code_text in reversed([fault.code, *fault.subcodes]):
        namespace, _, name = code_text.removeprefix("Q{").rpartition("}")
        if namespace in BY_NAMESPACE:
            return _make_read(BY_NAMESPACE[namespace], name, _parse_detail(fault.detail), fault)
    return None


def _make_read(
    version: ReliabilityVersion, name: str, detail: etree._Element | None, fault: Fault
) -> ReliabilityFault | None:
    if name not in _NAMES:
        return None
    identifier = next(detail.iter(version.tag("Identifier")), None) if detail is not None else None
    return ReliabilityFault(
        version=version,
        name=FaultName(name),
        identifier=((identifier.text or "").strip() or None) if identifier is not None else None,
        reason=fault.reason,
        is_from_receiver=fault.code == SERVER,
    )


def _parse_detail(detail: str | None) -> etree._Element | None:
    if not detail or len(detail) > DETAIL_CHARACTERS_MAX:
        return None
    return parse_characters(f"<detail>{detail}</detail>".encode())


def _write_detail(fault: ReliabilityFault) -> str:
    """Return the detail: the identifier and more, an acknowledgement, or nothing (4.2 to 4.9)."""
    version = fault.version
    if fault.identifier is None or fault.name in _IN_BODY:
        return ""
    if fault.name == FaultName.INVALID_ACKNOWLEDGEMENT:
        return write_acknowledgement(Acknowledgement(version=version, identifier=fault.identifier, ranges=fault.ranges))
    declared = f'xmlns:wsrm="{version.namespace}"'
    detail = f"<wsrm:Identifier {declared}>{escape(fault.identifier)}</wsrm:Identifier>"
    if fault.name == FaultName.MESSAGE_NUMBER_ROLLOVER and version.has_close:
        detail += f"<wsrm:MaxMessageNumber {declared}>{MESSAGE_NUMBER_MAX}</wsrm:MaxMessageNumber>"
    return detail
