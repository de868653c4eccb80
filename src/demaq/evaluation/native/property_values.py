"""Values of properties: their texts, and keys that are equal for equal values."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any

from demaq.evaluation.native.atomic_values import DateTime, DayTimes
from demaq.evaluation.native.casts import cast, castable, text_of
from demaq.evaluation.native.date_arithmetic import adjust_zone, join_date_and_time, multiply_duration, start_of
from demaq.evaluation.native.fallback import NeedsSaxon
from demaq.messages import PropertyValue

_UTC = datetime.timedelta(0)
_A_DAY = "1972-12-31"


def property_key(type_: str, text: str) -> str:
    """Return the key of a value, given as text of its type: equal values have equal keys."""
    match type_:
        case "dateTime":
            moment = cast(text, type_)
        case "date":
            moment = start_of(cast(text, type_))
        case "time":
            moment = join_date_and_time(cast(_A_DAY, "date"), cast(text, type_))
        case "gYear" | "gYearMonth" | "gMonth" | "gMonthDay" | "gDay":
            return text.removesuffix("Z")
        case "double" | "float":
            return text_of(cast(cast(text, type_), "double") + 0.0)
        case _:
            return text
    return text_of(adjust_zone(moment, _UTC))


def make_value(type_: str, text: str) -> PropertyValue:
    return PropertyValue(type_, text, property_key(type_, text))


def timeout_values(values: Sequence[Any]) -> list[PropertyValue]:
    """Return the timeout of a message in an echo queue: a duration or a time; a number counts seconds."""
    if not values:
        return []
    if len(values) > 1:
        raise NeedsSaxon("several values of a property")
    [value] = values
    if type(value) in (DateTime, DayTimes):
        found = value
    elif castable(values, "dayTimeDuration", False):
        found = cast(value, "dayTimeDuration")
    elif castable(values, "dateTime", False):
        found = cast(value, "dateTime")
    elif castable(values, "double", False):
        found = multiply_duration(DayTimes(seconds=1), cast(value, "double"))
    else:
        raise NeedsSaxon("a timeout that is neither a duration nor a time nor a number")
    return [make_value("dateTime" if type(found) is DateTime else "dayTimeDuration", text_of(found))]
