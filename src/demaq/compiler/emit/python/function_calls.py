"""Functions that native rules may call, by namespace, name and number of arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from demaq.compiler.emit.python.code import (
    NUMBERS,
    STRINGS,
    NotTranslatable,
    PythonCode,
    Type,
    atomize,
    make_list,
    map_items,
    new_name,
    require_at_most_one,
    to_condition,
    to_existence_test,
    to_numbers,
    to_string,
    to_string_argument,
    to_strings,
)
from demaq.language.namespaces import FN, XS


def _count(args: list[PythonCode]) -> PythonCode:
    [found] = args
    if found.type is Type.EMPTY:
        return PythonCode("0", Type.INTEGER)
    return PythonCode(f"len({found.list_text})", Type.INTEGER)


def _exists(args: list[PythonCode]) -> PythonCode:
    return PythonCode(f"bool({_any(args[0])})", Type.BOOLEAN)


def _empty(args: list[PythonCode]) -> PythonCode:
    return PythonCode(f"(not {_any(args[0])})", Type.BOOLEAN)


def _any(found: PythonCode) -> str:
    if found.type is Type.EMPTY:
        return "False"
    return to_existence_test(found)


def _sum(args: list[PythonCode]) -> PythonCode:
    """Return the sum; that of an empty sequence is the integer 0, whatever the static type."""
    found = to_numbers(args[0])
    if found.type is Type.INTEGER:
        return PythonCode(f"sum({found.text})", Type.INTEGER)
    if found.type is Type.NUMERIC and not found.is_optional:
        raise NotTranslatable("a sum of integers and doubles")
    is_double = found.type is Type.DOUBLE and not args[0].is_list
    return PythonCode(f"total({found.text})", Type.DOUBLE if is_double else Type.NUMERIC)


def _call_on_text(function: str, kind: Type) -> Callable[[list[PythonCode]], PythonCode]:
    return lambda args: PythonCode(function.format(to_string_argument(args[0])), kind)


def call_string(args: list[PythonCode]) -> PythonCode:
    return PythonCode(to_string(args[0]), Type.STRING)


def _call_method(method: str) -> Callable[[list[PythonCode]], PythonCode]:
    def called(args: list[PythonCode]) -> PythonCode:
        return PythonCode(method.format(*[to_string_argument(arg) for arg in args]), Type.BOOLEAN)

    return called


def _string_join(args: list[PythonCode]) -> PythonCode:
    separator = "''"
    if len(args) > 1:
        separator = to_string_argument(args[1])
        if args[1].is_list:  # an empty sequence is no separator
            separator = f"only({to_strings(args[1]).text})"
    return PythonCode(f"({separator}).join({to_strings(args[0]).text})", Type.STRING)


def _data(args: list[PythonCode]) -> PythonCode:
    return atomize(args[0])


def _cast(function: str, kind: Type) -> Callable[[list[PythonCode]], PythonCode]:
    def called(args: list[PythonCode]) -> PythonCode:
        found = atomize(args[0])
        if found.type is kind:
            return require_at_most_one(found)
        if found.type in NUMBERS and kind is Type.DOUBLE:
            return map_items(require_at_most_one(found), "float({})", kind)
        if found.type not in STRINGS:
            raise NotTranslatable("a cast of such a value")
        return map_items(require_at_most_one(found), f"{function}({{}})", kind)

    return called


def _min_or_max(function: str) -> Callable[[list[PythonCode]], PythonCode]:
    def called(args: list[PythonCode]) -> PythonCode:
        found = to_numbers(args[0])
        if found.type is Type.NUMERIC and not found.is_optional:
            raise NotTranslatable("integers and doubles in one list")
        name = new_name()
        clauses = f"for {name} in ({found.text},) if {name}"
        chosen = function if found.type is Type.INTEGER else f"{function}_double"
        return PythonCode(f"{chosen}({name})", found.type, is_list=True, clauses=clauses, is_single=True)

    return called


def _distinct_values(args: list[PythonCode]) -> PythonCode:
    found = atomize(args[0])
    if found.type not in STRINGS:
        raise NotTranslatable("distinct values that are no strings")
    return make_list(f"list(dict.fromkeys({found.each}))", found.type)


def concat(args: list[PythonCode]) -> PythonCode:
    return PythonCode(f"({' + '.join([to_string(arg) for arg in args])})", Type.STRING)


FUNCTIONS: Mapping[tuple[str, str, int], Callable[[list[PythonCode]], PythonCode]] = {
    (FN, "true", 0): lambda _: PythonCode("True", Type.BOOLEAN),
    (FN, "false", 0): lambda _: PythonCode("False", Type.BOOLEAN),
    (FN, "not", 1): lambda args: PythonCode(f"(not {to_condition(args[0])})", Type.BOOLEAN),
    (FN, "boolean", 1): lambda args: PythonCode(f"bool({to_condition(args[0])})", Type.BOOLEAN),
    (FN, "exists", 1): _exists,
    (FN, "empty", 1): _empty,
    (FN, "count", 1): _count,
    (FN, "sum", 1): _sum,
    (FN, "data", 1): _data,
    (FN, "string", 1): call_string,
    (XS, "string", 1): lambda args: call_string(args) if not args[0].is_list else _refuse("xs:string of nothing"),
    (XS, "double", 1): _cast("double", Type.DOUBLE),
    (XS, "integer", 1): _cast("integer", Type.INTEGER),
    (FN, "max", 1): _min_or_max("max"),
    (FN, "min", 1): _min_or_max("min"),
    (FN, "normalize-space", 1): _call_on_text("normalized({})", Type.STRING),
    (FN, "string-length", 1): _call_on_text("len({})", Type.INTEGER),
    (FN, "contains", 2): _call_method("({1} in {0})"),
    (FN, "starts-with", 2): _call_method("({0}).startswith({1})"),
    (FN, "ends-with", 2): _call_method("({0}).endswith({1})"),
    (FN, "string-join", 1): _string_join,
    (FN, "string-join", 2): _string_join,
    (FN, "distinct-values", 1): _distinct_values,
    **{(FN, "concat", arity): concat for arity in range(2, 21)},
}
"""Each function is given the translated arguments."""


def _refuse(reason: str) -> PythonCode:
    raise NotTranslatable(reason)
