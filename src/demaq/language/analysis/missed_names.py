"""Find names that miss an element of a message only because they are in another namespace.

A rule that names `/order` never fires for `<order xmlns="urn:o"/>`, although both are correct. The names are compared
with a schema, or with the message itself, and the hint says what to declare.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from lxml import etree

from demaq.language.analysis.message_names import MessageName
from demaq.language.analysis.shapes import ElementName


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The elements of a message, or of all messages that a schema allows."""

    roots: frozenset[ElementName]
    elements: frozenset[ElementName] | None
    """All elements that can occur, roots included; None if any element can."""

    def __or__(self, other: Vocabulary) -> Vocabulary:
        known = None if self.elements is None or other.elements is None else self.elements | other.elements
        return Vocabulary(self.roots | other.roots, known)


@dataclass(frozen=True, slots=True)
class MissedName:
    """A name that is selected, and the namespace that elements with this local name have in messages."""

    asked: MessageName
    namespace: str
    hint: str
    """What to declare or to write."""

    @property
    def words(self) -> str:
        uri, local = self.asked.name
        return f'"{local}" is {describe_namespace(uri)} here, and {describe_namespace(self.namespace)} in'


def read_vocabulary(root: etree._Element) -> Vocabulary:
    """Return the elements of a message."""
    names = frozenset([_name_of(element) for element in root.iter(etree.Element)])
    return Vocabulary(frozenset([_name_of(root)]), names)


def find_missed_names(
    asked: Sequence[MessageName], vocabulary: Vocabulary, prefixes: Mapping[str, str]
) -> list[MissedName]:
    """Return the names that are in another namespace than the element meant, each once.

    `prefixes` are those of the module with the names. A name that is also selected in the right namespace is not
    missed.
    """
    all_asked = {each.name for each in asked}
    found: dict[tuple[ElementName, str], MissedName] = {}
    for each in asked:
        known = vocabulary.roots if each.is_root else vocabulary.elements
        if known is None or each.name in known:
            continue
        local = each.name[1]
        others = sorted([other for other, name in known if name == local])
        if others and not any([(other, local) in all_asked for other in others]):
            hint = namespace_hint(local, others[0], prefixes)
            found.setdefault((each.name, others[0]), MissedName(each, others[0], hint))
    return list(found.values())


def declaration(text: str, namespace: str) -> str:
    """Return an XQuery declaration with a namespace as its string."""
    literal = namespace.replace("&", "&amp;").replace('"', '""')
    return f'{text} "{literal}";'


def namespace_hint(local: str, namespace: str, prefixes: Mapping[str, str]) -> str:
    """Return what to declare or to write for an element that is in this namespace."""
    if not namespace:
        return f"Q{{}}{local} means the one in no namespace, *:{local} one in any"
    declared = [prefix for prefix, uri in prefixes.items() if prefix and uri == namespace]
    if declared:
        return f"write {declared[0]}:{local}"
    prefix = _free_prefix(namespace, prefixes)
    own = f"{declaration(f'declare namespace {prefix} =', namespace)} and {prefix}:{local}"
    if prefixes.get(""):
        return own
    default = declaration("declare default element namespace", namespace)
    return f"{default} (elements that the module builds without a prefix are then in it too), or {own}"


def attribute_hint(local: str, namespace: str, prefixes: Mapping[str, str]) -> str:
    """Return what to declare or to write for an attribute in this namespace. A default namespace is for elements."""
    if not namespace:
        return f"write @{local}"
    declared = [prefix for prefix, uri in prefixes.items() if prefix and uri == namespace]
    if declared:
        return f"write @{declared[0]}:{local}"
    prefix = _free_prefix(namespace, prefixes)
    return f"{declaration(f'declare namespace {prefix} =', namespace)} and @{prefix}:{local}"


def describe_namespace(namespace: str) -> str:
    return f'in namespace "{namespace}"' if namespace else "in no namespace"


def _free_prefix(namespace: str, prefixes: Iterable[str]) -> str:
    """Return an unused prefix: the first letter of the last word of the namespace."""
    words: list[str] = re.findall(r"[a-z]+", namespace.lower()) or ["m"]
    first = words[-1][0]
    candidates = [first, *[f"{first}{number}" for number in range(1, len(list(prefixes)) + 2)]]
    return next(iter([prefix for prefix in candidates if prefix not in prefixes]))


def _name_of(element: etree._Element) -> ElementName:
    name = etree.QName(element)
    return name.namespace or "", name.localname
