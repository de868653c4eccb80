"""Trees that can be changed: the nodes of XQuery's data model, as far as updates can see them.

Every element knows all namespaces that are in scope for it, as the data model has it; where XML says so by silence,
`written` says it by comparing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from lxml import etree

XML = "http://www.w3.org/XML/1998/namespace"


@dataclass(frozen=True, slots=True)
class Name:
    """A name with its prefix. Two names are the same where namespace and local part are: see `key`."""

    prefix: str
    uri: str
    local: str

    @property
    def key(self) -> tuple[str, str]:
        return (self.uri, self.local)

    @property
    def binding(self) -> tuple[str, str]:
        """The implied namespace binding (1.1 Terminology); the empty string stands for what is absent."""
        return (self.prefix, self.uri)


@dataclass(slots=True, eq=False)
class Document:
    children: list[Child] = field(default_factory=list)
    parent: None = None


@dataclass(slots=True, eq=False)
class Element:
    name: Name
    namespaces: dict[str, str] = field(default_factory=dict)
    """Prefix to namespace; the default namespace has the empty prefix. `xml` goes without saying."""
    attributes: list[Attribute] = field(default_factory=list)
    children: list[Child] = field(default_factory=list)
    parent: Parent | None = None


@dataclass(slots=True, eq=False)
class Attribute:
    name: Name
    value: str
    parent: Element | None = None


@dataclass(slots=True, eq=False)
class Text:
    value: str
    parent: Parent | None = None


@dataclass(slots=True, eq=False)
class Comment:
    value: str
    parent: Parent | None = None


@dataclass(slots=True, eq=False)
class Instruction:
    target: str
    value: str
    parent: Parent | None = None


Parent: TypeAlias = Document | Element
Child: TypeAlias = Element | Text | Comment | Instruction
Node: TypeAlias = Document | Child | Attribute


# --- looking ------------------------------------------------------------------------------------------------------------


def below(root: Node) -> Iterator[Node]:
    """The node and everything in it in document order; attributes by their names, since they have no order."""
    yield root
    if isinstance(root, Element):
        yield from sorted(root.attributes, key=lambda attribute: attribute.name.key)
    if isinstance(root, (Document, Element)):
        for child in root.children:
            yield from below(child)


def string_value(node: Node) -> str:
    if isinstance(node, (Document, Element)):
        return "".join([child.value for child in below(node) if isinstance(child, Text)])
    return node.value


# --- making -------------------------------------------------------------------------------------------------------------


def copied(node: Node) -> Node:
    """A copy without a parent. It keeps the namespaces in scope: `copy-namespaces preserve`."""
    match node:
        case Document():
            return adopt(Document(), children=[_copied_child(child) for child in node.children])
        case Element():
            return _copied_child(node)
        case Attribute():
            return Attribute(node.name, node.value)
        case _:
            return _copied_child(node)


def _copied_child(node: Child) -> Child:
    match node:
        case Element():
            copy = Element(node.name, dict(node.namespaces))
            attributes = [Attribute(attribute.name, attribute.value) for attribute in node.attributes]
            adopt(copy, attributes, [_copied_child(child) for child in node.children])
            return copy
        case Text():
            return Text(node.value)
        case Comment():
            return Comment(node.value)
        case Instruction():
            return Instruction(node.target, node.value)


def adopt(parent: Parent, attributes: Iterable[Attribute] = (), children: Iterable[Child] = ()) -> Parent:
    """The same parent, with more attributes and children."""
    if isinstance(parent, Element):
        for attribute in attributes:
            attribute.parent = parent
            parent.attributes.append(attribute)
    for child in children:
        child.parent = parent
        parent.children.append(child)
    return parent


def read_document(text: str) -> Document:
    """The tree of a document's text."""
    root = etree.fromstring(text.encode(), etree.XMLParser(remove_blank_text=False, resolve_entities=False))
    around = [*reversed(list(root.itersiblings(preceding=True))), root, *root.itersiblings()]
    document = Document()
    adopt(document, children=[read(node) for node in around])
    return document


def read_element(text: str) -> Element:
    """The outermost element of a document's text, without the document."""
    found = read(etree.fromstring(text.encode()))
    assert isinstance(found, Element)
    return found


def read(source: Any) -> Child:
    """The tree of an lxml node."""
    if source.tag is etree.Comment:
        return Comment(source.text or "")
    if source.tag is etree.PI:
        return Instruction(source.target, source.text or "")
    name = etree.QName(source)
    namespaces = {prefix or "": uri or "" for prefix, uri in source.nsmap.items() if uri and prefix != "xml"}
    element = Element(Name(source.prefix or "", name.namespace or "", name.localname), namespaces)
    children: list[Child] = [Text(source.text)] if source.text else []
    for child in source:
        children.append(read(child))
        if child.tail:
            children.append(Text(child.tail))
    adopt(element, [_attribute(source, key, value) for key, value in source.attrib.items()], children)
    return element


def _attribute(source: Any, key: str, value: str) -> Attribute:
    name = etree.QName(key)
    if name.namespace is None:
        return Attribute(Name("", "", name.localname), value)
    written = source.xpath(
        "name(@*[local-name() = $local and namespace-uri() = $uri])", local=name.localname, uri=name.namespace
    )
    return Attribute(Name(written.partition(":")[0], name.namespace, name.localname), value)


# --- comparing ----------------------------------------------------------------------------------------------------------


def written(nodes: Sequence[Node], around: dict[str, str] | None = None) -> tuple[Any, ...]:
    """Equal for nodes that XML 1.0 writes alike.

    XML cannot take a prefix back, so an element has the prefixes of the element around it too; only the default
    namespace can be undone. Attributes have no order, and a processing instruction's value begins at what is no space.
    """
    return tuple([_written(node, around or {}) for node in nodes])


def _written(node: Node, around: dict[str, str]) -> tuple[Any, ...]:
    match node:
        case Document():
            return ("document", *written(node.children))
        case Element():
            kept = {prefix: uri for prefix, uri in around.items() if prefix}
            namespaces = {**kept, **node.namespaces}
            attributes = sorted([_written(attribute, {}) for attribute in node.attributes])
            # What a prefixed element says about the default namespace concerns only its children, which say it too.
            # XQuery has no way to take a default namespace back.
            shown = {prefix: uri for prefix, uri in namespaces.items() if prefix or not node.name.prefix}
            return (
                "element",
                _written_name(node.name),
                tuple(sorted(shown.items())),
                tuple(attributes),
                *written(node.children, namespaces),
            )
        case Attribute():
            return ("attribute", _written_name(node.name), node.value)
        case Text():
            return ("text", node.value)
        case Comment():
            return ("comment", node.value)
        case Instruction():
            return ("instruction", node.target, re.sub(r"^[ \t\r\n]+", "", node.value))


def _written_name(name: Name) -> str:
    return f"{name.prefix}:Q{{{name.uri}}}{name.local}"
