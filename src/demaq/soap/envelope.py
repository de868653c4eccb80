"""Read and write envelopes of SOAP 1.1 and 1.2.

The content of the Body becomes a message of its own; blocks of the Header are kept as text. An invalid envelope, or a
mandatory block that is not understood, is refused with the fault that SOAP defines for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass

from lxml import etree

from demaq.documents import Document
from demaq.errors import MessageError
from demaq.soap.addressing.addressing_versions import ADDRESSING_HEADERS
from demaq.soap.qualified_names import ENVELOPES, SOAP_1_1, SOAP_1_2, child_elements, clark, local_name, shorten
from demaq.soap.refusals import CLIENT, MUST_UNDERSTAND, VERSION_MISMATCH, SoapRefusal
from demaq.soap.standalone import cut_out
from demaq.system_properties import HEADER

HEADERS_MAX = 100
"""The most blocks in one Header."""

UNDERSTOOD: frozenset[str] = ADDRESSING_HEADERS
"""Header blocks that are understood."""

OUR_ROLES = {
    SOAP_1_1: (None, "", "http://schemas.xmlsoap.org/soap/actor/next"),
    SOAP_1_2: (
        None,
        "",
        "http://www.w3.org/2003/05/soap-envelope/role/next",
        "http://www.w3.org/2003/05/soap-envelope/role/ultimateReceiver",
    ),
}
"""The values of the attribute that mean this node."""
ROLE_ATTRIBUTES = {SOAP_1_1: "actor", SOAP_1_2: "role"}
"""The attribute that names the receiver of a header block."""
_TRUE = ("1", "true")
_CHILDREN_SHOWN_MAX = 5
_VERSIONS = {clark(namespace, "Envelope"): version for version, namespace in ENVELOPES.items()}
_DECLARATION = re.compile(r"\s*<\?xml\s[^>]*\?>")


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """One block of a Header."""

    name: str
    text: str
    must_understand: bool = False
    role: str | None = None
    """The role it is addressed to, `actor` in SOAP 1.1; None is the ultimate receiver."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """The content of an envelope."""

    version: str
    body: str | None
    """The document in the Body; None if the Body is empty."""
    body_name: str | None = None
    headers: Sequence[Header] = ()


def detect_version(tree: etree._ElementTree) -> str | None:
    """Return the version of SOAP if a document is an envelope, None if it is any other document.

    An element named Envelope is an envelope of SOAP only if it has a Body in its own namespace.
    """
    root = tree.getroot()
    version = _VERSIONS.get(str(root.tag))
    if version is None and local_name(str(root.tag)) == "Envelope":
        namespace = str(root.tag)[1:].rpartition("}")[0]
        if namespace and root.find(clark(namespace, "Body")) is not None:
            raise _version_mismatch(root)
    return version


def read_envelope(tree: etree._ElementTree, understood: frozenset[str] = UNDERSTOOD) -> Envelope:
    """Return the content of an envelope. Raises SoapRefusal."""
    root = tree.getroot()
    version = detect_version(tree)
    if version is None and local_name(str(root.tag)) == "Envelope":
        raise _version_mismatch(root)
    if version is None:
        raise SoapRefusal(CLIENT, f"{shorten(str(root.tag))} is no SOAP envelope")
    header, body = find_header_and_body(root, version)
    try:
        headers = _headers(header, version) if header is not None else ()
        _refuse_not_understood(headers, version, understood)
        return _open(version, body, headers)
    except MessageError as error:
        if isinstance(error, SoapRefusal):
            raise
        raise SoapRefusal(CLIENT, error.message, version=version) from None


def write_envelope(version: str, body_text: str | None, headers: Iterable[str] = ()) -> bytes:
    """Return an envelope with a document and the texts of header blocks."""
    blocks = "".join([strip_declaration(block) for block in headers])
    header = f"<soapenv:Header>{blocks}</soapenv:Header>" if blocks else ""
    body = strip_declaration(body_text) if body_text is not None else ""
    return (
        f'<?xml version="1.0" encoding="utf-8"?>\n<soapenv:Envelope xmlns:soapenv="{ENVELOPES[version]}">'
        f"{header}<soapenv:Body>{body}</soapenv:Body></soapenv:Envelope>"
    ).encode()


def is_for_us(header: Header, version: str) -> bool:
    """Return whether a block is addressed to the ultimate receiver, or to the next one."""
    return header.role in OUR_ROLES[version]


def strip_declaration(text: str) -> str:
    """Return the text of a document without its XML declaration, for use inside another document."""
    match = _DECLARATION.match(text)
    return text[match.end() :] if match else text


def _version_mismatch(root: etree._Element) -> SoapRefusal:
    return SoapRefusal(VERSION_MISMATCH, f"{shorten(str(root.tag))} is an envelope of neither SOAP 1.1 nor SOAP 1.2")


def find_header_and_body(root: etree._Element, version: str) -> tuple[etree._Element | None, etree._Element]:
    """Return the Header, if there is one, and the Body of an Envelope. Raises SoapRefusal if it has another shape."""
    namespace = ENVELOPES[version]
    children = child_elements(root, _CHILDREN_SHOWN_MAX)
    found = [str(child.tag) for child in children]
    header, body = clark(namespace, "Header"), clark(namespace, "Body")
    if found == [header, body]:
        return children[0], children[1]
    if found == [body]:
        return None, children[0]
    what = shorten(", ".join([local_name(name) for name in found])) or "nothing"
    raise SoapRefusal(
        CLIENT, f"an Envelope has a Header, which may be left out, and one Body; here is {what}", version=version
    )


def _open(version: str, body: etree._Element, headers: Sequence[Header]) -> Envelope:
    content = child_elements(body, 2)
    if len(content) > 1:
        raise SoapRefusal(CLIENT, "the Body has several elements: one is expected", version=version)
    if _has_text(body):
        raise SoapRefusal(CLIENT, "the Body has text outside of an element", version=version)
    if not content:
        return Envelope(version=version, body=None, headers=headers)
    return Envelope(version=version, body=cut_out(content[0]), body_name=str(content[0].tag), headers=headers)


def _headers(header: etree._Element, version: str) -> tuple[Header, ...]:
    blocks = child_elements(header, HEADERS_MAX + 1)
    if len(blocks) > HEADERS_MAX:
        raise SoapRefusal(CLIENT, f"the Header has more than {HEADERS_MAX} blocks", version=version)
    namespace = ENVELOPES[version]
    return tuple(
        [
            Header(
                name=str(block.tag),
                text=cut_out(block),
                must_understand=block.get(clark(namespace, "mustUnderstand"), "").strip() in _TRUE,
                role=block.get(clark(namespace, ROLE_ATTRIBUTES[version])),
            )
            for block in blocks
        ]
    )


def _refuse_not_understood(headers: Iterable[Header], version: str, understood: frozenset[str]) -> None:
    names = [
        header.name
        for header in headers
        if header.must_understand and is_for_us(header, version) and header.name not in understood
    ]
    if names:
        raise SoapRefusal(
            MUST_UNDERSTAND,
            f"header {shorten(', '.join(names))} has to be understood, and is not",
            version=version,
            not_understood=names,
        )


def _has_text(body: etree._Element) -> bool:
    return any([text is not None and text.strip() for text in [body.text, *[child.tail for child in body]]])


TEXT_CHARACTERS_MAX = 10_000
"""A block with more text becomes no property."""
NAME_CHARACTERS_MAX = 1_000
SECRET_BLOCKS = frozenset(
    [
        "{http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss-wssecurity-secext-1.0.xsd}Security",
        "{http://schemas.xmlsoap.org/ws/2002/07/secext}Security",
    ]
)
"""Blocks that may hold passwords; they become no properties."""


def remove_secret_blocks(tree: etree._ElementTree) -> str:
    """Return the text of an envelope without blocks that may hold passwords, as it may be kept in an error message."""
    copy = deepcopy(tree)
    for block in [found for name in SECRET_BLOCKS for found in copy.iter(name)]:
        parent = block.getparent()
        if parent is not None:
            parent.remove(block)
    return etree.tostring(copy, encoding="unicode")


def read_block_properties(blocks: Iterable[Header]) -> dict[str, str]:
    """Return the texts of blocks by the names of their properties; blocks of one name are joined like HTTP headers."""
    found: dict[str, str] = {}
    for block in blocks:
        if block.name in SECRET_BLOCKS or len(block.name) > NAME_CHARACTERS_MAX:
            continue
        name = HEADER + (block.name if block.name.startswith("{") else f"{{}}{block.name}")
        text = "".join([str(piece) for piece in Document(block.text).tree.getroot().itertext()]).strip()
        joined = f"{found[name]}, {text}" if name in found else text
        if len(joined) <= TEXT_CHARACTERS_MAX:
            found[name] = joined
    return found
