"""Items of any kind in one sequence: each shows by its Python type what it is.

Elements, comments and processing instructions are lxml's, attributes are `Attribute`s; atomic values are as in
`atomic_values`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from lxml.etree import _Element

from demaq.evaluation.native.atomic_values import Untyped
from demaq.evaluation.native.casts import text_of
from demaq.evaluation.native.comparisons import is_true
from demaq.evaluation.native.fallback import NeedsSaxon
from demaq.evaluation.native.markup import copied_made, copied_made_into, escape, made_into, mixed, string_of_made
from demaq.evaluation.native.nodes import Attribute, value_of_node


class TextNode(NamedTuple):
    value: str


class MadeNode(NamedTuple):
    """A constructed element."""

    markup: str


_NODES = (_Element, Attribute, TextNode, MadeNode)


def item_of_node(node: _Element | str) -> _Element | TextNode:
    return TextNode(node) if isinstance(node, str) else node


def value_of_item(item: Any) -> Any:
    """Return the atomized value."""
    if isinstance(item, _Element):
        return Untyped(value_of_node(item))
    if isinstance(item, (Attribute, TextNode)):
        return Untyped(item.value)
    return Untyped(string_of_made(item.markup)) if isinstance(item, MadeNode) else item


def are_true(items: Sequence[Any]) -> bool:
    """Return the effective boolean value (XQuery 3.1, 2.4.3)."""
    return True if items and isinstance(items[0], _NODES) else is_true(items)


def attributes_in(items: Sequence[Any]) -> list[Attribute]:
    """Return the attributes that other items follow."""
    found = [item for item in items if isinstance(item, Attribute)]
    if any([not isinstance(item, Attribute) for item in items[: len(found)]]):
        raise NeedsSaxon("an attribute after other content")
    return found


def items_as_content(items: Sequence[Any], namespaces: Mapping[str, str], is_fitted: bool) -> str:
    """Return items as content of an element with these namespaces, except for attributes.

    `is_fitted` says that constructed elements are made for it.
    """
    parts: list[tuple[bool, tuple[str]]] = []
    for item in items:
        if isinstance(item, _Element):
            parts.append((False, (copied_made_into(item, namespaces) if namespaces else copied_made(item),)))
        elif isinstance(item, TextNode):
            parts.append((False, (escape(item.value),)))
        elif isinstance(item, MadeNode):
            parts.append((False, (item.markup if is_fitted or "" not in namespaces else made_into(item.markup),)))
        elif not isinstance(item, Attribute):
            parts.append((True, (escape(text_of(item)),)))
    return mixed(*parts)
