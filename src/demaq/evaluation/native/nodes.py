"""Nodes of messages, as translated paths select them.

Elements, comments and processing instructions are lxml's. A text node is a string. A document is represented by its
root element.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, TypeVar

from lxml.etree import (  # type: ignore[attr-defined]  # its types lack the iterators
    ElementChildIterator,
    ElementDepthFirstIterator,
    _Comment,
    _Element,
    _ProcessingInstruction,
)

from demaq.evaluation.native.values import NeedsSaxon

T = TypeVar("T")

MADE = "made"
"""The address of trees that are constructed elements."""
XML = "{http://www.w3.org/XML/1998/namespace}"


class Attribute(NamedTuple):
    """An attribute whose name is known only at run time."""

    owner: _Element | None
    """None for a constructed attribute."""
    name: str
    """In lxml's notation."""
    value: str


# --- axes ---

children = ElementChildIterator
"""Iterates over the children of an element that a name test matches, like its method, which takes longer to begin."""
self_and_below = ElementDepthFirstIterator
"""The same for an element and all elements in it."""


def root_of(element: _Element) -> _Element:
    """Return the root element of the document. Raises NeedsSaxon for a constructed element, which is in none."""
    tree = element.getroottree()
    if tree.docinfo.URL == MADE:
        raise NeedsSaxon("a constructed element without document")
    return tree.getroot()


def root_named(root: _Element, tag: str) -> list[_Element]:
    return [root] if root.tag == tag else []


def parent(element: _Element, tag: str) -> list[_Element]:
    for found in element.iterancestors():
        return [found] if has_name(found, tag) else []
    return []


def parent_element(element: _Element) -> list[_Element]:
    """Return the parent. Raises NeedsSaxon if it is a document."""
    found = element.getparent()
    if found is None:
        raise NeedsSaxon("a document as a parent")
    return [found]


def ancestors_or_self(element: _Element, tag: str) -> list[_Element]:
    """Return ancestors, the nearest first."""
    found = list(element.iterancestors(tag))
    return [element, *found] if has_name(element, tag) else found


def following(element: _Element, tag: str) -> list[_Element]:
    found: list[_Element] = []
    for each in (element, *element.iterancestors()):
        for sibling in each.itersiblings("*"):
            found += sibling.iter(tag)
    return found


def preceding(element: _Element, tag: str) -> list[_Element]:
    """Return what ends before an element begins, the nearest first."""
    found: list[_Element] = []
    for each in (element, *element.iterancestors()):
        for sibling in each.itersiblings("*", preceding=True):
            found += reversed(list(sibling.iter(tag)))
    return found


def has_name(element: _Element, tag: str) -> bool:
    """Return whether a name test of lxml matches an element."""
    name: Any = element.tag
    if tag == "*" or name == tag:
        return True
    namespace, _, local = tag.rpartition("}")
    if namespace == "{*":
        return bool(name.rpartition("}")[2] == local)
    return local == "*" and bool(name[0] != "{" if namespace == "{" else name.rpartition("}")[0] == namespace)


def has(items: Iterator[object]) -> bool:
    return next(items, None) is not None


def texts_in(element: _Element) -> list[str]:
    """Return the text nodes among the children of an element."""
    return [text for text in [element.text, *[child.tail for child in element]] if text]


def child_nodes(element: _Element) -> list[_Element | str]:
    """Return all children of an element."""
    found: list[_Element | str] = [element.text] if element.text else []
    for child in element:
        found.append(child)
        if child.tail:
            found.append(child.tail)
    return found


def attribute(element: _Element, name: str) -> list[str]:
    value = element.get(name)
    return [] if value is None else [value]


def listed(item: T | None) -> list[T]:
    """Return the list of an item that may be missing."""
    return [] if item is None else [item]


def attributes_of(element: _Element, tag: str) -> list[Attribute]:
    """Return the attributes that a name test matches."""
    found = [Attribute(element, name, value) for name, value in element.items()]
    if tag == "*":
        return found
    namespace, _, local = tag.rpartition("}")
    if local != "*":
        found = [each for each in found if each.name.rpartition("}")[2] == local]
    if namespace == "{*":
        return found
    return [each for each in found if (each.name.rpartition("}")[0] or "{") == (namespace or "{")]


# --- order ---


def ordered(elements: list[_Element]) -> list[_Element]:
    """Return elements in document order, each once. Those of different documents are in order already."""
    wanted = set(elements)
    if len(wanted) <= 1:
        return elements[:1]
    line = [elements[0], *elements[0].iterancestors()]
    heights = {element: height for height, element in enumerate(line)}
    top = 0
    for element in wanted:
        above: _Element | None = element
        while above is not None and above not in heights:
            above = above.getparent()
        if above is None:
            return _ordered_by_document(elements)
        top = max(top, heights[above])
    return [element for element in line[top].iter("*") if element in wanted]


def _ordered_by_document(elements: list[_Element]) -> list[_Element]:
    by_root: dict[_Element, list[_Element]] = {}
    for element in elements:
        by_root.setdefault(element.getroottree().getroot(), []).append(element)
    return [element for group in by_root.values() for element in ordered(group)]


def united(*groups: list[_Element]) -> list[_Element]:
    """Return the union. Raises NeedsSaxon if elements are of several documents, whose order is not known."""
    elements = [element for group in groups for element in group]
    if elements:
        root = elements[0].getroottree().getroot()
        if any([element.getroottree().getroot() is not root for element in elements]):
            raise NeedsSaxon("elements of several documents")
    return ordered(elements)


def intersected(some: list[_Element], others: list[_Element]) -> list[_Element]:
    known = set(others)
    return united([element for element in some if element in known])


def excepted(some: list[_Element], others: list[_Element]) -> list[_Element]:
    known = set(others)
    return united([element for element in some if element not in known])


def is_before(one: _Element, other: _Element) -> bool:
    """Return whether an element is before another in document order."""
    return one is not other and united([one, other])[0] is one


def merged(groups: list[list[_Element]]) -> list[_Element]:
    """Return the elements of all groups in document order; each group is in order."""
    return groups[0] if len(groups) == 1 else ordered([element for group in groups for element in group])


def side_by_side(elements: list[_Element]) -> list[_Element]:
    """Return elements in document order. Raises NeedsSaxon if one is inside another."""
    known = set(elements)
    if len(known) < len(elements) or any([outer in known for each in elements for outer in each.iterancestors()]):
        raise NeedsSaxon("elements inside each other")
    return elements


def siblings(elements: Iterable[_Element]) -> list[list[_Element]]:
    """Return elements of one document grouped by their parents."""
    groups: dict[_Element | None, list[_Element]] = {}
    for element in elements:
        groups.setdefault(element.getparent(), []).append(element)
    return list(groups.values())


def item_at(items: list[T], position: int) -> list[T]:
    return items[position - 1 : position] if position else []


# --- values and names ---


def are_equal_elements(some: list[_Element], others: list[_Element]) -> bool:
    """Return whether elements are deep-equal, one by one."""
    return len(some) == len(others) and all([_are_equal(*pair) for pair in zip(some, others, strict=True)])


def _are_equal(one: _Element, other: _Element) -> bool:
    if one.tag != other.tag or dict(one.attrib) != dict(other.attrib):
        return False
    mine, theirs = [[node for node in child_nodes(each) if not isinstance(node, _NO_CONTENT)] for each in (one, other)]
    if len(mine) != len(theirs):
        return False
    for left, right in zip(mine, theirs, strict=True):
        if isinstance(left, str) or isinstance(right, str):
            if left != right:
                return False
        elif not _are_equal(left, right):
            return False
    return True


_NO_CONTENT = (_Comment, _ProcessingInstruction)


def string_of(element: _Element) -> str:
    if len(element):
        return "".join(element.itertext())
    return element.text or ""


def string_of_node(node: _Element | str) -> str:
    if isinstance(node, str):
        return node
    return (node.text or "") if isinstance(node, (_Comment, _ProcessingInstruction)) else string_of(node)


def value_of_node(node: _Element | str) -> str:
    """Return the typed value if it is untyped. Raises NeedsSaxon for comments and processing instructions."""
    if isinstance(node, (_Comment, _ProcessingInstruction)):
        raise NeedsSaxon("the value of a comment or processing instruction, which is a string")
    return string_of_node(node)


def name_of(element: _Element) -> str:
    local = local_name_of(element)
    return f"{element.prefix}:{local}" if element.prefix else local


def local_name_of(element: _Element) -> str:
    tag: Any = element.tag
    local: str = tag.rpartition("}")[2]
    return local


def namespace_of(element: _Element) -> str:
    tag: Any = element.tag
    namespace: str = tag.rpartition("}")[0][1:]
    return namespace


def name_of_attribute(attribute: Attribute) -> str:
    prefix = prefix_of_attribute(attribute)
    local = attribute.name.rpartition("}")[2]
    return f"{prefix}:{local}" if prefix else local


def local_name_of_attribute(attribute: Attribute) -> str:
    return attribute.name.rpartition("}")[2]


def namespace_of_attribute(attribute: Attribute) -> str:
    return attribute.name.rpartition("}")[0][1:]


def prefix_of_attribute(attribute: Attribute) -> str:
    """Return its prefix. Raises NeedsSaxon if it may be one of several."""
    namespace = namespace_of_attribute(attribute)
    if not namespace:
        return ""
    if attribute.name.startswith(XML):
        return "xml"
    assert attribute.owner is not None, "constructed attributes have no namespace"
    found = [prefix for prefix, uri in attribute.owner.nsmap.items() if prefix and uri == namespace]
    if len(found) != 1:
        raise NeedsSaxon("an attribute whose prefix is not known")
    return found[0]
