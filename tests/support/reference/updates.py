"""What updates on copies mean: the XQuery Update Facility 1.0 (W3C Recommendation, 17 March 2011), sentence by sentence.

An update comes with its operands evaluated: which nodes it is about, what is to be put there, the new name. Each is
checked as section 2.4 says and becomes update primitives, which `update_primitives` applies. Types are left out: nothing
here is ever validated.

Which of several errors is raised is left open (XQuery 3.1, 2.3.4), so an UpdateError has every code that is allowed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from tests.support.reference.update_primitives import (
    Choices,
    Primitive,
    UpdateError,
    apply_updates,
    in_conflict,
    incompatible,
)
from tests.support.reference.update_trees import (
    XML,
    Attribute,
    Comment,
    Document,
    Element,
    Instruction,
    Name,
    Node,
    Text,
    below,
    copied,
    string_value,
)

Op = Literal["into", "as first into", "as last into", "before", "after", "delete", "replace", "replace value", "rename"]
Item: TypeAlias = Node | str
"""A node, or an atomic value as the string it is cast to."""

XMLNS = "http://www.w3.org/2000/xmlns/"
NCNAME = re.compile(r"[^\W\d][\w.\-]*")


@dataclass(frozen=True, slots=True)
class Update:
    """An updating expression whose operands have been evaluated."""

    op: Op
    targets: Sequence[Item]
    content: Sequence[Item] = ()
    name: Name | str | None = None


def copy_source(items: Sequence[Item]) -> Node:
    """What `copy $c := …` binds (2.4.5)."""
    if len(items) != 1 or isinstance(items[0], str):
        raise UpdateError({"XUTY0013"})
    return copied(items[0])


def update_copies(
    copies: Sequence[Node],
    updates: Sequence[Update],
    known: Mapping[str, str] | None = None,
    choices: Choices | None = None,
) -> None:
    """What `modify` does to the copies. `known` are the prefixes that names written as strings may use."""
    pending: list[Primitive] = []
    errors: set[str] = set()
    for update in updates:
        found, wrong = _EVALUATED[update.op](update, known or {})
        pending += found
        errors |= wrong
    ours = {id(node) for copy in copies for node in below(copy)}
    if any(id(primitive.target) not in ours for primitive in pending):
        errors.add("XUDY0014")
    errors |= incompatible(pending)  # `upd:mergeUpdates` may say so before another expression is looked at
    if errors:
        raise UpdateError(errors)
    apply_updates(pending, [node for copy in copies for node in below(copy)], choices or Choices())


# --- 2.4 expressions: operands to primitives ----------------------------------------------------------------------------

Evaluated: TypeAlias = tuple[list[Primitive], set[str]]

INSERTIONS = {
    "into": "insertInto",
    "as first into": "insertIntoAsFirst",
    "as last into": "insertIntoAsLast",
    "before": "insertBefore",
    "after": "insertAfter",
}


def _insert(update: Update, known: Mapping[str, str]) -> Evaluated:
    """2.4.1"""
    inserted = content_sequence(update.content)
    attributes = [node for node in inserted if isinstance(node, Attribute)]
    children = [node for node in inserted if not isinstance(node, Attribute)]
    errors: set[str] = set()
    if any(isinstance(node, Attribute) for node in inserted[len(attributes) :]):
        errors.add("XUTY0004")
    beside = update.op in ("before", "after")
    target = _single(update.targets)
    if not update.targets:
        return [], errors | {"XUDY0027"}
    if not beside and not isinstance(target, (Element, Document)):
        return [], errors | {"XUTY0005"}
    if beside and (target is None or isinstance(target, (Document, Attribute))):
        return [], errors | {"XUTY0006"}
    assert target is not None
    parent = target.parent if beside else target
    if parent is None:
        return [], errors | {"XUDY0029"}
    primitives: list[Primitive] = []
    if attributes:
        if isinstance(parent, Element):
            errors |= _conflicts(parent, [attribute.name for attribute in attributes])
        else:
            errors.add("XUDY0030" if beside else "XUTY0022")
        primitives.append(Primitive("insertAttributes", parent, tuple(attributes)))
    if children:
        primitives.append(Primitive(INSERTIONS[update.op], target, tuple(children)))
    return primitives, errors


def _delete(update: Update, known: Mapping[str, str]) -> Evaluated:
    """2.4.2: what has no parent is left out, whatever it is."""
    nodes = [target for target in update.targets if not isinstance(target, str)]
    if len(nodes) < len(update.targets):
        return [], {"XUTY0007"}
    return [Primitive("delete", node) for node in nodes if node.parent is not None], set()


def _replace(update: Update, known: Mapping[str, str]) -> Evaluated:
    """2.4.3.1"""
    replacement = content_sequence(update.content)
    target = _single(update.targets)
    if not update.targets:
        return [], {"XUDY0027"}
    if target is None or isinstance(target, Document):
        return [], {"XUTY0008"}
    errors = {"XUDY0009"} if target.parent is None else set()
    attributes = [node for node in replacement if isinstance(node, Attribute)]
    if isinstance(target, Attribute):
        if len(attributes) < len(replacement):
            errors.add("XUTY0011")
        if target.parent is not None:
            errors |= _conflicts(target.parent, [attribute.name for attribute in attributes])
    elif attributes:
        errors.add("XUTY0010")
    return [Primitive("replaceNode", target, tuple(replacement))], errors


def _replace_value(update: Update, known: Mapping[str, str]) -> Evaluated:
    """2.4.3.2: the content is what a text node constructor would make of it."""
    target = _single(update.targets)
    if not update.targets:
        return [], {"XUDY0027"}
    if target is None or isinstance(target, Document):
        return [], {"XUTY0008"}
    value = " ".join([item if isinstance(item, str) else string_value(item) for item in update.content])
    if isinstance(target, Element):
        return [Primitive("replaceElementContent", target, (Text(value),) if update.content else ())], set()
    errors = set()
    if isinstance(target, Comment) and ("--" in value or value.endswith("-")):
        errors.add("XQDY0072")
    if isinstance(target, Instruction) and "?>" in value:
        errors.add("XQDY0026")
    return [Primitive("replaceValue", target, value=value)], errors


def _rename(update: Update, known: Mapping[str, str]) -> Evaluated:
    """2.4.4"""
    target = _single(update.targets)
    if not update.targets:
        return [], {"XUDY0027"}
    if not isinstance(target, (Element, Attribute, Instruction)):
        return [], {"XUTY0012"}
    try:
        if isinstance(target, Instruction):
            return [Primitive("rename", target, name=instruction_name(update.name))], set()
        name = node_name(update.name, target, known)
    except UpdateError as wrong:
        return [], set(wrong.codes)
    errors = set()
    if isinstance(target, Element):
        # An element without a default namespace has no binding that a new default namespace could be in conflict with.
        if target.namespaces.get(name.prefix, name.uri) != name.uri:
            errors.add("XUDY0023")
    elif target.parent is not None and name.uri:
        errors |= _conflicts(target.parent, [name])
    return [Primitive("rename", target, name=name)], errors


_EVALUATED = {
    **dict.fromkeys(INSERTIONS, _insert),
    "delete": _delete,
    "replace": _replace,
    "replace value": _replace_value,
    "rename": _rename,
}


def _single(targets: Sequence[Item]) -> Node | None:
    return targets[0] if len(targets) == 1 and not isinstance(targets[0], str) else None


def content_sequence(items: Sequence[Item]) -> list[Node]:
    """Items as an enclosed expression of an element constructor makes nodes of them (XQuery 3.1, 3.9.1.3, rule 1e).

    Adjacent atomic values become one text node, with spaces between them, even if it is empty; nodes are copied; a
    document gives way to its children. Text nodes side by side are merged only after all updates.
    """
    nodes: list[Node] = []
    previous: Item | None = None
    for item in items:
        if isinstance(item, str) and isinstance(previous, str):
            last = nodes[-1]
            assert isinstance(last, Text)
            last.value += f" {item}"
        elif isinstance(item, str):
            nodes.append(Text(item))
        elif isinstance(item, Document):
            nodes += [copied(child) for child in item.children]
        else:
            nodes.append(copied(item))
        previous = item
    return nodes


def _conflicts(element: Element, names: Sequence[Name]) -> set[str]:
    """Names that attributes of an element are to have, against its namespaces and against each other."""
    errors = set()
    bindings = [name.binding for name in names if name.prefix and name.uri != XML]
    if any(element.namespaces.get(prefix, uri) != uri for prefix, uri in bindings):
        errors.add("XUDY0023")
    if in_conflict(bindings):
        errors.add("XUDY0024")
    return errors


def node_name(name: Name | str | None, target: Element | Attribute, known: Mapping[str, str]) -> Name:
    """The name of a computed element or attribute constructor (XQuery 3.1, 3.9.3.1 and 3.9.3.2)."""
    if isinstance(name, str):
        prefix, _, local = name.strip().rpartition(":")
        namespaces = {"xml": XML, "xmlns": XMLNS, **known}
        right = NCNAME.fullmatch(local) and (":" not in name or NCNAME.fullmatch(prefix))
        if not right or (prefix and prefix not in namespaces):
            raise UpdateError({"XQDY0074"})
        by_default = isinstance(target, Element)
        name = Name(prefix, namespaces.get(prefix, "") if prefix or by_default else "", local)
    assert name is not None, "a new name is one value"
    forbidden = name.prefix == "xmlns" or name.uri == XMLNS or (name.prefix == "xml") != (name.uri == XML)
    if isinstance(target, Element) and forbidden:
        raise UpdateError({"XQDY0096"})
    if isinstance(target, Attribute) and (forbidden or name == Name("", "", "xmlns")):
        raise UpdateError({"XQDY0044"})
    assert isinstance(target, Element) or name.prefix or not name.uri, "its prefix would be anybody's guess"
    return name


def instruction_name(name: Name | str | None) -> Name:
    """The name of a computed processing instruction constructor (XQuery 3.1, 3.9.3.5)."""
    if not isinstance(name, str):
        raise UpdateError({"XPTY0004"})
    if not NCNAME.fullmatch(name.strip()):
        raise UpdateError({"XQDY0041"})
    if name.strip().lower() == "xml":
        raise UpdateError({"XQDY0064"})
    return Name("", "", name.strip())
