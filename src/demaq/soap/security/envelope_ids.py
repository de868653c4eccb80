"""Find the element that a reference means: the only one with that Id in the whole envelope.

Two elements with one Id are how signatures are made to cover one element while another is processed, so an Id that is
used in a reference, or declared as such by wsu:Id or xml:id, must be unique among all attributes that any software
takes for an Id. `Id` and `ID` that nothing refers to are data of the application.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import Any, Final

from lxml import etree

from demaq.soap.qualified_names import XML, clark, shorten
from demaq.soap.security.security_faults import invalid_security
from demaq.soap.security.wss_names import DS, WSU, WSU_ID, XENC

_IDS: Final = etree.XPath("//@wsu:Id | //@xml:id | //@Id | //@ID", namespaces={"wsu": WSU, "xml": XML})
_DECLARED: Final = (WSU_ID, clark(XML, "id"))
_REFERENCE: Final = re.compile(r"#([^\W\d][\w.\-]*)")
"""An Id in the same document: an NCName. XPointers have brackets."""


class EnvelopeIds:
    """The elements of an envelope by their Ids. Raises SoapRefusal if two have the same."""

    def __init__(self, root: etree._Element) -> None:
        self._elements: dict[str, list[tuple[str, etree._Element]]] = defaultdict(list)
        found: Any = _IDS(root)  # strings that know their elements
        for value in found:
            self._elements[str(value)].append((str(value.attrname), value.getparent()))
        for value, holders in self._elements.items():
            if len(holders) > 1 and any([name in _DECLARED for name, _ in holders]):
                raise invalid_security(f"the Id {shorten(value)} is given twice", "invalidSignature")

    def resolve(self, uri: str) -> etree._Element:
        """Return the element that `#id` refers to. Raises SoapRefusal for anything else."""
        return self.resolve_attribute(uri)[0]

    def resolve_attribute(self, uri: str) -> tuple[etree._Element, str]:
        """Return the element that `#id` refers to, and the name of the attribute with its Id."""
        match = _REFERENCE.fullmatch(uri)
        if match is None:
            raise invalid_security("a reference is not to an Id in the envelope", "invalidSignature")
        found = self._elements.get(match[1], [])
        if len(found) > 1:
            raise invalid_security(f"the Id {shorten(match[1])} is given twice", "invalidSignature")
        if not found or not _is_id(*found[0]):
            raise invalid_security(f"no element has the Id {shorten(match[1])}", "invalidSignature")
        return found[0][1], found[0][0]


def _is_id(name: str, element: etree._Element) -> bool:
    """Return whether WS-Security knows an attribute as an Id (SOAP Message Security 1.1, section 4)."""
    return name == WSU_ID or (name == "Id" and str(element.tag).startswith((f"{{{DS}}}", f"{{{XENC}}}")))
