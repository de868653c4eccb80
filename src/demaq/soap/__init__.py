"""WSDL and SOAP without any I/O: read an interface, open and write envelopes, write faults."""

from demaq.soap.envelope import UNDERSTOOD, Envelope, Header, read_envelope, version_of, write_envelope
from demaq.soap.exchange import (
    Asked,
    SoapAnswer,
    SoapRequest,
    answer_for,
    asked,
    refusal_for,
    request_for,
    response_of,
)
from demaq.soap.faults import (
    Fault,
    convert_fault,
    describe_fault,
    fault_status,
    read_fault,
    write_fault,
    write_refusal,
)
from demaq.soap.interface import Interface, Operation
from demaq.soap.refusals import SoapRefusal
from demaq.soap.transport import action_of, content_type
from demaq.soap.ws_addressing import AddressingHeaders, addressing_of, answer_headers
from demaq.soap.wsdl import read_interface

__all__ = [
    "UNDERSTOOD",
    "AddressingHeaders",
    "Asked",
    "Envelope",
    "Fault",
    "Header",
    "Interface",
    "Operation",
    "SoapAnswer",
    "SoapRefusal",
    "SoapRequest",
    "action_of",
    "addressing_of",
    "answer_for",
    "answer_headers",
    "asked",
    "content_type",
    "convert_fault",
    "describe_fault",
    "fault_status",
    "read_envelope",
    "read_fault",
    "read_interface",
    "refusal_for",
    "request_for",
    "response_of",
    "version_of",
    "write_envelope",
    "write_fault",
    "write_refusal",
]
