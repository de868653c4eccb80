"""Read elements of a security header strictly: what is expected must be there, once, and nothing that is unknown."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence

from lxml import etree

from demaq.soap.qualified_names import child_elements, local_name
from demaq.soap.security.security_faults import invalid_security


def only_child(parent: etree._Element, tag: str) -> etree._Element:
    """Return the only child of a name. Raises SoapRefusal if there is none, or several."""
    found = optional_child(parent, tag)
    if found is None:
        raise invalid_security(f"{name_of(parent)} has no {local_name(tag)}")
    return found


def optional_child(parent: etree._Element, tag: str) -> etree._Element | None:
    found = parent.findall(tag)
    if len(found) > 1:
        raise invalid_security(f"{name_of(parent)} has more than one {local_name(tag)}")
    return found[0] if found else None


def expect_children(parent: etree._Element, *tags: str) -> Sequence[etree._Element]:
    """Return the children of these names in this order, with no other element between them."""
    found = child_elements(parent, len(tags) + 1)
    if [str(child.tag) for child in found] != list(tags):
        expected = ", ".join([local_name(tag) for tag in tags])
        raise invalid_security(f"the children of {name_of(parent)} are not {expected}")
    return found


def algorithm_of(element: etree._Element) -> str:
    return element.get("Algorithm", "")


def decode_base64(element: etree._Element, what: str) -> bytes:
    """Return the bytes in an element, which may have white space. Raises SoapRefusal."""
    try:
        return base64.b64decode("".join(text_of(element).split()), validate=True)
    except (binascii.Error, ValueError):
        raise invalid_security(f"{what} is not in base64") from None


def text_of(element: etree._Element) -> str:
    """Return the text of an element without elements in it; comments are left out."""
    if child_elements(element, 1):
        raise invalid_security(f"{name_of(element)} has elements where text is expected")
    return "".join([element.text or "", *[child.tail or "" for child in element]])


def name_of(element: etree._Element) -> str:
    return local_name(str(element.tag))
