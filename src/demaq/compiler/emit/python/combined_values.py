"""Values of which each may come from another expression: sequences and choices.

Those of several types show them at run time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from demaq.compiler.emit.python.code import (
    ATOMIC_TYPES,
    EMPTY,
    NODES,
    NUMBERS,
    NotTranslatable,
    Order,
    PythonCode,
    Type,
    map_items,
    map_values,
    tag_atomic,
    to_list,
)


def choose(condition: str, one: PythonCode, other: PythonCode) -> PythonCode:
    """Return a conditional expression."""
    if Type.ERROR in (one.type, other.type):
        one, other = _pass_over_error(one, other), _pass_over_error(other, one)
    if one.type is other.type is Type.EMPTY:
        raise NotTranslatable("a choice between nothing and nothing")
    if one.type is Type.EMPTY:
        one = _empty_like(other)
    if other.type is Type.EMPTY:
        other = _empty_like(one)
    is_fitted = are_fitted([one, other])
    one, other = unify([one, other], "a choice between")
    if one.is_list != other.is_list:
        one, other = to_list(one), to_list(other)
    return PythonCode(
        f"({one.text} if {condition} else {other.text})",
        one.type,
        is_list=one.is_list,
        order=min(_order(one), _order(other)),
        is_single=one.is_single and other.is_single,
        is_fitted=is_fitted,
        name=one.name,
    )


def _pass_over_error(code: PythonCode, other: PythonCode) -> PythonCode:
    """Return a branch of a choice; a call of fn:error is of the type of the other branch."""
    if other.type not in ATOMIC_TYPES | NODES | {Type.ERROR, Type.ITEM}:
        raise NotTranslatable(f"a choice between an error and {other.type.value}")
    if code.type is not Type.ERROR:
        return code
    return replace(code, type=other.type, is_list=other.is_list, name=other.name)


def _empty_like(like: PythonCode) -> PythonCode:
    return replace(EMPTY, type=like.type, is_fitted=True, name=like.name)


def _order(code: PythonCode) -> Order:
    return Order.FLAT if code.is_optional else code.order


def unify(codes: Sequence[PythonCode], where: str) -> list[PythonCode]:
    """Return values as values of one type: those of several types show them at run time. Raises NotTranslatable."""
    types = {code.type for code in codes}
    if len(types) == 1 and len({code.name for code in codes}) == 1:
        return list(codes)
    if types <= NUMBERS:
        return [replace(code, type=Type.NUMERIC) for code in codes]
    if types <= ATOMIC_TYPES:
        return [tag_atomic(code) for code in codes]
    if types <= {Type.ATTRIBUTE, Type.ATTRIBUTES}:
        return [name_attributes(code) for code in codes]
    if types <= ATOMIC_TYPES | _ITEMS.keys():
        return [to_items(code) for code in codes]
    raise NotTranslatable(f"{where} {' and '.join(sorted([type_.value for type_ in types]))}")


def are_fitted(codes: Sequence[PythonCode]) -> bool:
    """Return whether all constructed elements among values are made for the element that they are put into."""
    return all([code.is_fitted for code in codes if code.type in (Type.MADE, Type.ITEM)])


def name_attributes(code: PythonCode) -> PythonCode:
    """Return attributes of one name as attributes that have names at run time."""
    if code.type is not Type.ATTRIBUTE:
        return code
    return map_items(to_list(code), f"made_attribute({code.name!r}, {{}})", Type.ATTRIBUTES)


_ITEMS = {
    Type.ITEM: "{}",
    Type.ELEMENT: "{}",
    Type.ATTRIBUTES: "{}",
    Type.ATTRIBUTE: "{}",
    Type.TEXT: "TextNode({})",
    Type.MADE: "MadeNode({})",
    Type.NODE: "item_of_node({})",
}
"""How nodes are represented among other items."""


def to_items(code: PythonCode) -> PythonCode:
    """Return values as items that show at run time what they are."""
    if code.type is Type.EMPTY:
        return replace(code, type=Type.ITEM)
    if code.type in ATOMIC_TYPES:
        return replace(tag_atomic(code), type=Type.ITEM)
    found = name_attributes(code)
    if _ITEMS[code.type] == "{}":
        return replace(found, type=Type.ITEM, order=Order.UNKNOWN, name="")
    return replace(map_values(found, _ITEMS[code.type], Type.ITEM), is_fitted=code.is_fitted)
