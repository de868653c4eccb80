"""Endpoint references: an address with reference parameters, which a message to it carries as header blocks."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, Self

from lxml import etree

from demaq.errors import MessageError
from demaq.soap.addressing.addressing_faults import INVALID_ADDRESS, INVALID_EPR, MISSING_ADDRESS, make_invalid_header
from demaq.soap.addressing.addressing_versions import ADDRESSING_VERSIONS, AddressingVersion
from demaq.soap.qualified_names import child_elements, shorten
from demaq.soap.refusals import refuse
from demaq.soap.standalone import cut_out
from demaq.xml_escaping import escape
from demaq.xml_parsers import parse_characters

ADDRESS_CHARACTERS_MAX = 2_000
PARAMETERS_MAX = 32
"""The most reference parameters of one endpoint."""
PARAMETERS_CHARACTERS_MAX = 32_000
"""They are stored, and echoed in every message to the endpoint."""

_CHILDREN_MAX = 100
_ABSOLUTE = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:[^\s<>\"{}|\\^`]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointReference:
    """Where messages can be sent to. Metadata is not kept."""

    version: AddressingVersion
    address: str
    parameters: Sequence[str] = ()
    """Reference parameters, and reference properties of 2004/08: each the text of an element."""

    @property
    def is_anonymous(self) -> bool:
        """Return whether messages to it go back on a connection that its owner has opened."""
        return self.address == self.version.anonymous

    @property
    def is_none(self) -> bool:
        """Return whether messages to it are not sent at all."""
        return self.version.none is not None and self.address == self.version.none

    def to_plain(self) -> dict[str, Any]:
        """Return the reference as values that JSON has."""
        return {"namespace": self.version.namespace, "address": self.address, "parameters": list(self.parameters)}

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> Self:
        """Return the reference that `to_plain` has written."""
        return cls(
            version=ADDRESSING_VERSIONS[plain["namespace"]],
            address=plain["address"],
            parameters=tuple(plain["parameters"]),
        )


def make_anonymous(version: AddressingVersion) -> EndpointReference:
    """Return the reference to the other end of a connection."""
    return EndpointReference(version=version, address=version.anonymous)


def read_endpoint(
    element: etree._Element, version: AddressingVersion, name: str, soap: str | None
) -> EndpointReference:
    """Return the reference that an element of this name holds. Raises SoapRefusal."""

    def fail(problem: str, reason: str) -> NoReturn:
        raise refuse(make_invalid_header(version, name, problem, f"{name} of WS-Addressing {reason}"), soap)

    children = child_elements(element, _CHILDREN_MAX + 1)
    if len(children) > _CHILDREN_MAX:
        fail(INVALID_EPR, f"has more than {_CHILDREN_MAX} elements")
    addresses = [child for child in children if child.tag == version.tag("Address")]
    if not addresses:
        fail(MISSING_ADDRESS, "has no Address")
    if len(addresses) > 1:
        fail(INVALID_EPR, "has several Address elements")
    address = (addresses[0].text or "").strip()
    if len(address) > ADDRESS_CHARACTERS_MAX or not _ABSOLUTE.fullmatch(address):
        fail(INVALID_ADDRESS, f"is {shorten(address)}, which is no absolute address")
    holders = [version.tag("ReferenceParameters"), version.tag("ReferenceProperties")]
    parameters = [
        parameter
        for child in children
        if child.tag in holders
        for parameter in child_elements(child, PARAMETERS_MAX + 1)
    ]
    if len(parameters) > PARAMETERS_MAX:
        fail(INVALID_EPR, f"has more than {PARAMETERS_MAX} reference parameters")
    try:
        texts = tuple([cut_out(parameter) for parameter in parameters])
    except MessageError as error:
        fail(INVALID_EPR, f"has reference parameters that cannot be used: {error.message}")
    if sum([len(text) for text in texts]) > PARAMETERS_CHARACTERS_MAX:
        fail(INVALID_EPR, f"has reference parameters of more than {PARAMETERS_CHARACTERS_MAX} characters")
    return EndpointReference(version=version, address=address, parameters=texts)


def find_endpoint(parent: etree._Element, tag: str, soap: str | None) -> EndpointReference | None:
    """Return the reference in a child element, in the version of WS-Addressing that its Address has.

    WS-ReliableMessaging 1.0 was written for 2004/08, and is used with 1.0, too.
    """
    found = parent.find(tag)
    if found is None:
        return None
    spoken = [version for version in ADDRESSING_VERSIONS.values() if found.find(version.tag("Address")) is not None]
    version = spoken[0] if spoken else next(iter(ADDRESSING_VERSIONS.values()))
    return read_endpoint(found, version, tag.rpartition("}")[2], soap)


def write_endpoint(endpoint: EndpointReference) -> str:
    """Return the content of an element for a reference."""
    namespace = endpoint.version.namespace
    parameters = "".join(endpoint.parameters)
    if parameters:
        parameters = f'<wsa:ReferenceParameters xmlns:wsa="{namespace}">{parameters}</wsa:ReferenceParameters>'
    return f'<wsa:Address xmlns:wsa="{namespace}">{escape(endpoint.address)}</wsa:Address>{parameters}'


def write_parameters(endpoint: EndpointReference) -> tuple[str, ...]:
    """Return the header blocks that a message to the endpoint carries (SOAP Binding 2.3)."""
    if not endpoint.version.marks_parameters:
        return tuple(endpoint.parameters)
    return tuple([_mark(parameter, endpoint.version) for parameter in endpoint.parameters])


def _mark(parameter: str, version: AddressingVersion) -> str:
    element = parse_characters(parameter.encode())
    element.set(version.tag("IsReferenceParameter"), "true")
    return etree.tostring(element, encoding="unicode")
