"""What becomes of a pending update list: section 3 of the XQuery Update Facility 1.0, without types.

Primitives are checked against each other and applied in the order of `upd:applyUpdates` (3.2.2), whatever the order of
the expressions they come from.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

from tests.support.reference.update_trees import (
    Attribute,
    Child,
    Comment,
    Document,
    Element,
    Instruction,
    Name,
    Node,
    Parent,
    Text,
    adopt,
    below,
)


class UpdateError(Exception):
    """The updates are refused, with any of these codes."""

    def __init__(self, codes: Iterable[str]) -> None:
        self.codes = frozenset(codes)
        super().__init__(", ".join(sorted(self.codes)))


@dataclass(frozen=True, slots=True)
class Choices:
    """What the recommendation leaves to the implementation: where `into` inserts, and which of several groups is first."""

    into: Literal["first", "last"] = "last"
    backwards: frozenset[str] = frozenset()
    """Kinds of primitives whose groups for one target stand in the opposite order of their expressions."""


NO_NAME = Name("", "", "")


@dataclass(frozen=True, slots=True)
class Primitive:
    """An entry of a pending update list."""

    kind: str
    target: Node
    content: tuple[Node, ...] = ()
    value: str = ""
    name: Name = NO_NAME


ONCE = {
    "rename": "XUDY0015",
    "replaceNode": "XUDY0016",
    "replaceValue": "XUDY0017",
    "replaceElementContent": "XUDY0017",
}

PHASES = (
    ("insertInto", "insertAttributes", "replaceValue", "rename"),
    ("insertBefore", "insertAfter", "insertIntoAsFirst", "insertIntoAsLast"),
    ("replaceNode",),
    ("replaceElementContent",),
    ("delete",),
)


def incompatible(pending: Sequence[Primitive]) -> set[str]:
    """What cannot be done together (step 1)."""
    errors: set[str] = set()
    seen: set[tuple[str, int]] = set()
    created: dict[int, list[tuple[str, str]]] = {}
    for primitive in pending:
        place = (primitive.kind, id(primitive.target))
        if place in seen and primitive.kind in ONCE:
            errors.add(ONCE[primitive.kind])
        seen.add(place)
        element, names = _created_bindings(primitive)
        created.setdefault(id(element), []).extend([name.binding for name in names])
    if any(in_conflict(bindings) for bindings in created.values()):
        errors.add("XUDY0024")
    return errors


def _created_bindings(primitive: Primitive) -> tuple[Node | None, list[Name]]:
    """For which element a primitive creates namespace bindings, and from which names."""
    target = primitive.target
    if primitive.kind == "rename" and isinstance(target, Element):
        return target, [primitive.name]
    names = [node.name for node in primitive.content if isinstance(node, Attribute)]
    if primitive.kind == "rename" and isinstance(target, Attribute):
        names = [primitive.name]
    return target if primitive.kind == "insertAttributes" else target.parent, [name for name in names if name.prefix]


def apply_updates(pending: Sequence[Primitive], copied_nodes: Sequence[Node], choices: Choices) -> None:
    """Steps 2 to 6; all nodes of the copies are given, because some are no longer in them when errors are looked for."""
    marked: list[tuple[Element, str]] = []
    grouped = _grouped(pending, choices)
    for phase in PHASES:
        for primitive in grouped:
            if primitive.kind in phase:
                _apply(primitive, marked, choices)
    inserted = [node for primitive in pending for root in primitive.content for node in below(root)]
    for node in [*copied_nodes, *inserted]:
        if isinstance(node, (Document, Element)):
            node.children = _merged(node.children)
    for node in copied_nodes:
        if isinstance(node, Element):
            keys = [attribute.name.key for attribute in node.attributes]
            if len(set(keys)) < len(keys):
                raise UpdateError({"XUDY0021"})  # even where the element is deleted
    for element, prefix in marked:
        if prefix:
            propagate_namespace(element, prefix, element.namespaces[prefix])


def _grouped(pending: Sequence[Primitive], choices: Choices) -> list[Primitive]:
    """Insertions of one kind at one target as a single one: their groups stay whole, in the order that was chosen."""
    groups: dict[tuple[str, int], list[Primitive]] = {}
    for primitive in pending:
        groups.setdefault((primitive.kind, id(primitive.target)), []).append(primitive)
    found: list[Primitive] = []
    for (kind, _), group in groups.items():
        if kind in choices.backwards:
            group = group[::-1]
        content = [node for primitive in group for node in primitive.content]
        first = group[0]
        found.append(Primitive(kind, first.target, tuple(content), first.value, first.name))
    return found


def _apply(primitive: Primitive, marked: list[tuple[Element, str]], choices: Choices) -> None:
    """3.1"""
    target, content = primitive.target, primitive.content
    match primitive.kind:
        case "insertBefore" | "insertAfter" | "insertInto" | "insertIntoAsFirst" | "insertIntoAsLast":
            _insert_children(primitive, marked, choices)
        case "insertAttributes":
            assert isinstance(target, Element)
            _add_attributes(target, content, marked)
        case "replaceNode":
            parent = target.parent
            assert parent is not None
            if isinstance(target, Attribute) and isinstance(parent, Element):
                parent.attributes.remove(target)
                _add_attributes(parent, content, marked)
            else:
                _put(parent, _position(target), content)
                parent.children.remove(target)  # type: ignore[arg-type]  # an attribute's parent is an element
            target.parent = None
        case "replaceValue":
            assert isinstance(target, (Attribute, Text, Comment, Instruction))
            target.value = primitive.value
        case "replaceElementContent":
            assert isinstance(target, Element)
            for child in target.children:
                child.parent = None
            target.children = []
            _put(target, 0, content)
        case "rename":
            _apply_rename(target, primitive.name, marked)
        case "delete":
            parent = target.parent
            if isinstance(target, Attribute) and isinstance(parent, Element):
                parent.attributes.remove(target)
            elif parent is not None:
                parent.children.remove(target)  # type: ignore[arg-type]  # an attribute's parent is an element
            target.parent = None


def _insert_children(primitive: Primitive, marked: list[tuple[Element, str]], choices: Choices) -> None:
    target = primitive.target
    parent: Parent | None = target.parent
    match primitive.kind:
        case "insertBefore":
            position = _position(target)
        case "insertAfter":
            position = _position(target) + 1
        case _:
            assert isinstance(target, (Document, Element))
            parent = target
            first = primitive.kind == "insertIntoAsFirst" or (
                primitive.kind == "insertInto" and choices.into == "first"
            )
            position = 0 if first else len(parent.children)
    assert parent is not None
    _put(parent, position, primitive.content)
    if isinstance(parent, Element):
        marked += [(parent, prefix) for prefix in parent.namespaces]


def _position(node: Node) -> int:
    parent = node.parent
    assert parent is not None
    return [child is node for child in parent.children].index(True)


def _put(parent: Parent, position: int, nodes: Sequence[Node]) -> None:
    children: list[Child] = []
    for node in nodes:
        assert not isinstance(node, (Document, Attribute))
        node.parent = parent
        children.append(node)
    parent.children[position:position] = children


def _add_attributes(element: Element, nodes: Sequence[Node], marked: list[tuple[Element, str]]) -> None:
    attributes = [node for node in nodes if isinstance(node, Attribute)]
    adopt(element, attributes)
    for attribute in attributes:
        _bind(element, attribute.name, marked)


def _apply_rename(target: Node, name: Name, marked: list[tuple[Element, str]]) -> None:
    if isinstance(target, Element):
        target.name = name
        if not name.prefix and not name.uri:
            target.namespaces.pop("", None)
        else:
            _bind(target, name, marked)
    elif isinstance(target, Attribute):
        target.name = name
        if target.parent is not None and name.prefix:
            _bind(target.parent, name, marked)
    elif isinstance(target, Instruction):
        target.target = name.local


def _bind(element: Element, name: Name, marked: list[tuple[Element, str]]) -> None:
    if name.uri and name.prefix not in ("xml", *element.namespaces):
        element.namespaces[name.prefix] = name.uri
        marked.append((element, name.prefix))


def propagate_namespace(element: Element, prefix: str, uri: str) -> None:
    """3.2.6"""
    for child in element.children:
        if isinstance(child, Element) and prefix not in child.namespaces:
            child.namespaces[prefix] = uri
            propagate_namespace(child, prefix, uri)


def _merged(children: Sequence[Child]) -> list[Child]:
    """Adjacent text nodes become one, empty ones none (steps 3 and 4)."""
    found: list[Child] = []
    for child in children:
        last = found[-1] if found else None
        if isinstance(child, Text) and isinstance(last, Text):
            last.value += child.value
        elif not (isinstance(child, Text) and not child.value):
            found.append(child)
    return found


def in_conflict(bindings: Sequence[tuple[str, str]]) -> bool:
    return any(one[0] == other[0] and one[1] != other[1] for one, other in combinations(bindings, 2))
