"""Calls of functions on numbers, and of aggregates."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from demaq.compiler.emit.python.code import (
    ATOMIC_TYPES,
    DURATIONS,
    MOMENTS,
    NUMBERS,
    NUMERIC_TYPES,
    STRINGS,
    NotTranslatable,
    PythonCode,
    Type,
    atomize,
    atomize_item,
    lift,
    make_list,
    map_items,
    map_values,
    new_name,
    tag_atomic,
)

Call = Callable[[list[PythonCode]], PythonCode]
_EXACT = frozenset({Type.INTEGER, Type.DECIMAL})


def _number(args: list[PythonCode]) -> PythonCode:
    found = atomize_item(args[0])
    if found.type is Type.EMPTY:
        return PythonCode("number_of([])", Type.DOUBLE)
    if found.type not in ATOMIC_TYPES:
        raise NotTranslatable(f"the number of {found.type.value}")
    if not found.is_list and found.type in STRINGS:
        return PythonCode(f"number_or_nan({found.item})", Type.DOUBLE)
    return PythonCode(f"number_of({tag_atomic(found).list_text})", Type.DOUBLE)


def _on_number(function: str, on_integer: str | None = None) -> Call:
    """Return a call with one argument of a numeric type, perhaps empty; the result is of the same type."""

    def called(args: list[PythonCode]) -> PythonCode:
        found = _to_number(args[0])
        return lift([found], on_integer if on_integer and found.type is Type.INTEGER else function, found.type)

    return called


def _to_number(arg: PythonCode) -> PythonCode:
    """Return an argument of type xs:numeric?: an untyped value is a double."""
    found = atomize_item(arg)
    if found.type is Type.UNTYPED:
        return map_values(found, "double({})", Type.DOUBLE)
    if found.type is Type.ATOMIC:
        return map_values(found, "expect_number({})", Type.ATOMIC)
    if found.type not in NUMERIC_TYPES:
        raise NotTranslatable(f"{found.type.value} where a number is expected")
    return found


def _round_to(function: str) -> Call:
    def called(args: list[PythonCode]) -> PythonCode:
        digits = atomize_item(args[1])
        if digits.type is not Type.INTEGER or digits.is_list:
            raise NotTranslatable("a number of digits that is no integer")
        found = _to_number(args[0])
        return lift([found, digits], f"{function}({{}}, {{}})", found.type)

    return called


# --- aggregates


def _sum(args: list[PythonCode]) -> PythonCode:
    """Return the sum; that of an empty sequence is the integer 0, whatever the static type."""
    found = _to_summands(args[0])
    if len(args) > 1:
        return _sum_with_zero(found, args[1])
    if found.type is Type.INTEGER:
        return PythonCode(f"sum({found.list_text})", Type.INTEGER)
    if found.type is Type.DECIMAL and not args[0].is_list:
        return found
    if found.type is Type.DECIMAL:
        return PythonCode(f"decimal_total({found.list_text})", Type.DECIMAL)
    if found.type is Type.DOUBLE or (found.type is Type.NUMERIC and found.is_optional):
        is_double = found.type is Type.DOUBLE and not args[0].is_list
        return PythonCode(f"total({found.list_text})", Type.DOUBLE if is_double else Type.NUMERIC)
    return PythonCode(f"sum_of({tag_atomic(found).list_text})", Type.ATOMIC)


def _sum_with_zero(found: PythonCode, zero: PythonCode) -> PythonCode:
    other = atomize_item(zero)
    if other.is_list or other.type not in ATOMIC_TYPES:
        raise NotTranslatable("such a sum of an empty sequence")
    kind = found.type if found.type is other.type else Type.ATOMIC
    return PythonCode(f"sum_of({tag_atomic(found).list_text}, {tag_atomic(other).item})", kind)


def _to_summands(arg: PythonCode) -> PythonCode:
    found = atomize(arg)
    if found.type is Type.UNTYPED:
        return map_items(found, "double({})", Type.DOUBLE)
    if found.type is Type.EMPTY:
        return replace(found, type=Type.DOUBLE)
    if found.type not in NUMERIC_TYPES and found.type not in DURATIONS and found.type is not Type.ATOMIC:
        raise NotTranslatable(f"a sum of {found.type.value}")
    return found


def _average(args: list[PythonCode]) -> PythonCode:
    found = _to_summands(args[0])
    kind = Type.DECIMAL if found.type is Type.INTEGER else found.type
    kind = Type.ATOMIC if kind is Type.NUMERIC else kind
    return replace(make_list(f"average({tag_atomic(found).list_text})", kind), is_single=True)


def _min_or_max(function: str, generic: str) -> Call:
    def called(args: list[PythonCode]) -> PythonCode:
        found = atomize(args[0])
        if found.type is Type.UNTYPED:
            found = map_items(found, "double({})", Type.DOUBLE)
        elif found.type is Type.EMPTY:
            found = replace(found, type=Type.DOUBLE)
        if found.type in (Type.INTEGER, Type.DOUBLE, Type.DECIMAL) or (found.type in NUMBERS and found.is_optional):
            name = new_name()
            clauses = f"for {name} in ({found.list_text},) if {name}"
            chosen = function if found.type in _EXACT else f"{function}_double"
            return PythonCode(f"{chosen}({name})", found.type, is_list=True, clauses=clauses, is_single=True)
        if found.type not in ATOMIC_TYPES:
            raise NotTranslatable(f"the {function} of {found.type.value}")
        kept = MOMENTS | DURATIONS | {Type.STRING, Type.FLOAT, Type.BOOLEAN}
        kind = found.type if found.type in kept else Type.ATOMIC
        return replace(make_list(f"{generic}({tag_atomic(found).list_text})", kind), is_single=True)

    return called


def _distinct_values(args: list[PythonCode]) -> PythonCode:
    found = atomize(args[0])
    if found.type in STRINGS:
        return make_list(f"list(dict.fromkeys({found.each}))", found.type)
    if found.type not in ATOMIC_TYPES:
        raise NotTranslatable(f"distinct values of {found.type.value}")
    return make_list(f"distinct({found.text})", found.type)


def _index_of(args: list[PythonCode]) -> PythonCode:
    values, searched = atomize(args[0]), atomize_item(args[1])
    if values.type not in ATOMIC_TYPES or searched.type not in ATOMIC_TYPES:
        raise NotTranslatable("the positions of nothing")
    item = f"only({searched.text})" if searched.is_list else searched.item
    return make_list(f"positions_of({values.text}, {item})", Type.INTEGER)


def _deep_equal(args: list[PythonCode]) -> PythonCode:
    one, other = args
    if one.type not in ATOMIC_TYPES or other.type not in ATOMIC_TYPES:
        raise NotTranslatable("deep-equal of nodes")
    return PythonCode(f"are_deep_equal({one.list_text}, {other.list_text})", Type.BOOLEAN)


NUMBER_CALLS: Mapping[tuple[str, int], Call] = {
    ("number", 1): _number,
    ("abs", 1): _on_number("absolute({})", "abs({})"),
    ("floor", 1): _on_number("floor_number({})", "{}"),
    ("ceiling", 1): _on_number("ceiling_number({})", "{}"),
    ("round", 1): _on_number("round_number({})", "{}"),
    ("round", 2): _round_to("round_to"),
    ("round-half-to-even", 1): _on_number("round_half_even({})", "{}"),
    ("round-half-to-even", 2): _round_to("round_half_even"),
    ("sum", 1): _sum,
    ("sum", 2): _sum,
    ("avg", 1): _average,
    ("max", 1): _min_or_max("max", "greatest"),
    ("min", 1): _min_or_max("min", "least"),
    ("distinct-values", 1): _distinct_values,
    ("index-of", 2): _index_of,
    ("deep-equal", 2): _deep_equal,
}
"""By name and number of arguments."""
