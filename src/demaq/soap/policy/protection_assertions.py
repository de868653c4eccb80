"""SignedParts, SignedElements, EncryptedParts and EncryptedElements: what of a message is protected (section 4)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from lxml import etree

from demaq.soap.policy.assertions import Assertion
from demaq.soap.policy.policy_errors import PolicyProblems, name_as_written
from demaq.soap.qualified_names import clark, local_name, shorten
from demaq.soap.security.security_requirements import ElementPath, MessageParts

_XPATH_1: Final = "http://www.w3.org/TR/1999/REC-xpath-19991116"
PROTECTION: Final = ("SignedParts", "SignedElements", "EncryptedParts", "EncryptedElements")


@dataclass(slots=True)
class _PartsBuilder:
    """Collects the parts of several assertions, which all hold."""

    body: bool = False
    headers: list[str] = field(default_factory=list)
    elements: list[ElementPath] = field(default_factory=list)

    def build(self) -> MessageParts:
        return MessageParts(
            body=self.body, headers=tuple(dict.fromkeys(self.headers)), elements=tuple(dict.fromkeys(self.elements))
        )


def read_parts(assertions: Iterable[Assertion], problems: PolicyProblems) -> tuple[MessageParts, MessageParts]:
    """Return the signed parts and the encrypted parts that assertions ask for together."""
    signed, encrypted = _PartsBuilder(), _PartsBuilder()
    for assertion in assertions:
        builder = signed if assertion.local.startswith("Signed") else encrypted
        for nested in assertion.nested or ():
            problems.refuse(nested)
        if assertion.local.endswith("Parts"):
            _add_parts(assertion, builder, problems)
        else:
            _add_elements(assertion, builder, problems)
    return signed.build(), encrypted.build()


def _add_parts(assertion: Assertion, builder: _PartsBuilder, problems: PolicyProblems) -> None:
    problems.refuse_parameters(assertion, "Body", "Header")
    if not assertion.parameters and assertion.local == "EncryptedParts":
        builder.body = True  # without children it is the Body (4.2.1)
    elif not assertion.parameters:
        problems.add(
            f"{name_as_written(assertion.element)} without children (the Body and all headers) is not supported",
            assertion.at,
            "name them: <sp:Body/> and <sp:Header Namespace=…/>",
        )
    for child in assertion.parameters:
        local = local_name(str(child.tag))
        builder.body = builder.body or local == "Body"
        if local == "Header":
            _add_header(assertion, child, builder, problems)


def _add_header(assertion: Assertion, header: etree._Element, builder: _PartsBuilder, problems: PolicyProblems) -> None:
    namespace, name = header.get("Namespace"), header.get("Name")
    if not namespace or set(header.attrib) - {"Name", "Namespace"}:
        problems.add(
            f"{name_as_written(header)} needs a Namespace, may have a Name, and nothing else", assertion.locate(header)
        )
    else:
        builder.headers.append(clark(namespace, name or "*"))


def _add_elements(assertion: Assertion, builder: _PartsBuilder, problems: PolicyProblems) -> None:
    problems.refuse_parameters(assertion, "XPath", "XPathVersion")
    version = assertion.attribute("XPathVersion")
    if version not in (None, _XPATH_1):
        problems.add(f"XPath of version {shorten(str(version))} is not supported", assertion.at, _XPATH_1)
    if not assertion.parameters:
        problems.add(f"{name_as_written(assertion.element)} has no XPath", assertion.at)
    for child in assertion.parameters:
        if local_name(str(child.tag)) != "XPath":
            continue
        path = str(child.xpath("string()")).strip()
        used = _find_prefixes(path)
        namespaces = {prefix: uri for prefix, uri in child.nsmap.items() if prefix and prefix in used}
        reason = _find_xpath_error(path, namespaces)
        if reason is not None:
            problems.add(f"the XPath {shorten(path)} cannot be used: {reason}", assertion.locate(child))
            continue
        builder.elements.append(ElementPath(path=path, namespaces=tuple(sorted(namespaces.items()))))


def _find_prefixes(path: str) -> set[str]:
    """Return the prefixes of the names in an XPath: what a single colon follows, outside of literals."""
    return set(re.findall(r"([\w.-]+):(?!:)", re.sub(r"'[^']*'|\"[^\"]*\"", "", path)))


def _find_xpath_error(path: str, namespaces: dict[str, str]) -> str | None:
    """Return what is wrong with an XPath. Unknown prefixes and functions are only noticed when it is evaluated."""
    try:
        found = etree.XPath(path, namespaces=namespaces)(etree.Element("envelope"))
    except etree.XPathError as error:
        return str(error)
    return None if isinstance(found, list) else "it selects no elements"
