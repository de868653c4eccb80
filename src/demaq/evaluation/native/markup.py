"""Write new elements as text.

A constructed element is represented by its markup, which declares every namespace it needs unless the element that
it is content of does. A default namespace comes first in a start tag. All else that XQuery says of namespaces in
copies then follows from how XML is read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from lxml.etree import _Element, tostring

from demaq.evaluation.native.nodes import MADE, XML, Attribute, prefix_of_attribute
from demaq.evaluation.native.values import NeedsSaxon
from demaq.xml_parsers import parse_made

TREES_MAX = 64
"""So many constructed elements that are global variables are kept as trees."""

_START = re.compile(r"<[^\s/>]+")
_UNPREFIXED = re.compile(r"<[^:\s/>!?]+[\s/>]")
_UNDECLARED_PREFIXED = re.compile(r'<[^:\s/>!?]+:[^<>]* xmlns=""')
_PREFIXED = re.compile(r"<[^:\s/>!?]+:")
_NCNAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")


def escape(text: str) -> str:
    """Return text as content."""
    if "&" in text or "<" in text or ">" in text or "\r" in text:
        return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("\r", "&#13;")
    return text


_IN_ATTRIBUTES = str.maketrans(
    {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "\r": "&#13;", "\n": "&#10;", "\t": "&#9;"}
)


_find_escaped = re.compile('[&<>"\r\n\t]').search


def escape_value(text: str) -> str:
    """Return text as the value of an attribute, between double quotes."""
    # Most values have nothing to escape, and finding that out is faster than translating them.
    return text if text.isalnum() or _find_escaped(text) is None else text.translate(_IN_ATTRIBUTES)


def closed(start: str, content: str, end: str) -> str:
    """Return an element, given its start tag without the last character."""
    return f"{start}>{content}{end}" if content else f"{start}/>"


def named_element(name: str, attributes: str, content: str) -> str:
    """Return an element whose name is computed."""
    return f"<{name}{attributes}>{content}</{name}>" if content else f"<{name}{attributes}/>"


# --- attributes ---


def given_attribute(name: str, values: Sequence[str]) -> str:
    """Return at most one attribute."""
    if not values:
        return ""
    if len(values) > 1:
        raise NeedsSaxon("several attributes of one name")
    return f' {name}="{escape_value(values[0])}"'


def no_attributes(values: Sequence[object]) -> str:
    """Raises NeedsSaxon if there are any: they follow content, or one of their name is there."""
    if values:
        raise NeedsSaxon("an attribute after other content, or one that is there")
    return ""


def given_attributes(attributes: Iterable[Attribute], taken: Iterable[str], namespaces: Mapping[str, str]) -> str:
    """Return attributes whose names are known at run time.

    `taken` are the names of other attributes, `namespaces` those in scope, by prefix.
    """
    names = set(taken)
    bound = dict(namespaces)
    found: list[str] = []
    for attribute in attributes:
        if attribute.name in names:
            raise NeedsSaxon("several attributes of one name")
        names.add(attribute.name)
        prefix = prefix_of_attribute(attribute)
        namespace, _, local = attribute.name.rpartition("}")
        if prefix and not attribute.name.startswith(XML) and bound.get(prefix) != namespace[1:]:
            if prefix in bound:
                raise NeedsSaxon("a prefix that stands for another namespace")
            bound[prefix] = namespace[1:]
            found.append(f' xmlns:{prefix}="{escape_value(namespace[1:])}"')
        found.append(f' {prefix}:{local}="' if prefix else f' {local}="')
        found.append(f'{escape_value(attribute.value)}"')
    return "".join(found)


def ncname(text: str) -> str:
    """Return a computed name without a prefix."""
    name = text.strip(" \t\r\n")
    if not _NCNAME.fullmatch(name) or name == "xmlns":
        raise NeedsSaxon("a computed name with a prefix, or an unusual one")
    return name


def made_attribute(name: str, value: str) -> Attribute:
    return Attribute(None, name, value)


# --- content ---


def mixed(*parts: tuple[bool, Iterable[str]]) -> str:
    """Return content of nodes and values in turn, each with whether it is values: these have spaces between them."""
    found: list[str] = []
    after_value = False
    for is_value, texts in parts:
        for text in texts:
            if is_value and after_value:
                found.append(" ")
            found.append(text)
            after_value = is_value
    return "".join(found)


def copied(element: _Element) -> str:
    """Return an element, comment or processing instruction with all namespaces that are in scope."""
    tag = element.tag
    if len(element) or not isinstance(tag, str) or tag[0] == "{" or element.nsmap:
        return tostring(element, encoding="unicode", with_tail=False)
    attributes = ""
    for name, value in element.items():
        if name[0] == "{":
            return tostring(element, encoding="unicode", with_tail=False)
        attributes += f' {name}="{escape_value(value)}"'
    text = element.text
    return f"<{tag}{attributes}>{escape(text)}</{tag}>" if text else f"<{tag}{attributes}/>"


def copied_made(element: _Element) -> str:
    """Return the same for an element that may be in a constructed one, where Saxon does not have all namespaces."""
    around = element.getparent()
    if around is not None and around.nsmap and element.getroottree().docinfo.URL == MADE:
        names = [element.tag, *element.attrib] if isinstance(element.tag, str) else []
        used = {str(name).rpartition("}")[0][1:] for name in names}
        if not used.issuperset(around.nsmap.values()):
            raise NeedsSaxon("an element in a constructed one that does not use all namespaces there")
    return copied(element)


def copied_into(element: _Element, namespaces: Mapping[str, str]) -> str:
    """Return an element as content of one that has namespaces in scope, by prefix; a default has the prefix ""."""
    return _fit_copy(element, copied(element), namespaces)


def copied_made_into(element: _Element, namespaces: Mapping[str, str]) -> str:
    return _fit_copy(element, copied_made(element), namespaces)


def _fit_copy(element: _Element, text: str, namespaces: Mapping[str, str]) -> str:
    if not isinstance(element.tag, str):
        return text
    own = element.nsmap
    for prefix, namespace in namespaces.items():
        if own.get(prefix or None) == namespace:
            declaration = f' xmlns:{prefix}="{namespace}"' if prefix else f' xmlns="{namespace}"'
            text = text.replace(declaration, "", 1)
    if "" in namespaces:
        _refuse_undeclared(text)
    if "" not in namespaces or None in own:
        return text
    if element.tag[0] != "{":
        return _undeclare(text)
    if next(element.iter("{}*"), None) is not None:
        raise NeedsSaxon("an element without namespace inside of one that inherits a default namespace")
    return text


def copied_document(root: _Element) -> str:
    """Return a whole document. Raises NeedsSaxon if there is anything beside its root element."""
    if root.getprevious() is not None or root.getnext() is not None:
        raise NeedsSaxon("comments or processing instructions around the root element")
    return copied(root)


def copied_document_into(root: _Element, namespaces: Mapping[str, str]) -> str:
    copied_document(root)
    return copied_into(root, namespaces)


def copied_node(node: _Element | str) -> str:
    return escape(node) if isinstance(node, str) else copied_made(node)


def copied_node_into(node: _Element | str, namespaces: Mapping[str, str]) -> str:
    return escape(node) if isinstance(node, str) else copied_made_into(node, namespaces)


def made_into(text: str) -> str:
    """Return a constructed element as content of one that has a default namespace."""
    match = _START.match(text)
    assert match is not None, "an element begins with its name"
    _refuse_undeclared(text)
    if text.startswith(' xmlns="', match.end()):
        return text
    if ":" not in match[0]:
        return _undeclare(text)
    if _PREFIXED.search(text, match.end()):
        raise NeedsSaxon("an element with a prefix in another one, where there is a default namespace")
    if _UNPREFIXED.search(text):
        raise NeedsSaxon("an element without namespace inside of one that inherits a default namespace")
    return text


def _refuse_undeclared(text: str) -> None:
    """Raise NeedsSaxon for an element with a prefix and no default namespace: a copy may get one in Saxon."""
    if ' xmlns=""' in text and _UNDECLARED_PREFIXED.search(text):
        raise NeedsSaxon("an element with a prefix that takes a default namespace back")


def _undeclare(text: str) -> str:
    match = _START.match(text)
    assert match is not None, "an element begins with its name"
    return f'{match[0]} xmlns=""{text[match.end() :]}'


def tree_of(text: str) -> _Element:
    """Return a constructed element as a tree."""
    return parse_made(text, MADE)


@lru_cache(TREES_MAX)
def global_tree(variable: str, text: str) -> _Element:
    """Return the element that is the value of a global variable: one tree for all references to it."""
    return parse_made(text, MADE)


def string_of_made(text: str) -> str:
    return "".join(parse_made(text).itertext())
