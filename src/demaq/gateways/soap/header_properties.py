"""Blocks of a SOAP header as properties: `demaq:header.{http://example.org/shop}priority`.

A block is called by its namespace and local name, in braces as here. No HTTP header has braces in its name (RFC 9110,
5.6.2), so nothing in a body can be taken for a header of the request, and blocks of different namespaces are apart.
"""

from __future__ import annotations

from collections.abc import Iterable

from demaq.documents import Document
from demaq.gateways.soap.envelope import Header
from demaq.language.system_properties import HEADER

TEXT_CHARACTERS_MAX = 10_000
"""A block with more text is no property."""
NAME_CHARACTERS_MAX = 1_000
SECRET_BLOCKS = frozenset(
    [
        "{http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss-wssecurity-secext-1.0.xsd}Security",
        "{http://schemas.xmlsoap.org/ws/2002/07/secext}Security",
    ]
)
"""Blocks that may hold passwords: they are no properties."""


def block_properties(blocks: Iterable[Header]) -> dict[str, str]:
    """Return the texts of blocks by the names of their properties; those of one name are joined as HTTP joins them."""
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
