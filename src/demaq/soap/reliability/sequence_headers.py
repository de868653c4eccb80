"""The header blocks of WS-ReliableMessaging: Sequence, AckRequested and SequenceAcknowledgement (3.7 to 3.9)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lxml import etree

from demaq.soap.envelope import Header, is_for_us
from demaq.soap.qualified_names import local_name
from demaq.soap.reliability.number_ranges import NO_NUMBERS, NumberRanges
from demaq.soap.reliability.protocol_elements import ElementReader
from demaq.soap.reliability.reliability_versions import (
    ACK_REQUESTED,
    ACKNOWLEDGEMENT,
    LAST_MESSAGE,
    SEQUENCE,
    ReliabilityVersion,
    find_version,
)
from demaq.xml_escaping import escape
from demaq.xml_parsers import parse_characters

RANGES_READ_MAX = 10_000
"""The most ranges, or negative acknowledgements, in one acknowledgement."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceHeader:
    """The block of a message that is in a sequence."""

    version: ReliabilityVersion
    identifier: str
    message_number: int
    """From 1 up to 2^64-1; only some are valid, which the destination decides."""
    is_last: bool = False
    """Whether it is the last message, which 1.0 marks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AckRequest:
    """The source asks for an acknowledgement."""

    version: ReliabilityVersion
    identifier: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledgement:
    """What the destination has received, or some of what it misses."""

    version: ReliabilityVersion
    identifier: str
    ranges: NumberRanges = NO_NUMBERS
    missing: Sequence[int] = ()
    """Negative acknowledgements. With them there are no ranges."""
    is_final: bool = False
    """Whether the sequence is closed, so that no message will be added to the ranges."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReliabilityBlocks:
    """All blocks of one envelope."""

    sequence: SequenceHeader | None = None
    ack_requests: Sequence[AckRequest] = ()
    acknowledgements: Sequence[Acknowledgement] = ()


def read_reliability(headers: Iterable[Header], soap: str) -> ReliabilityBlocks:
    """Return the blocks of WS-ReliableMessaging among others. Raises SoapRefusal if one is not valid."""
    sequences: list[SequenceHeader] = []
    requests: list[AckRequest] = []
    acknowledgements: list[Acknowledgement] = []
    for header in headers:
        version = find_version(header.name)
        if version is None or not is_for_us(header, soap):
            continue
        reader = ElementReader(parse_characters(header.text.encode()), version, soap)
        name = local_name(header.name)
        if name == SEQUENCE:
            sequences.append(_read_sequence(reader))
            if len(sequences) > 1:
                raise reader.refuse("is given twice: a message is in one sequence")
        elif name == ACK_REQUESTED:
            requests.append(AckRequest(version=version, identifier=reader.identifier()))
        elif name == ACKNOWLEDGEMENT:
            acknowledgements.append(_read_acknowledgement(reader))
    return ReliabilityBlocks(
        sequence=sequences[0] if sequences else None,
        ack_requests=tuple(requests),
        acknowledgements=tuple(acknowledgements),
    )


def write_sequence(header: SequenceHeader, envelope_namespace: str) -> str:
    """Return the block of a message in a sequence. A receiver that does not understand it must refuse it (3.7)."""
    last = f"<wsrm:{LAST_MESSAGE}/>" if header.is_last and not header.version.has_close else ""
    return (
        f'<wsrm:{SEQUENCE} xmlns:wsrm="{header.version.namespace}" xmlns:soap="{envelope_namespace}"'
        f' soap:mustUnderstand="1">{_identifier(header.identifier)}'
        f"<wsrm:MessageNumber>{header.message_number}</wsrm:MessageNumber>{last}</wsrm:{SEQUENCE}>"
    )


def write_ack_request(request: AckRequest) -> str:
    """Return the block that asks for an acknowledgement."""
    return _block(request.version, ACK_REQUESTED, _identifier(request.identifier))


def write_acknowledgement(acknowledgement: Acknowledgement) -> str:
    """Return the block that acknowledges messages.

    1.0 knows neither `None` nor `Final`. If nothing was received it says that the first message is missing.
    """
    version = acknowledgement.version
    inside = "".join([f"<wsrm:Nack>{number}</wsrm:Nack>" for number in acknowledgement.missing])
    if not inside:
        inside = "".join([_range(low, high) for low, high in acknowledgement.ranges.ranges])
        if not inside:
            inside = "<wsrm:None/>" if version.has_close else "<wsrm:Nack>1</wsrm:Nack>"
        if acknowledgement.is_final and version.has_close:
            inside += "<wsrm:Final/>"
    return _block(version, ACKNOWLEDGEMENT, _identifier(acknowledgement.identifier) + inside)


def _read_sequence(reader: ElementReader) -> SequenceHeader:
    number = reader.number("MessageNumber")
    if number is None:
        raise reader.refuse("has no MessageNumber")
    return SequenceHeader(
        version=reader.version,
        identifier=reader.identifier(),
        message_number=number,
        is_last=not reader.version.has_close and reader.child(LAST_MESSAGE) is not None,
    )


def _read_acknowledgement(reader: ElementReader) -> Acknowledgement:
    """Return an acknowledgement. Overlapping ranges are merged: they say the same."""
    version = reader.version
    identifier = reader.identifier()
    ranges: list[tuple[int, int]] = []
    missing: list[int] = []
    for count, child in enumerate(reader.element.iterchildren("*")):
        if count > RANGES_READ_MAX:
            raise reader.refuse(f"has more than {RANGES_READ_MAX} elements")
        if child.tag == version.tag("AcknowledgementRange"):
            ranges += _read_range(reader, child)
        elif child.tag == version.tag("Nack"):
            missing.append(reader.parse_number("Nack", child.text or ""))
    is_none = reader.child("None") is not None
    if bool(ranges) + bool(missing) + is_none > 1:
        raise reader.refuse("has more than one of AcknowledgementRange, Nack and None")
    return Acknowledgement(
        version=version,
        identifier=identifier,
        ranges=NumberRanges.of(ranges),
        missing=tuple(missing),
        is_final=reader.child("Final") is not None,
    )


def _read_range(reader: ElementReader, element: etree._Element) -> list[tuple[int, int]]:
    low = reader.parse_number("Lower", element.get("Lower", ""), lowest=0)
    high = reader.parse_number("Upper", element.get("Upper", ""), lowest=0)
    if low > high:
        raise reader.refuse(f"has a range from {low} to {high}")
    return [(max(low, 1), high)] if high > 0 else []  # some say so for nothing


def _range(low: int, high: int) -> str:
    return f'<wsrm:AcknowledgementRange Lower="{low}" Upper="{high}"/>'


def _identifier(identifier: str) -> str:
    return f"<wsrm:Identifier>{escape(identifier)}</wsrm:Identifier>"


def _block(version: ReliabilityVersion, name: str, inside: str) -> str:
    return f'<wsrm:{name} xmlns:wsrm="{version.namespace}">{inside}</wsrm:{name}>'
