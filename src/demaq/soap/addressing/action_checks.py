"""Whether the action of a request is that of its operation, and which one its answer has."""

from __future__ import annotations

from demaq.soap.addressing.addressing_faults import ACTION_MISMATCH, make_action_not_supported, make_invalid_header
from demaq.soap.addressing.addressing_headers import AddressingHeaders
from demaq.soap.interface import Operation
from demaq.soap.qualified_names import shorten
from demaq.soap.refusals import refuse


def check_soap_action(headers: AddressingHeaders, soap_action: str | None, version: str) -> None:
    """Raises SoapRefusal if the HTTP request has another action than the envelope (SOAP Binding 4.2 and 6.4.1.6).

    `soap_action` is the header SOAPAction of SOAP 1.1, or the parameter of the content type in SOAP 1.2; an empty one
    agrees with everything.
    """
    if soap_action and headers.action is not None and soap_action != headers.action:
        reason = (
            f"Action of WS-Addressing is {shorten(headers.action)}, and the HTTP request has {shorten(soap_action)}"
        )
        raise refuse(make_invalid_header(headers.version, "Action", ACTION_MISMATCH, reason), version)


def check_action(headers: AddressingHeaders, operation: Operation, soap_action: str | None, version: str) -> None:
    """Raises SoapRefusal unless the action is one of the operation in the Body and of the HTTP request."""
    check_soap_action(headers, soap_action, version)
    if headers.action is not None and not operation.actions.accepts(headers.action):
        raise refuse(make_action_not_supported(headers.version, headers.action, soap_action or None), version)


def find_answer_action(operation: Operation, headers: AddressingHeaders, fault: str | None = None) -> str | None:
    """Return the action of an answer: the output, a declared fault by its name, or any other fault as `""`."""
    if fault is not None:
        return operation.actions.faults.get(fault, headers.version.other_fault_action)
    return operation.actions.output
