"""Add elements of the security header to a tree, and make the Ids they are referred to by."""

from __future__ import annotations

import base64
from collections.abc import Callable

from lxml import etree

from demaq.soap.qualified_names import clark
from demaq.soap.security.wss_names import DS, EXCLUSIVE_C14N, WSSE, WSSE_1_1, WSU, WSU_ID, XENC, XENC_1_1

RandomBytes = Callable[[int], bytes]
"""Returns so many unpredictable bytes: `secrets.token_bytes`."""

_PREFIXES = {
    WSSE: "wsse",
    WSU: "wsu",
    WSSE_1_1: "wsse11",
    DS: "ds",
    XENC: "xenc",
    XENC_1_1: "xenc11",
    EXCLUSIVE_C14N: "ec",
}


def add_element(
    parent: etree._Element, namespace: str, local: str, text: str | None = None, **attributes: str
) -> etree._Element:
    """Append an element with text and unqualified attributes."""
    added = etree.SubElement(parent, clark(namespace, local), attributes, {_PREFIXES[namespace]: namespace})
    added.text = text
    return added


def make_element(namespace: str, local: str, **attributes: str) -> etree._Element:
    """Return the root of a new tree."""
    return etree.Element(clark(namespace, local), attributes, {_PREFIXES[namespace]: namespace})


def ensure_id(element: etree._Element, random: RandomBytes) -> str:
    """Return the wsu:Id of an element, which gets one if it has none."""
    found = element.get(WSU_ID)
    if found is None:
        found = make_id("id", random)
        element.set(WSU_ID, found)
    return found


def make_id(prefix: str, random: RandomBytes) -> str:
    return f"{prefix}-{random(16).hex()}"


def encode_base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
