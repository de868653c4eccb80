"""Functions that native rules may call, by namespace, name and number of arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from demaq.compiler.emit.python.code import PythonCode, Type, atomize, to_condition, to_existence_test
from demaq.compiler.emit.python.date_calls import DATE_CALLS
from demaq.compiler.emit.python.number_calls import NUMBER_CALLS
from demaq.compiler.emit.python.picture_calls import PICTURE_CALLS
from demaq.compiler.emit.python.sequence_calls import SEQUENCE_CALLS
from demaq.compiler.emit.python.string_calls import STRING_CALLS
from demaq.compiler.emit.python.type_operations import CAST_TYPES, cast_value
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


def _data(args: list[PythonCode]) -> PythonCode:
    return atomize(args[0])


def _constructor(name: str) -> Callable[[list[PythonCode]], PythonCode]:
    return lambda args: cast_value(args[0], name)


_CALLS = (STRING_CALLS, NUMBER_CALLS, DATE_CALLS, PICTURE_CALLS, SEQUENCE_CALLS)
FUNCTIONS: Mapping[tuple[str, str, int], Callable[[list[PythonCode]], PythonCode]] = {
    (FN, "true", 0): lambda _: PythonCode("True", Type.BOOLEAN),
    (FN, "false", 0): lambda _: PythonCode("False", Type.BOOLEAN),
    (FN, "not", 1): lambda args: PythonCode(f"(not {to_condition(args[0])})", Type.BOOLEAN),
    (FN, "boolean", 1): lambda args: PythonCode(f"bool({to_condition(args[0])})", Type.BOOLEAN),
    (FN, "exists", 1): _exists,
    (FN, "empty", 1): _empty,
    (FN, "count", 1): _count,
    (FN, "data", 1): _data,
    **{
        (FN, name, arity): call
        for (name, arity), call in {
            **STRING_CALLS,
            **NUMBER_CALLS,
            **DATE_CALLS,
            **PICTURE_CALLS,
            **SEQUENCE_CALLS,
        }.items()
    },
    **{(XS, name, 1): _constructor(name) for name in CAST_TYPES},
}
"""Each function is given the translated arguments."""
