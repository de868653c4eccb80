"""Emit operators and functions on nodes: sets, order, identity, names."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from demaq.compiler.emit.python.code import (
    NotTranslatable,
    Order,
    PythonCode,
    Type,
    make_list,
    map_items,
    map_values,
    new_name,
    require_at_most_one,
)
from demaq.language.namespaces import FN

SETS = {"|": "united", "union": "united", "intersect": "intersected", "except": "excepted"}
NODE_COMPARISONS = {"is": "{} is {}", "<<": "is_before({}, {})", ">>": "is_before({1}, {0})"}


def combine_nodes(operators: Sequence[str], codes: Sequence[PythonCode]) -> PythonCode:
    """Return a union, intersection or difference."""
    found = codes[0]
    for operator, code in zip(operators, codes[1:], strict=True):
        if found.type is not Type.ELEMENT or code.type is not Type.ELEMENT:
            raise NotTranslatable(f"{operator} of such nodes")
        found = make_list(f"{SETS[operator]}({found.list_text}, {code.list_text})", Type.ELEMENT, Order.SORTED)
    return found


def compare_nodes(operator: str, left: PythonCode, right: PythonCode) -> PythonCode:
    """Return a comparison by identity or document order."""
    if left.type is not Type.ELEMENT or right.type is not Type.ELEMENT:
        raise NotTranslatable(f"{operator} of such nodes")
    template = NODE_COMPARISONS[operator]
    if not left.is_list and not right.is_list:
        return PythonCode(f"({template.format(left.item, right.item)})", Type.BOOLEAN)
    one, other = require_at_most_one(left), require_at_most_one(right)
    first, second, others = new_name(), new_name(), new_name()
    test = template.format(first, second)
    pairs = f"for {others} in ({other.text},) for {first} in {one.text} for {second} in {others}"
    return PythonCode(f"({test})", Type.BOOLEAN, is_list=True, clauses=pairs, is_single=True)


def find_root(code: PythonCode) -> PythonCode:
    """Return the document that a node belongs to."""
    if code.type not in (Type.ELEMENT, Type.DOCUMENT):
        raise NotTranslatable(f"the root of {code.type.value} nodes")
    if code.type is Type.DOCUMENT:
        return code if not code.is_list else require_at_most_one(code)
    found = code if not code.is_list else require_at_most_one(code)
    return replace(map_values(found, "root_of({})", Type.DOCUMENT), is_single=found.is_single, is_own=code.is_own)


def deep_equal(left: PythonCode, right: PythonCode) -> PythonCode:
    """Return whether two sequences of elements are deep-equal."""
    if left.type is not Type.ELEMENT or right.type is not Type.ELEMENT:
        raise NotTranslatable("deep-equal of such nodes")
    return PythonCode(f"are_equal_elements({left.list_text}, {right.list_text})", Type.BOOLEAN)


def _name(part: str, kind: Type) -> Callable[[PythonCode], PythonCode]:
    def called(code: PythonCode) -> PythonCode:
        match code.type:
            case Type.EMPTY:
                return PythonCode("''", kind)
            case Type.ATTRIBUTE:
                known = "" if part == "namespace" else code.name
                found = map_items(code, f"({{}} and {known!r} or {known!r})", kind)
            case Type.ATTRIBUTES:
                found = map_items(code, f"{part}_of_attribute({{}})", kind)
            case Type.ELEMENT if not code.is_list:
                return PythonCode(f"{part}_of({code.item})", kind)
            case Type.ELEMENT:
                found = map_items(code, f"{part}_of({{}})", kind)
            case _:  # Saxon's name() of a document is not quite the empty string: it does not contain that
                raise NotTranslatable(f"the name of {code.type.value} nodes")
        return PythonCode(f"one_text({found.text})", kind)

    return called


NAMES: Mapping[tuple[str, str], Callable[[PythonCode], PythonCode]] = {
    (FN, "name"): _name("name", Type.STRING),
    (FN, "local-name"): _name("local_name", Type.STRING),
    (FN, "namespace-uri"): _name("namespace", Type.ANY_URI),
}
"""Functions of one node or none, or of the context item."""
