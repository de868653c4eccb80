"""Atomic values: each type of XQuery is one Python type, so that a value of unknown static type shows its own.

    xs:string           str                     xs:date               Date
    xs:untypedAtomic    Untyped                 xs:dateTime           DateTime
    xs:anyURI           AnyUri                  xs:time               Time
    xs:boolean          bool                    xs:dayTimeDuration    timedelta
    xs:integer          int                     xs:yearMonthDuration  YearMonths
    xs:decimal          Decimal
    xs:double           float
    xs:float            Single

Where the static type is known, untyped values and URIs are plain strings. The types derived from xs:integer and
xs:string are not distinguished. Dates are subclasses of `datetime`: a date is its first moment, and a time is on a
fixed day, so that both are compared and computed with like moments. Their time zone is that of the `datetime`, or none.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from demaq.evaluation.native.fallback import NeedsSaxon


class Untyped(str):
    """A value of type xs:untypedAtomic."""

    __slots__ = ()


class AnyUri(str):
    """A value of type xs:anyURI."""

    __slots__ = ()


class Single(float):
    """A value of type xs:float, already rounded to single precision."""

    __slots__ = ()


class DateTime(datetime.datetime):
    """A value of type xs:dateTime."""

    __slots__ = ()


class Date(datetime.datetime):
    """A value of type xs:date: midnight at its beginning."""

    __slots__ = ()


class Time(datetime.datetime):
    """A value of type xs:time, on a fixed day."""

    __slots__ = ()


class YearMonths:
    """A value of type xs:yearMonthDuration."""

    __slots__ = ("months",)

    def __init__(self, months: int) -> None:
        self.months = months

    def __eq__(self, other: object) -> bool:
        return isinstance(other, YearMonths) and self.months == other.months

    def __hash__(self) -> int:
        return hash((YearMonths, self.months))


DayTimes = datetime.timedelta
"""A value of type xs:dayTimeDuration."""

TYPE_NAMES: dict[type, str] = {
    str: "string",
    Untyped: "untypedAtomic",
    AnyUri: "anyURI",
    bool: "boolean",
    int: "integer",
    Decimal: "decimal",
    float: "double",
    Single: "float",
    DateTime: "dateTime",
    Date: "date",
    Time: "time",
    DayTimes: "dayTimeDuration",
    YearMonths: "yearMonthDuration",
}
"""The local names of types, by the Python type of their values."""

NUMERIC_TYPES = frozenset({int, Decimal, float, Single})
STRING_TYPES = frozenset({str, Untyped, AnyUri})
MOMENT_TYPES = frozenset({DateTime, Date, Time})
DURATION_TYPES = frozenset({DayTimes, YearMonths})

_SUPERTYPES = {
    "integer": {"integer", "decimal", "numeric"},
    "decimal": {"decimal", "numeric"},
    "double": {"double", "numeric"},
    "float": {"float", "numeric"},
    "dayTimeDuration": {"dayTimeDuration", "duration"},
    "yearMonthDuration": {"yearMonthDuration", "duration"},
}


def is_instance(value: Any, name: str) -> bool:
    """Return whether a value is an instance of a type that is not derived from xs:integer or xs:string."""
    own = TYPE_NAMES[type(value)]
    if name == "anyAtomicType":
        return True
    if own == "decimal" and name == "integer" and value == int(value):
        raise NeedsSaxon("a quotient, which may be an integer")
    return name in _SUPERTYPES.get(own, (own,))


def are_instances(values: Sequence[Any], name: str, occurrence: str) -> bool:
    """Return whether a sequence is an instance of an atomic type with an occurrence indicator."""
    count = len(values)
    if (count == 0 and occurrence in ("", "+")) or (count > 1 and occurrence in ("", "?")):
        return False
    return all([is_instance(value, name) for value in values])


def treated(values: Sequence[Any], name: str) -> Sequence[Any]:
    """Return values that are instances of a type. Raises NeedsSaxon for others."""
    if not all([is_instance(value, name) for value in values]):
        raise NeedsSaxon("a value of another type")
    return values
