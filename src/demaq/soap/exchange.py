"""Requests and answers of an interface, without I/O: what to send, and what a received envelope means.

In both directions a queue holds the content of the Body. In rpc style that is the element around the parts; an empty
Body is represented by an element named after the operation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus

from lxml import etree

from demaq.documents import Document, parse_document
from demaq.errors import MessageError
from demaq.soap.envelope import UNDERSTOOD, Envelope, detect_version, read_envelope, write_envelope
from demaq.soap.faults import Fault, convert_fault, fault_status, read_fault, write_fault, write_refusal
from demaq.soap.interface import Interface, Operation, SoapBody
from demaq.soap.qualified_names import local_name, shorten
from demaq.soap.refusals import CLIENT, SERVER, SoapRefusal
from demaq.soap.transport import action_headers, content_type, media_type
from demaq.xml_escaping import quoteattr

_XML_TYPES = ("text/xml", "application/xml", "application/soap+xml", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class SoapCall:
    """A received request."""

    operation: Operation
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SoapRequest:
    """A request to send."""

    operation: Operation
    data: bytes
    content_type: str
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SoapAnswer:
    """An answer to give."""

    data: bytes
    content_type: str
    status: int


def read_call(interface: Interface, envelope: Envelope, action: str | None = None) -> SoapCall:
    """Return the operation that an envelope asks for, and the message for the queue.

    Validates it against the schema.
    """
    operation = interface.operation(envelope.body_name, action)
    message = envelope.body if envelope.body is not None else _make_stand_in(operation.input)
    interface.check_input(Document(message).tree, operation)
    return SoapCall(operation=operation, message=message)


def make_answer(
    operation: Operation | None, message_text: str, version: str, headers: Iterable[str] = ()
) -> SoapAnswer:
    """Return the answer for a message. An element that the operation declares as a fault becomes a fault."""
    root = Document(message_text).tree.getroot()
    given = read_fault(root.getroottree())
    if given is not None:
        data = convert_fault(given, version, headers)
        return SoapAnswer(data=data, content_type=content_type(version), status=fault_status(version, given.code))
    if operation is None:
        data = write_envelope(version, message_text, headers)
        return SoapAnswer(data=data, content_type=content_type(version), status=HTTPStatus.OK)
    if root.tag in operation.faults.values():
        name = next(iter([name for name, element in operation.faults.items() if element == root.tag]))
        data = write_fault(version, SERVER, name, message_text, headers)
        return SoapAnswer(data=data, content_type=content_type(version), status=fault_status(version, SERVER))
    is_empty = operation.output is not None and operation.output.is_empty and operation.output.element == root.tag
    data = write_envelope(version, None if is_empty else message_text, headers)
    return SoapAnswer(data=data, content_type=content_type(version), status=HTTPStatus.OK)


def make_fault_answer(version: str, error: MessageError, headers: Iterable[str] = ()) -> SoapAnswer:
    """Return the fault for a refused request, in this version unless the envelope has its own."""
    code = CLIENT
    if isinstance(error, SoapRefusal):
        version, code = error.version or version, error.fault
        data = write_refusal(error, version, headers)
    else:
        data = write_fault(version, code, error.message, headers=headers)
    return SoapAnswer(data=data, content_type=content_type(version), status=fault_status(version, code))


def make_request(interface: Interface, message_text: str, headers: Iterable[str] = ()) -> SoapRequest:
    """Return the request for a message of an outgoing gateway.

    Raises MessageError if the port has no such operation. `Interface.check_input` validates the message.
    """
    operation = interface.operation_of_message(str(Document(message_text).tree.getroot().tag))
    body = None if operation.input.is_empty else message_text
    return SoapRequest(
        operation=operation,
        data=write_envelope(interface.version, body, headers),
        content_type=content_type(interface.version, operation.action),
        headers=action_headers(interface.version, operation.action),
    )


def read_response(
    interface: Interface,
    operation: Operation,
    status: int,
    content_type: str | None,
    data: bytes,
    understood: frozenset[str] = UNDERSTOOD,
) -> str | Fault | None:
    """Return the content of a response: the document for the reply queue, a fault, or None if there is neither.

    `understood` are names of header blocks. Raises MessageError if it is no SOAP response, or not the one that the WSDL
    declares.
    """
    if not data.strip():
        if operation.is_one_way or status == HTTPStatus.ACCEPTED:
            return None
        raise MessageError("schemaViolation", f"the answer to {operation.name} is empty (status {status})")
    tree = _parse_answer(content_type, data, status)
    if detect_version(tree) is None:
        raise MessageError("schemaViolation", f"this is no SOAP envelope but {shorten(str(tree.getroot().tag))}")
    fault = read_fault(tree)
    if fault is not None:
        return fault
    envelope = read_envelope(tree, understood)
    if operation.output is None:
        return None
    message = envelope.body
    if message is None:
        if not operation.output.is_empty:
            raise MessageError("schemaViolation", f"the answer to {operation.name} has an empty Body")
        message = _make_stand_in(operation.output)
    interface.check_output(Document(message).tree, operation)
    return message


def _parse_answer(content_type: str | None, data: bytes, status: int) -> etree._ElementTree:
    kind = media_type(content_type)
    if kind.startswith("multipart/"):
        raise MessageError("notWellFormed", "the answer has attachments (MTOM or MIME), which are not supported")
    if kind not in _XML_TYPES and not kind.endswith("+xml"):
        raise MessageError("notWellFormed", f"the response is {shorten(kind)} and no XML (status {status})")
    return parse_document(data).tree


def _make_stand_in(body: SoapBody) -> str:
    """Return the message that represents an empty Body."""
    namespace = body.element[1:].partition("}")[0] if body.element.startswith("{") else ""
    declared = f" xmlns={quoteattr(namespace)}" if namespace else ""
    return f"<{local_name(body.element)}{declared}/>"
