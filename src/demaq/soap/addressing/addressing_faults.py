"""The faults of WS-Addressing: SOAP Binding 6.4, and section 4 of the submission of 2004/08, which has fewer.

In SOAP 1.1 the code of the fault is the most specific subcode, and the detail is in the header block `FaultDetail`.
"""

from __future__ import annotations

from typing import Final

from demaq.soap.addressing.addressing_versions import ADDRESSING_2004, AddressingVersion
from demaq.soap.qualified_names import clark, shorten
from demaq.soap.refusals import CLIENT, SERVER, ProtocolFault
from demaq.xml_escaping import escape, quoteattr

INVALID_HEADER: Final = "InvalidAddressingHeader"
HEADER_REQUIRED: Final = "MessageAddressingHeaderRequired"
DESTINATION_UNREACHABLE: Final = "DestinationUnreachable"
ACTION_NOT_SUPPORTED: Final = "ActionNotSupported"
ENDPOINT_UNAVAILABLE: Final = "EndpointUnavailable"

INVALID_ADDRESS: Final = "InvalidAddress"
INVALID_EPR: Final = "InvalidEPR"
INVALID_CARDINALITY: Final = "InvalidCardinality"
MISSING_ADDRESS: Final = "MissingAddressInEPR"
DUPLICATE_MESSAGE_ID: Final = "DuplicateMessageID"
ACTION_MISMATCH: Final = "ActionMismatch"
ONLY_ANONYMOUS: Final = "OnlyAnonymousAddressSupported"
ONLY_NON_ANONYMOUS: Final = "OnlyNonAnonymousAddressSupported"

_NAMES_OF_2004 = {
    INVALID_HEADER: "InvalidMessageInformationHeader",
    HEADER_REQUIRED: "MessageInformationHeaderRequired",
}


def make_invalid_header(version: AddressingVersion, header: str, problem: str | None, reason: str) -> ProtocolFault:
    """Return the fault for a header block that is not valid; `problem` says how, as a subcode of its own (6.4.1)."""
    return _make_fault(version, INVALID_HEADER, reason, _problem_header(version, header), problem=problem)


def make_header_required(version: AddressingVersion, header: str) -> ProtocolFault:
    """Return the fault for a header block that is missing (6.4.2)."""
    reason = f"header {header} of WS-Addressing is required, and missing"
    return _make_fault(version, HEADER_REQUIRED, reason, _problem_header(version, header))


def make_destination_unreachable(version: AddressingVersion, destination: str) -> ProtocolFault:
    """Return the fault for a destination that is not here (6.4.3)."""
    reason = f"there is no route to {shorten(destination)}"
    return _make_fault(version, DESTINATION_UNREACHABLE, reason, _element(version, "ProblemIRI", destination))


def make_action_not_supported(version: AddressingVersion, action: str, soap_action: str | None = None) -> ProtocolFault:
    """Return the fault for an action that no operation has (6.4.4)."""
    inside = _element(version, "Action", action)
    if soap_action is not None:
        inside += _element(version, "SoapAction", soap_action)
    detail = f'<wsa:ProblemAction xmlns:wsa="{version.namespace}">{inside}</wsa:ProblemAction>'
    reason = f"action {shorten(action)} cannot be processed here"
    return _make_fault(version, ACTION_NOT_SUPPORTED, reason, detail)


def make_endpoint_unavailable(
    version: AddressingVersion, destination: str, retry_after_milliseconds: int | None = None
) -> ProtocolFault:
    """Return the fault for an endpoint that cannot process a message for the time being (6.4.5)."""
    detail = ""
    if retry_after_milliseconds is not None:
        detail = _element(version, "RetryAfter", str(retry_after_milliseconds))
    detail += _element(version, "ProblemIRI", destination)
    reason = f"{shorten(destination)} cannot process the message for the time being"
    return _make_fault(version, ENDPOINT_UNAVAILABLE, reason, detail, code=SERVER)


def _make_fault(
    version: AddressingVersion,
    name: str,
    reason: str,
    detail: str,
    *,
    problem: str | None = None,
    code: str = CLIENT,
) -> ProtocolFault:
    if version == ADDRESSING_2004:
        name, problem, detail = _NAMES_OF_2004.get(name, name), None, ""
    names = [name, problem] if problem is not None else [name]
    subcodes = tuple([f"Q{clark(version.namespace, one)}" for one in names])
    return ProtocolFault(
        code=code,
        subcodes=subcodes,
        reason=reason,
        action=version.fault_action,
        detail=detail or None,
        code_of_1_1=subcodes[-1],
        blocks_of_1_1=[f'<wsa:FaultDetail xmlns:wsa="{version.namespace}">{detail}</wsa:FaultDetail>']
        if detail
        else (),
    )


def _problem_header(version: AddressingVersion, header: str) -> str:
    return _element(version, "ProblemHeaderQName", f"wsa:{header}")


def _element(version: AddressingVersion, name: str, text: str) -> str:
    return f"<wsa:{name} xmlns:wsa={quoteattr(version.namespace)}>{escape(text)}</wsa:{name}>"
