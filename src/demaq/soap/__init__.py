"""WSDL and SOAP without any I/O: read an interface, open and write envelopes, write faults."""

from demaq.soap.addressing.addressing_headers import AddressingHeaders, make_answer_headers, read_addressing
from demaq.soap.envelope import UNDERSTOOD, Envelope, Header, detect_version, read_envelope, write_envelope
from demaq.soap.exchange import (
    SoapAnswer,
    SoapCall,
    SoapRequest,
    make_answer,
    make_fault_answer,
    make_request,
    read_call,
    read_response,
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
from demaq.soap.transport import content_type, read_action
from demaq.soap.wsdl import read_interface

__all__ = [
    "UNDERSTOOD",
    "AddressingHeaders",
    "Envelope",
    "Fault",
    "Header",
    "Interface",
    "Operation",
    "SoapAnswer",
    "SoapCall",
    "SoapRefusal",
    "SoapRequest",
    "content_type",
    "convert_fault",
    "describe_fault",
    "detect_version",
    "fault_status",
    "make_answer",
    "make_answer_headers",
    "make_fault_answer",
    "make_request",
    "read_action",
    "read_addressing",
    "read_call",
    "read_envelope",
    "read_fault",
    "read_interface",
    "read_response",
    "write_envelope",
    "write_fault",
    "write_refusal",
]
