"""Calls of functions that format numbers, dates and times, with pictures that are literals."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from demaq.compiler.emit.python.code import (
    NUMERIC_TYPES,
    NotTranslatable,
    PythonCode,
    Type,
    atomize_item,
    lift,
    map_values,
    tag_atomic,
)
from demaq.compiler.emit.python.operators import CASTS_FROM_TEXT
from demaq.compiler.emit.python.string_calls import literal_text

Call = Callable[[list[PythonCode]], PythonCode]

_PASSIVE = "[^.,0-9#;%‰e]*"
_NUMBER = re.compile(f"({_PASSIVE})([#,]*0[0,]*)(?:\\.(0*)(#*))?(%?)({_PASSIVE})")
_COMPONENT = re.compile(r"([YMDFHms])(?:(0*[01])|(N|n|Nn)(?:,([0-9]{1,2})-\4)?)?")
_DEFAULT_DIGITS = {"m": 2, "s": 2}
_COMPONENTS = {Type.DATE: "YMDF", Type.DATE_TIME: "YMDFHms", Type.TIME: "Hms"}
_NAMED = "MF"


def _literal_picture(code: PythonCode) -> str:
    picture = literal_text(code)
    if picture is None:
        raise NotTranslatable("a picture that is no literal")
    return picture


def _refuse(picture: str) -> NotTranslatable:
    return NotTranslatable(f"the picture {picture!r}", hint="use digits without names, such as “#,##0.00” or “[Y0001]”")


def _format_number(args: list[PythonCode]) -> PythonCode:
    picture = _literal_picture(args[1])
    found = _NUMBER.fullmatch(picture)
    if found is None:
        raise _refuse(picture)
    prefix, whole, least, more, percent, suffix = found.groups()
    value = atomize_item(args[0])
    if value.type not in (*NUMERIC_TYPES, Type.UNTYPED, Type.ATOMIC):
        raise NotTranslatable(f"{value.type.value} where a number is expected")
    if percent and value.type not in (Type.INTEGER, Type.DECIMAL):
        raise NotTranslatable("a double in percent")
    affixes = prefix, percent + suffix
    digits = len(least or ""), len(least or "") + len(more or "")
    how = f"{affixes!r}, {whole.count('0')}, {_find_group(whole, picture)}, {digits!r}"
    return PythonCode(f"format_number({tag_atomic(value).list_text}, {how})", Type.STRING)


def _find_group(whole: str, picture: str) -> int:
    """Return the number of digits between commas; 0 if there are none. Raises NotTranslatable if they are irregular."""
    _, *groups = whole.split(",")
    if not groups:
        return 0
    if len({len(group) for group in groups}) > 1 or not groups[0]:
        raise _refuse(picture)
    return len(groups[0])


def _format_integer(args: list[PythonCode]) -> PythonCode:
    picture = _literal_picture(args[1])
    found = re.fullmatch(r"([#,]*[0,]*[01])", picture)
    value = atomize_item(args[0])
    if found is None or value.type not in (Type.INTEGER, Type.UNTYPED):
        raise _refuse(picture)
    if value.type is Type.UNTYPED:
        value = map_values(value, "integer({})", Type.INTEGER)
    digits = picture.count("0") + picture.count("1")
    text = lift([value], f"format_integer({{}}, {digits}, {_find_group(picture, picture)})", Type.STRING)
    return PythonCode(f"one_text({text.text})", Type.STRING) if text.is_list else text


def _format_moment(kind: Type) -> Call:
    def called(args: list[PythonCode]) -> PythonCode:
        is_english = len(args) == 5
        if is_english and (literal_text(args[2]) != "en" or any([arg.type is not Type.EMPTY for arg in args[3:]])):
            raise NotTranslatable("a format for another language, calendar or place")
        value = atomize_item(args[0])
        if value.type is Type.UNTYPED:
            value = map_values(value, CASTS_FROM_TEXT[kind], kind)
        if value.type is not kind:
            raise NotTranslatable(f"{value.type.value} where xs:{kind.value} is expected")
        parts = _parse_picture(_literal_picture(args[1]), kind, is_english)
        shown = repr(parts).replace("{", "{{").replace("}", "}}")
        return lift([value], f"format_moment({{}}, {shown})", Type.STRING)

    return called


def _parse_picture(picture: str, kind: Type, is_english: bool) -> list[str | tuple[str, str, int]]:
    """Return texts and components of a picture. Names need a language. Raises NotTranslatable."""
    parts: list[str | tuple[str, str, int]] = []
    for found in re.finditer(r"\[\[|\]\]|\[([^\[\]]*)\]|[^\[\]]+|.", picture):
        if found[1] is None:
            if found[0] in ("[", "]"):
                raise _refuse(picture)
            parts.append(found[0][0] if found[0] in ("[[", "]]") else found[0])
            continue
        component = _COMPONENT.fullmatch("".join(found[1].split()))
        if component is None or component[1] not in _COMPONENTS[kind]:
            raise _refuse(picture)
        letter, digits, name, length = component.groups()
        if letter == "F" and not digits and not name:
            name = "Nn"
        if name is None:
            parts.append((letter, "digits", len(digits) if digits else _DEFAULT_DIGITS.get(letter, 1)))
        elif not is_english or letter not in _NAMED or (length is not None and int(length) != 3):
            raise _refuse(picture)
        else:
            parts.append((letter, name, int(length or 0)))
    return parts


PICTURE_CALLS: Mapping[tuple[str, int], Call] = {
    ("format-number", 2): _format_number,
    ("format-integer", 2): _format_integer,
    **{
        (f"format-{kind.value}", arity): _format_moment(kind)
        for kind in (Type.DATE, Type.DATE_TIME, Type.TIME)
        for arity in (2, 5)
    },
}
"""By name and number of arguments."""
