"""Emit casts, `castable`, `instance of` and `treat as` for atomic types."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from demaq.compiler.emit.python.code import (
    ATOMIC_TYPES,
    NODES,
    STRINGS,
    NotTranslatable,
    PythonCode,
    Type,
    atomize_item,
    lift,
    make_list,
    require_at_most_one,
    tag_atomic,
    to_list,
    write_item,
)
from demaq.compiler.emit.python.operators import CASTS_FROM_TEXT
from demaq.language import ast
from demaq.language.namespaces import XS

_DERIVED_INTEGERS = (
    *("long", "int", "short", "byte", "unsignedLong", "unsignedInt", "unsignedShort", "unsignedByte"),
    *("nonNegativeInteger", "positiveInteger", "nonPositiveInteger", "negativeInteger"),
)
_NAMES = ("language", "NMTOKEN", "Name", "NCName")
CAST_TYPES: Mapping[str, Type] = {
    "string": Type.STRING,
    "untypedAtomic": Type.UNTYPED,
    "anyURI": Type.ANY_URI,
    "boolean": Type.BOOLEAN,
    "integer": Type.INTEGER,
    "decimal": Type.DECIMAL,
    "double": Type.DOUBLE,
    "float": Type.FLOAT,
    "date": Type.DATE,
    "dateTime": Type.DATE_TIME,
    "time": Type.TIME,
    "dayTimeDuration": Type.DAY_TIMES,
    "yearMonthDuration": Type.YEAR_MONTHS,
    **dict.fromkeys(_DERIVED_INTEGERS, Type.INTEGER),
    **dict.fromkeys(["normalizedString", "token", *_NAMES], Type.STRING),
}
"""The types that values are cast to, by local name, and the static type of the result."""

_FROM_TEXT = {
    **{type_.value: template for type_, template in CASTS_FROM_TEXT.items()},
    "string": "{}",
    "untypedAtomic": "{}",
    "integer": "integer({})",
    "decimal": "decimal({})",
    "double": "cast_double({})",
    "float": "single({})",
    "normalizedString": "normalized_string({})",
    "token": "collapse({})",
    **{name: f"in_range(integer({{}}), {name!r})" for name in _DERIVED_INTEGERS},
    **{name: f"name_text({{}}, {name!r})" for name in _NAMES},
}
_SUPERTYPES: Mapping[Type, tuple[str, ...]] = {
    Type.UNTYPED: ("untypedAtomic",),
    Type.INTEGER: ("integer", "decimal", "numeric"),
    Type.DECIMAL: ("decimal", "numeric"),
    Type.DOUBLE: ("double", "numeric"),
    Type.FLOAT: ("float", "numeric"),
    Type.DAY_TIMES: ("dayTimeDuration", "duration"),
    Type.YEAR_MONTHS: ("yearMonthDuration", "duration"),
}
_UNCERTAIN = {Type.NUMERIC, Type.ATOMIC, Type.DECIMAL}
"""Types of values that may be of a more special type at run time; the quotient of integers may be an integer."""
_TESTED = {*CAST_TYPES, "anyAtomicType", "numeric", "duration"} - set(_DERIVED_INTEGERS) - set(_NAMES)
_TESTED -= {"normalizedString", "token"}


def cast_value(code: PythonCode, name: str) -> PythonCode:
    """Return the value of `cast as xs:NAME?`: a value that is empty if the operand is."""
    kind = CAST_TYPES.get(name)
    if kind is None:
        raise NotTranslatable(f"a cast to xs:{name}")
    found = atomize_item(code)
    if found.type is Type.EMPTY:
        return replace(found, type=kind)
    if found.type not in ATOMIC_TYPES:
        raise NotTranslatable(f"a cast of {found.type.value}")
    if found.type is kind and kind.value == name:
        return found if not found.is_list else require_at_most_one(found)
    if found.type in STRINGS:
        return lift([found], _FROM_TEXT[name], kind)
    if name in ("string", "untypedAtomic"):
        return lift([found], write_item(found.type), kind)
    if found.type is Type.INTEGER and name in ("double", "decimal"):
        return lift([found], "float({})" if name == "double" else "Decimal({})", kind)
    return lift([tag_atomic(found)], f"cast({{}}, {name!r})", kind)


def castable(code: PythonCode, name: str, is_optional: bool) -> PythonCode:
    """Return the value of `castable as`."""
    if name not in CAST_TYPES:
        raise NotTranslatable(f"a cast to xs:{name}")
    found = atomize_item(code)
    if found.type is Type.EMPTY:
        return PythonCode(str(is_optional), Type.BOOLEAN)
    if found.type is Type.ANY_URI:
        found = tag_atomic(found)
    return PythonCode(f"castable({found.list_text}, {name!r}, {is_optional})", Type.BOOLEAN)


def instance_of(code: PythonCode, item: ast.ItemType | None, occurrence: str, type_name: str | None) -> PythonCode:
    """Return the value of `instance of`. `type_name` is the local name of an atomic type."""
    if code.type is Type.DONE:
        raise NotTranslatable("the type of an action")
    counted = {"": "== 1", "?": "<= 1", "*": ">= 0", "+": ">= 1"}[occurrence]
    if code.type is Type.EMPTY or item is None:
        is_allowed = item is None or occurrence in ("?", "*")
        text = str(is_allowed) if code.type is Type.EMPTY else f"(len({code.list_text}) == 0)"
        return PythonCode(text, Type.BOOLEAN)
    if isinstance(item, ast.AnyItemTest):
        return PythonCode(f"(len({code.list_text}) {counted})", Type.BOOLEAN)
    if not isinstance(item, ast.AtomicType) or type_name is None:
        raise NotTranslatable("the type of nodes or functions")
    is_instance = _decide(code, type_name)
    if is_instance is None:
        listed = to_list(tag_atomic(code))
        return PythonCode(f"are_instances({listed.text}, {type_name!r}, {occurrence!r})", Type.BOOLEAN)
    if is_instance:
        return PythonCode(f"(len({code.list_text}) {counted})", Type.BOOLEAN)
    none = "== 0" if occurrence in ("?", "*") else "< 0"
    return PythonCode(f"(len({code.list_text}) {none})", Type.BOOLEAN)


def treat_as(code: PythonCode, occurrence: str, type_name: str) -> PythonCode:
    """Return the value of `treat as` an atomic type; what is of another type is an error."""
    if code.type not in ATOMIC_TYPES:
        raise NotTranslatable(f"to treat {code.type.value} as atomic values")
    is_instance = _decide(code, type_name)
    if is_instance is False:
        raise NotTranslatable(f"to treat {code.type.value} as xs:{type_name}")
    if is_instance is None:
        kind = CAST_TYPES.get(type_name, Type.ATOMIC)
        code = make_list(f"treated({to_list(tag_atomic(code)).text}, {type_name!r})", kind)
    match occurrence:
        case "":
            return code if not code.is_list else PythonCode(f"only({code.text})", code.type)
        case "?":
            return code if not code.is_list else require_at_most_one(code)
        case "+":
            return replace(make_list(f"at_least_one({code.list_text})", code.type), is_single=code.is_optional)
    return code


def _decide(code: PythonCode, name: str) -> bool | None:
    """Return whether all items are instances of an atomic type; None if that is known at run time only."""
    kind = code.type
    if kind in NODES:
        return False
    if name == "anyAtomicType":
        return True
    if name not in _TESTED:
        derived = Type.INTEGER if name in _DERIVED_INTEGERS else CAST_TYPES.get(name)
        if derived is None or kind is derived or kind in _UNCERTAIN:
            raise NotTranslatable(f"whether a value is an xs:{name}")
        return False
    if name in _SUPERTYPES.get(kind, (kind.value,)):
        return True
    if kind is Type.NUMERIC and name == "numeric":
        return True
    if kind in _UNCERTAIN and not (kind is Type.DECIMAL and name != "integer"):
        return None
    return False


def atomic_name(names: Mapping[ast.Name, tuple[str, str]], name: ast.Name) -> str:
    """Return the local name of a type of XML Schema. Raises NotTranslatable for others."""
    uri, local = names.get(name, ("", ""))
    if uri != XS:
        raise NotTranslatable("a type that is not one of XML Schema's", node=name)
    return local
