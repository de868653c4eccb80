"""Emit single steps of paths: what an axis and a node test select from one node."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from demaq.compiler.emit.python.code import NotTranslatable, Order, Type
from demaq.language import ast
from demaq.language.resolving.names import Names

BELOW = ("child", "descendant", "descendant-or-self")
"""The axes on which there is anything but the document itself if a step begins there."""


@dataclass(frozen=True, slots=True)
class Selection:
    """What a step selects from one element, or from a document, given its root element."""

    type: Type
    code: Callable[[str], str]
    """Returns a Python expression for the nodes, in the order of the axis, given that of the element."""
    order: Order = Order.FLAT
    """In document order."""
    is_reverse: bool = False
    """Whether the axis goes backwards."""
    is_single: bool = False
    stays_apart: bool = False
    """Whether what is selected from nodes in document order, none inside another, is in document order."""
    is_list: bool = True
    """Whether the expression is a list, not an iterator."""
    name: str = ""
    """Of attributes."""
    condition: Callable[[str], str] | None = None
    """If an element itself is selected or not: returns a Python condition, given the element."""


def select(step: ast.AxisStep, names: Names, from_document: bool, axis: str = "") -> Selection | None:
    """Return what a step selects, on another axis if one is given; None if it is nothing. Raises NotTranslatable."""
    axis, test = axis or step.axis, step.test
    if isinstance(test, ast.KindTest) and test.kind != "element" and axis != "attribute":
        return _select_kind(axis, test.kind, step, from_document)
    if from_document and axis not in BELOW:
        return None
    if axis == "attribute":
        return _select_attributes(_attribute_test(test, names, step))
    tag = element_test(test, names, step)
    if from_document:
        axis = {"child": "self", "descendant": "descendant-or-self"}.get(axis, axis)
    made = _AXES.get(axis)
    if made is None:
        raise NotTranslatable(f"the axis {axis}", node=step)
    return made(tag)


def select_groups(step: ast.AxisStep, names: Names, from_document: bool) -> Callable[[str], str]:
    """Return a function that returns an expression for the groups of what a step after `//` selects from each node."""
    if step.axis != "child":
        raise NotTranslatable("positions after // on such an axis", node=step)
    template = "self_and_below({}, {})" if from_document else "{}.iterdescendants({})"
    tag = element_test(step.test, names, step)
    return lambda node: f"siblings({template.format(node, repr(tag))})"


def _iterate(
    template: str, order: Order, is_reverse: bool = False, stays_apart: bool = False
) -> Callable[[str], Selection]:
    return lambda tag: Selection(
        Type.ELEMENT,
        lambda node: template.format(node, repr(tag)),
        order,
        is_reverse=is_reverse,
        stays_apart=stays_apart,
        is_list=False,
    )


def _call(function: str, order: Order, is_reverse: bool = False, is_single: bool = False) -> Callable[[str], Selection]:
    return lambda tag: Selection(
        Type.ELEMENT,
        lambda node: f"{function}({node}, {tag!r})",
        order,
        is_reverse=is_reverse,
        is_single=is_single,
    )


def _select_self(tag: str) -> Selection:
    def code(node: str) -> str:
        if node.isidentifier():
            return f"([{node}] if {test_name(node, tag)} else [])"
        return f"root_named({node}, {tag!r})"

    return Selection(
        Type.ELEMENT,
        code if tag != "*" else lambda node: f"[{node}]",
        is_single=True,
        stays_apart=True,
        condition=lambda node: test_name(node, tag),
    )


_AXES: Mapping[str, Callable[[str], Selection]] = {
    "child": _iterate("children({}, {})", Order.FLAT, stays_apart=True),
    "descendant": _iterate("{}.iterdescendants({})", Order.SORTED, stays_apart=True),
    "descendant-or-self": _iterate("self_and_below({}, {})", Order.SORTED, stays_apart=True),
    "self": _select_self,
    "parent": _call("parent", Order.FLAT, is_single=True),
    "ancestor": _iterate("{}.iterancestors({})", Order.SORTED, is_reverse=True),
    "ancestor-or-self": _call("ancestors_or_self", Order.SORTED, is_reverse=True),
    "following-sibling": _iterate("{}.itersiblings({})", Order.FLAT),
    "preceding-sibling": _iterate("{}.itersiblings({}, preceding=True)", Order.FLAT, is_reverse=True),
    "following": _call("following", Order.SORTED),
    "preceding": _call("preceding", Order.SORTED, is_reverse=True),
}

ALL_BELOW = _AXES["descendant-or-self"]("*")
"""An element and all elements in it."""


def _select_kind(axis: str, kind: str, step: ast.AxisStep, from_document: bool) -> Selection | None:
    match axis, kind:
        case "descendant", "text":
            return Selection(Type.TEXT, lambda node: f"{node}.itertext()", stays_apart=True, is_list=False)
        case "child", "text":
            if from_document:
                return None
            return Selection(Type.TEXT, lambda node: f"texts_in({node})", stays_apart=True)
        case "child", "node" if not from_document:
            return Selection(Type.NODE, lambda node: f"child_nodes({node})", stays_apart=True)
        case "child", "comment" if not from_document:
            return Selection(Type.NODE, lambda node: f"{node}.iterchildren(Comment)", stays_apart=True, is_list=False)
        case "parent", "node":
            if from_document:
                return None
            return Selection(Type.ELEMENT, lambda node: f"parent_element({node})", is_single=True)
    raise NotTranslatable(f"{kind}() on the axis {axis}", node=step)


def _select_attributes(tag: str) -> Selection:
    if "*" in tag or tag.startswith("{"):
        return Selection(Type.ATTRIBUTES, lambda node: f"attributes_of({node}, {tag!r})", stays_apart=True)
    return Selection(
        Type.ATTRIBUTE, lambda node: f"attribute({node}, {tag!r})", is_single=True, stays_apart=True, name=tag
    )


def element_test(test: ast.NameTest | ast.KindTest, names: Names, step: ast.Node) -> str:
    """Return the test of an element's name in lxml's notation."""
    if isinstance(test, ast.KindTest):
        if test.kind != "element" or test.type is not None:
            raise NotTranslatable(f"a test {test.kind}() with a type, or after //", node=step)
        if not isinstance(test.name, ast.Name):
            return "*"
    return _tag(test, names.elements)


def _attribute_test(test: ast.NameTest | ast.KindTest, names: Names, step: ast.AxisStep) -> str:
    if isinstance(test, ast.KindTest):
        if test.kind not in ("attribute", "node") or test.type is not None:
            raise NotTranslatable(f"a test {test.kind}() of attributes", node=step)
        if not isinstance(test.name, ast.Name):
            return "*"
    return _tag(test, names.attributes)


def _tag(test: ast.Node, known: Mapping[ast.Node, tuple[str | None, str]]) -> str:
    """Return a name test in lxml's notation."""
    uri, local = known.get(test, (None, "*"))
    if uri is None:
        return "*" if local == "*" else f"{{*}}{local}"
    if local == "*":
        return f"{{{uri}}}*"
    return f"{{{uri}}}{local}" if uri else local


def test_name(element: str, tag: str) -> str:
    """Return a Python condition for whether an element has a name."""
    if tag == "*":
        return "True"
    return f"has_name({element}, {tag!r})" if "*" in tag else f"{element}.tag == {tag!r}"
