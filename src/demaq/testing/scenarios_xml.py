"""Compare messages as XML, not as text.

Names count by namespace, not by prefix; the order of attributes, comments and white space between elements do not
count. In what is expected, `…` (or `*`) as an attribute's value or as all of an element's text matches anything there;
between elements it matches any number of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, TypeAlias

from lxml import etree

from demaq.documents import parse_document

if TYPE_CHECKING:
    from lxml.etree import _Element

WILDCARDS = ("…", "*")


@dataclass(frozen=True, slots=True)
class Element:
    """Names are `{namespace}local`, as lxml writes them."""

    name: str
    attributes: Mapping[str, str]
    children: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Instruction:
    target: str
    text: str


Node: TypeAlias = Element | Instruction | str


@dataclass(frozen=True, slots=True)
class ComparedDocument:
    """A document to compare, and which prefixes its author likes."""

    root: Element
    prefixes: Mapping[str, str | None]


def read_body(text: bytes | str, exact: bool = False) -> ComparedDocument:
    """Return a document to compare; `exact` keeps white space between elements. Raises a MessageError."""
    tree = parse_document(text).tree
    prefixes: dict[str, str | None] = {}
    for element in tree.getroot().iter("*"):
        for prefix, uri in element.nsmap.items():
            prefixes.setdefault(uri, prefix)
    return ComparedDocument(_element(tree.getroot(), exact), prefixes)


def is_wildcard(node: Node) -> bool:
    return isinstance(node, str) and node.strip() in WILDCARDS


def matches(expected: Node, actual: Node) -> bool:
    if isinstance(expected, Element) and isinstance(actual, Element):
        return (
            expected.name == actual.name
            and _attributes_match(expected.attributes, actual.attributes)
            and _children_match(expected.children, actual.children)
        )
    return expected == actual


def fill_wildcards(expected: Element, actual: Element) -> Element:
    """Return what is expected, with the wildcards that match replaced by what they match, for a diff of the rest."""
    if expected.name != actual.name:
        return expected
    attributes = {
        name: actual.attributes.get(name, value) if value in WILDCARDS else value
        for name, value in expected.attributes.items()
    }
    return Element(expected.name, attributes, _fill_children(expected.children, actual.children))


def _element(element: _Element, exact: bool) -> Element:
    children: list[Node] = []
    _add_text(children, element.text)
    for child in element:
        if isinstance(child, etree._ProcessingInstruction):
            children.append(Instruction(str(child.target), child.text or ""))
        elif not isinstance(child, etree._Comment):
            children.append(_element(child, exact))
        _add_text(children, child.tail)
    kept = tuple(children) if exact else _drop_whitespace(tuple(children))
    attributes = {str(name): str(value) for name, value in element.attrib.items()}
    return Element(str(element.tag), attributes, kept)


def _add_text(children: list[Node], text: str | None) -> None:
    if text:
        if children and isinstance(children[-1], str):  # a comment stood between
            children[-1] += text
        else:
            children.append(text)


def _drop_whitespace(children: tuple[Node, ...]) -> tuple[Node, ...]:
    if not any([isinstance(child, Element) for child in children]):
        return children
    return tuple([child for child in children if not isinstance(child, str) or child.strip()])


def _attributes_match(expected: Mapping[str, str], actual: Mapping[str, str]) -> bool:
    return expected.keys() == actual.keys() and all(
        [value in WILDCARDS or value == actual[name] for name, value in expected.items()]
    )


def _children_match(expected: Sequence[Node], actual: Sequence[Node]) -> bool:
    """Return whether the children match, each wildcard any number of them."""
    reached = {0}
    for child in expected:
        if not reached:
            return False
        if is_wildcard(child):
            reached = set(range(min(reached), len(actual) + 1))
        else:
            reached = {at + 1 for at in reached if at < len(actual) and matches(child, actual[at])}
    return len(actual) in reached


def _fill_children(expected: tuple[Node, ...], actual: tuple[Node, ...]) -> tuple[Node, ...]:
    if _children_match(expected, actual):
        return actual
    wild = [position for position, child in enumerate(expected) if is_wildcard(child)]
    if len(wild) == 1 and len(actual) >= len(expected) - 1:
        after = len(expected) - wild[0] - 1
        end = len(actual) - after
        front = _fill_children(expected[: wild[0]], actual[: wild[0]])
        return (*front, *actual[wild[0] : end], *_fill_children(expected[wild[0] + 1 :], actual[end:]))
    result = list(expected)
    blocks = SequenceMatcher(None, [_label(c) for c in expected], [_label(c) for c in actual], autojunk=False)
    for start, other, size in blocks.get_matching_blocks():
        for offset in range(size):
            mine, theirs = expected[start + offset], actual[other + offset]
            if isinstance(mine, Element) and isinstance(theirs, Element):
                result[start + offset] = fill_wildcards(mine, theirs)
    return tuple(result)


def _label(node: Node) -> str:
    return node.name if isinstance(node, Element) else ""
