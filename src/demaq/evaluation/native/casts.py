"""Casts between atomic types (XQuery and XPath Functions and Operators 3.1, 19)."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

from demaq.evaluation.native.arithmetic import to_double, to_integer, to_single
from demaq.evaluation.native.atomic_values import (
    MOMENT_TYPES,
    NUMERIC_TYPES,
    STRING_TYPES,
    TYPE_NAMES,
    AnyUri,
    Date,
    DateTime,
    DayTimes,
    Single,
    Untyped,
    YearMonths,
)
from demaq.evaluation.native.date_arithmetic import date_part, start_of, time_part
from demaq.evaluation.native.dates import (
    date,
    date_time,
    day_times,
    day_times_text,
    moment_text,
    time,
    year_months,
    year_months_text,
)
from demaq.evaluation.native.fallback import InvalidValue, NeedsSaxon
from demaq.evaluation.native.number_texts import (
    XML_SPACE,
    boolean,
    cast_double,
    decimal,
    double_text,
    integer,
    show_decimal,
    single_text,
)

_SPACES = re.compile(f"[{XML_SPACE}]+")
_SPACE_TO_BLANK = str.maketrans("\t\r\n", "   ")
_LONGEST_EXPONENT = 400
_ASCII_NAMES = {
    "language": re.compile(r"[a-zA-Z]{1,8}(-[a-zA-Z0-9]{1,8})*"),
    "NMTOKEN": re.compile(r"[a-zA-Z0-9._:-]+"),
    "Name": re.compile(r"[a-zA-Z_:][a-zA-Z0-9._:-]*"),
    "NCName": re.compile(r"[a-zA-Z_][a-zA-Z0-9._-]*"),
}
RANGES: dict[str, tuple[int | None, int | None]] = {
    "long": (-(2**63), 2**63 - 1),
    "int": (-(2**31), 2**31 - 1),
    "short": (-(2**15), 2**15 - 1),
    "byte": (-(2**7), 2**7 - 1),
    "unsignedLong": (0, 2**64 - 1),
    "unsignedInt": (0, 2**32 - 1),
    "unsignedShort": (0, 2**16 - 1),
    "unsignedByte": (0, 2**8 - 1),
    "nonNegativeInteger": (0, None),
    "positiveInteger": (1, None),
    "nonPositiveInteger": (None, 0),
    "negativeInteger": (None, -1),
}
"""The types derived from xs:integer, with their least and greatest value."""


def collapse(text: str) -> str:
    """Return a text with white space collapsed."""
    return _SPACES.sub(" ", text.strip(XML_SPACE))


def single(text: str) -> Single:
    try:
        found = cast_double(text)
    except InvalidValue:
        raise
    if not math.isfinite(found) or len(text) > _LONGEST_EXPONENT:
        if text.strip(XML_SPACE).lstrip("+-") in ("INF", "NaN"):
            return Single(found)
        raise NeedsSaxon("a number beyond all doubles")
    return to_single(Decimal(text.strip(XML_SPACE))) if found else Single(found)


def any_uri(text: str) -> str:
    return collapse(text)


def compared_uri(text: str) -> str:
    """Return an untyped value as a URI to compare. Saxon may compare it with the white space that a cast removes."""
    if collapse(text) != text:
        raise NeedsSaxon("a URI with white space around it")
    return text


def normalized_string(text: str) -> str:
    return text.translate(_SPACE_TO_BLANK)


def name_text(text: str, kind: str) -> str:
    """Return a name of a type derived from xs:token."""
    bare = collapse(text)
    if not bare.isascii():
        raise NeedsSaxon("a name that is not ASCII")
    if not _ASCII_NAMES[kind].fullmatch(bare):
        raise InvalidValue("no name")
    return bare


def in_range(value: int, kind: str) -> int:
    """Return a value of a type that is derived from xs:integer."""
    least, greatest = RANGES[kind]
    if (least is not None and value < least) or (greatest is not None and value > greatest):
        raise InvalidValue("an integer outside of its type")
    return value


_FROM_TEXT: dict[str, Callable[[str], Any]] = {
    "string": str,
    "untypedAtomic": Untyped,
    "anyURI": lambda text: AnyUri(any_uri(text)),
    "normalizedString": normalized_string,
    "token": collapse,
    "boolean": boolean,
    "integer": integer,
    "decimal": decimal,
    "double": cast_double,
    "float": single,
    "date": date,
    "dateTime": date_time,
    "time": time,
    "dayTimeDuration": day_times,
    "yearMonthDuration": year_months,
}


def cast(value: Any, name: str) -> Any:
    """Return a value cast to a type. Raises InvalidValue if it certainly cannot be."""
    if name in RANGES:
        return in_range(cast(value, "integer"), name)
    kind = type(value)
    if TYPE_NAMES[kind] == name:
        return value
    if name == "string":
        return text_of(value)
    if name == "untypedAtomic":
        return Untyped(text_of(value))
    if name in _ASCII_NAMES:
        return name_text(text_of(value), name)
    if name in ("normalizedString", "token") or kind in (str, Untyped):
        return _FROM_TEXT[name](text_of(value))
    if kind in NUMERIC_TYPES or kind is bool:
        return cast_number(value, name)
    if kind in MOMENT_TYPES:
        if kind is DateTime and name in ("date", "time"):
            return date_part(value) if name == "date" else time_part(value)
        if kind is Date and name == "dateTime":
            return start_of(value)
    if kind in (DayTimes, YearMonths) and name in ("dayTimeDuration", "yearMonthDuration"):
        return DayTimes(0) if name == "dayTimeDuration" else YearMonths(0)
    raise InvalidValue("types that are not cast to each other")


def cast_number(value: Any, name: str) -> Any:
    """Return a number or boolean cast to a numeric type or xs:boolean."""
    match name:
        case "boolean":
            return bool(value == value and value)
        case "double":
            return to_double(value)
        case "float":
            return to_single(value)
        case "decimal" | "integer":
            if isinstance(value, float) and not math.isfinite(value):
                raise InvalidValue("no decimal")
            if name == "decimal":
                return Decimal(value)
            return to_integer(value) if isinstance(value, float) else int(value)
    raise InvalidValue("types that are not cast to each other")


def castable(values: Sequence[Any], name: str, allows_none: bool) -> bool:
    """Return whether values, of which there should be one, can be cast to a type."""
    if len(values) != 1:
        return allows_none and not values
    try:
        cast(values[0], name)
    except InvalidValue:
        return False
    return True


def text_of(value: Any) -> str:
    """Return a value as XQuery writes it."""
    kind = type(value)
    if kind in STRING_TYPES:
        return str(value)
    return _TEXTS[kind](value)


_TEXTS: dict[type, Callable[[Any], str]] = {
    bool: lambda value: "true" if value else "false",
    int: str,
    float: double_text,
    Decimal: show_decimal,
    Single: single_text,
    DayTimes: day_times_text,
    YearMonths: year_months_text,
    **dict.fromkeys(MOMENT_TYPES, moment_text),
}
