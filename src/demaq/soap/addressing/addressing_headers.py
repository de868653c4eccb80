"""Read and write the header blocks of WS-Addressing: message addressing properties (Core 3, SOAP Binding 2)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from lxml import etree

from demaq.soap.addressing.addressing_faults import INVALID_CARDINALITY, make_header_required, make_invalid_header
from demaq.soap.addressing.addressing_versions import (
    ADDRESSING_1_0,
    ADDRESSING_HEADERS,
    ADDRESSING_VERSIONS,
    ENDPOINT_BLOCKS,
    RELATES_TO,
    TEXT_BLOCKS,
    AddressingVersion,
)
from demaq.soap.addressing.endpoint_reference import EndpointReference, read_endpoint, write_endpoint, write_parameters
from demaq.soap.envelope import Header, is_for_us
from demaq.soap.qualified_names import local_name, resolve_name, shorten
from demaq.soap.refusals import refuse
from demaq.xml_escaping import escape, quoteattr
from demaq.xml_parsers import parse_characters

TEXT_CHARACTERS_MAX = 2_000
"""The most characters of a MessageID, To, Action or RelatesTo."""
_REPEATABLE = (RELATES_TO,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Relationship:
    """Another message that a message relates to."""

    message_id: str
    kind: str
    """An IRI in WS-Addressing 1.0, `{namespace}local` in 2004/08."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AddressingHeaders:
    """The addressing headers of a message."""

    version: AddressingVersion = ADDRESSING_1_0
    message_id: str | None = None
    to: str | None = None
    action: str | None = None
    source: EndpointReference | None = None
    """The block `From`."""
    reply_to: EndpointReference | None = None
    fault_to: EndpointReference | None = None
    relationships: Sequence[Relationship] = ()
    parameters: Sequence[str] = field(default=(), repr=False)
    """Header blocks that are the reference parameters of the destination."""

    @property
    def answers(self) -> str | None:
        """Return the MessageID of the request that this message answers."""
        found = [one.message_id for one in self.relationships if one.kind == self.version.reply]
        return next(iter(found), None)


def make_message_id(source: Callable[[], UUID]) -> str:
    """Return a MessageID that is unique in the world; `source` is `uuid.uuid4` except in tests."""
    return f"urn:uuid:{source()}"


def read_addressing(headers: Iterable[Header], version: str) -> AddressingHeaders | None:
    """Return the addressing headers, or None if there are none. Raises SoapRefusal if they are not valid.

    `version` is that of SOAP. A message in both versions of WS-Addressing is read as the first one.
    """
    spoken: AddressingVersion | None = None
    blocks: dict[str, list[etree._Element]] = {}
    for header in headers:
        if header.name not in ADDRESSING_HEADERS or not is_for_us(header, version):
            continue
        own = ADDRESSING_VERSIONS[header.name[1:].partition("}")[0]]
        spoken = spoken or own
        if own == spoken:
            blocks.setdefault(local_name(header.name), []).append(parse_characters(header.text.encode()))
    if spoken is None:
        return None
    for name, found in blocks.items():
        if len(found) > 1 and name not in _REPEATABLE:  # SOAP Binding 3.2
            reason = f"header {name} of WS-Addressing is given twice"
            raise refuse(make_invalid_header(spoken, name, INVALID_CARDINALITY, reason), version)
    texts = {name: _read_text(blocks[name][0], spoken, name, version) for name in TEXT_BLOCKS if name in blocks}
    ends = {name: read_endpoint(blocks[name][0], spoken, name, version) for name in ENDPOINT_BLOCKS if name in blocks}
    return AddressingHeaders(
        version=spoken,
        message_id=texts.get("MessageID"),
        to=texts.get("To"),
        action=texts.get("Action"),
        source=ends.get("From"),
        reply_to=ends.get("ReplyTo"),
        fault_to=ends.get("FaultTo"),
        relationships=tuple([_read_relationship(one, spoken, version) for one in blocks.get(RELATES_TO, [])]),
    )


def write_addressing(headers: AddressingHeaders, must_understand: str | None = None) -> tuple[str, ...]:
    """Return the header blocks; the receiver has to understand To and Action if a namespace of SOAP is given."""
    version = headers.version
    mark = f' xmlns:soap="{must_understand}" soap:mustUnderstand="1"' if must_understand else ""
    texts = [("MessageID", headers.message_id, ""), ("To", headers.to, mark), ("Action", headers.action, mark)]
    blocks = [_write(version, name, escape(text), mark) for name, text, mark in texts if text]
    ends = [("From", headers.source), ("ReplyTo", headers.reply_to), ("FaultTo", headers.fault_to)]
    blocks += [_write(version, name, write_endpoint(end)) for name, end in ends if end is not None]
    blocks += [_write_relationship(one, version) for one in headers.relationships]
    return (*blocks, *headers.parameters)


def make_answer_headers(
    request: AddressingHeaders,
    *,
    message_id: str,
    action: str | None = None,
    to: EndpointReference | None = None,
) -> tuple[str, ...]:
    """Return the header blocks of an answer, on the connection unless it has another destination (Core 3.4).

    Its default action is that of the request followed by `Response`.
    """
    own = action or (f"{request.action}Response" if request.action else None)
    related = [Relationship(message_id=request.message_id, kind=request.version.reply)] if request.message_id else []
    return write_addressing(
        AddressingHeaders(
            version=request.version,
            message_id=message_id,
            to=to.address if to is not None and not to.is_anonymous else None,
            action=own,
            relationships=related,
            parameters=write_parameters(to) if to is not None else (),
        )
    )


def check_required(headers: AddressingHeaders, soap: str, *, expects_answer: bool) -> None:
    """Raises SoapRefusal if a header is missing: Action always, MessageID if there will be an answer (Core 3.1)."""
    if headers.action is None:
        raise refuse(make_header_required(headers.version, "Action"), soap)
    if expects_answer and headers.message_id is None:
        raise refuse(make_header_required(headers.version, "MessageID"), soap)


def _read_text(element: etree._Element, version: AddressingVersion, name: str, soap: str) -> str | None:
    text = (element.text or "").strip()
    if len(text) > TEXT_CHARACTERS_MAX:
        reason = f"header {name} of WS-Addressing has more than {TEXT_CHARACTERS_MAX} characters: {shorten(text)}"
        raise refuse(make_invalid_header(version, name, None, reason), soap)
    return text or None


def _read_relationship(element: etree._Element, version: AddressingVersion, soap: str) -> Relationship:
    text = _read_text(element, version, RELATES_TO, soap) or ""
    kind = (element.get("RelationshipType") or "").strip()
    if kind and not version.marks_parameters:  # a QName in 2004/08
        kind = resolve_name(element, kind)
    return Relationship(message_id=text, kind=kind or version.reply)


def _write_relationship(relationship: Relationship, version: AddressingVersion) -> str:
    attribute = ""
    if relationship.kind != version.reply:
        namespace, _, local = relationship.kind.rpartition("}")
        declared = f" xmlns:k={quoteattr(namespace[1:])}" if namespace else ""
        attribute = f"{declared} RelationshipType={quoteattr(f'k:{local}' if namespace else relationship.kind)}"
    return _write(version, RELATES_TO, escape(relationship.message_id), attribute)


def _write(version: AddressingVersion, name: str, content: str, attributes: str = "") -> str:
    return f'<wsa:{name} xmlns:wsa="{version.namespace}"{attributes}>{content}</wsa:{name}>'
