"""One assertion of a policy in normal form: it has at most one alternative of its nested policy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from lxml import etree

from demaq.soap.policy.policy_names import POLICY_NAMESPACES, is_operator, namespace_of
from demaq.soap.qualified_names import child_elements, local_name
from demaq.source import SourceLocation


@dataclass(frozen=True, slots=True, kw_only=True)
class Assertion:
    """An element with parameters, and what its nested policy asks for besides."""

    element: etree._Element = field(repr=False)
    nested: tuple[Assertion, ...] | None = None
    """None if there is no nested policy, which is not the same as an empty one."""
    locate: Callable[[etree._Element], SourceLocation] = field(repr=False)

    @property
    def name(self) -> str:
        return str(self.element.tag)

    @property
    def local(self) -> str:
        return local_name(self.name)

    @property
    def namespace(self) -> str:
        return namespace_of(self.name)

    @property
    def at(self) -> SourceLocation:
        return self.locate(self.element)

    @property
    def parameters(self) -> list[etree._Element]:
        """The child elements except the nested policy."""
        return [child for child in child_elements(self.element) if not is_operator(str(child.tag), "Policy")]

    @property
    def attributes(self) -> dict[str, str]:
        """The attributes except those of WS-Policy, such as `wsp:Optional`."""
        return {
            str(name): str(value)
            for name, value in self.element.attrib.items()
            if namespace_of(str(name)) not in POLICY_NAMESPACES
        }

    def attribute(self, local: str) -> str | None:
        """Return an attribute by its local name: some tools write it without the prefix."""
        found = [value for name, value in self.attributes.items() if local_name(name) == local]
        return found[0].strip() if found else None


Alternative: TypeAlias = tuple[Assertion, ...]
"""Assertions that hold together."""
