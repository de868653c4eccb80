"""Write a policy in normal form (WS-Policy 1.5, section 4.1): its alternatives, with nothing left to resolve.

A nested policy of an assertion is one alternative, so it needs no operators.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from lxml import etree

from demaq.soap.element_copies import copy_element, copy_tag
from demaq.soap.policy.assertions import Alternative, Assertion
from demaq.soap.policy.policy_names import POLICY_NAMESPACES, is_operator, namespace_of
from demaq.soap.qualified_names import child_elements, clark, local_name

_PREFIX: Final = "wsp"
_OPTIONAL: Final = "Optional"


def write_alternatives(alternatives: Iterable[Alternative], version: str) -> str:
    """Return the element ExactlyOne of a policy with these alternatives; `version` is the namespace of WS-Policy."""
    root = etree.Element(clark(version, "ExactlyOne"), None, {_PREFIX: version})
    for alternative in alternatives:
        _add_assertions(etree.SubElement(root, clark(version, "All")), alternative, version)
    etree.indent(root)
    return etree.tostring(root, encoding="unicode")


def _add_assertions(parent: etree._Element, assertions: Alternative, version: str) -> None:
    for assertion in assertions:
        copy = copy_tag(parent, assertion.element, _translate_attributes(assertion, version))
        for child in child_elements(assertion.element):
            if is_operator(str(child.tag), "Policy"):
                _add_assertions(etree.SubElement(copy, clark(version, "Policy")), assertion.nested or (), version)
            else:
                copy_element(copy, child)


def _translate_attributes(assertion: Assertion, version: str) -> dict[str, str]:
    """Return the attributes. An alternative that has an assertion has it, so it is not optional any more (4.3.1)."""
    translated: dict[str, str] = {}
    for name, value in assertion.element.attrib.items():
        is_policy = namespace_of(str(name)) in POLICY_NAMESPACES
        local = local_name(str(name))
        if not is_policy or local != _OPTIONAL:
            translated[clark(version, local) if is_policy else str(name)] = str(value)
    return translated
