"""Functions on sequences of any items."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace

from demaq.compiler.emit.python.code import (
    ATOMIC_TYPES,
    NODES,
    NotTranslatable,
    PythonCode,
    Type,
    atomize,
    make_list,
    new_name,
    require_at_most_one,
    to_list,
)
from demaq.compiler.emit.python.elements import concatenate

Call = Callable[[list[PythonCode]], PythonCode]


def _part(select: Callable[[str], str], is_single: bool = False) -> Call:
    """Return a call that selects some items, in order; `select` returns a Python expression, given that of the list."""

    def called(args: list[PythonCode]) -> PythonCode:
        found = to_list(args[0])
        if found.type is Type.EMPTY:
            return found
        made = make_list(select(found.text), found.type, found.order)
        return replace(made, is_single=is_single or found.is_single, name=found.name, is_own=found.is_own)

    return called


def _reverse(args: list[PythonCode]) -> PythonCode:
    found = to_list(args[0])
    if found.is_single:
        return found
    return replace(make_list(f"{found.text}[::-1]", found.type), name=found.name)


def _subsequence(args: list[PythonCode]) -> PythonCode:
    found, *bounds = args
    numbers = ", ".join([_position(bound) for bound in bounds])
    return _part(lambda items: f"subsequence({items}, {numbers})")([found])


def _remove(args: list[PythonCode]) -> PythonCode:
    position = _position(args[1])
    return _part(lambda items: f"without({items}, {position})")([args[0]])


def _insert_before(args: list[PythonCode]) -> PythonCode:
    found, position, inserted = args
    both = concatenate([found, inserted])
    if Type.EMPTY in (found.type, inserted.type):
        return both
    if found.type is not both.type or inserted.type is not both.type or found.name != inserted.name:
        raise NotTranslatable("an insertion of items of another kind")
    text = f"inserted({found.list_text}, {_position(position)}, {inserted.list_text})"
    return replace(make_list(text, both.type), name=found.name)


def _position(code: PythonCode) -> str:
    if code.type is not Type.INTEGER or code.is_list:
        raise NotTranslatable("a position that is no integer")
    return code.item


_SORTED = re.compile(r"\b(?:ordered|united|merged)\(")


def _zero_or_one(args: list[PythonCode]) -> PythonCode:
    """Return at most one item. Saxon counts a node as often as a path leads to it where only existence matters."""
    [found] = args
    if found.type in NODES and _SORTED.search(found.text):
        raise NotTranslatable("zero-or-one of nodes to which several ways lead")
    return require_at_most_one(found)


def _exactly_one(args: list[PythonCode]) -> PythonCode:
    [found] = args
    if not found.is_list:
        return found
    if found.type is Type.EMPTY:
        raise NotTranslatable("exactly one of nothing")
    return PythonCode(f"only({found.text})", found.type, name=found.name)


def _one_or_more(args: list[PythonCode]) -> PythonCode:
    [found] = args
    if not found.is_list:
        return found
    if found.type is Type.EMPTY:
        raise NotTranslatable("one or more of nothing")
    made = make_list(f"expect_items({found.text})", found.type, found.order)
    return replace(made, is_single=found.is_single, name=found.name)


def _sort(args: list[PythonCode]) -> PythonCode:
    found = to_list(args[0])
    if found.type is Type.EMPTY or found.is_single:
        return found
    name = new_name()
    values = atomize(PythonCode(name, found.type, is_list=True, name=found.name))
    if values.type not in ATOMIC_TYPES:
        raise NotTranslatable(f"to sort {found.type.value}")
    text = f"[sorted_items({name}, {values.text}) for {name} in ({found.text},)][0]"
    return replace(make_list(text, found.type), name=found.name)


SEQUENCE_CALLS: Mapping[tuple[str, int], Call] = {
    ("head", 1): _part(lambda items: f"{items}[:1]", is_single=True),
    ("tail", 1): _part(lambda items: f"{items}[1:]"),
    ("reverse", 1): _reverse,
    ("sort", 1): _sort,
    ("unordered", 1): lambda args: to_list(args[0]),
    ("subsequence", 2): _subsequence,
    ("subsequence", 3): _subsequence,
    ("remove", 2): _remove,
    ("insert-before", 3): _insert_before,
    ("zero-or-one", 1): _zero_or_one,
    ("one-or-more", 1): _one_or_more,
    ("exactly-one", 1): _exactly_one,
}
"""By name and number of arguments."""


def make_range(first: PythonCode, last: PythonCode) -> PythonCode:
    """Return the integers of `first to last`."""
    if first.type is not Type.INTEGER or last.type is not Type.INTEGER:
        raise NotTranslatable("a range of values that are no integers")
    if not first.is_list and not last.is_list:
        return make_list(f"integers({first.item}, {last.item})", Type.INTEGER)
    return make_list(f"range_of({first.list_text}, {last.list_text})", Type.INTEGER)
