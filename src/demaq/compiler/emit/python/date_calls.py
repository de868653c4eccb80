"""Calls of functions on dates, times and durations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from demaq.compiler.emit.python.code import (
    NotTranslatable,
    PythonCode,
    Type,
    atomize_item,
    lift,
    map_values,
    new_name,
    require_at_most_one,
)
from demaq.compiler.emit.python.operators import CASTS_FROM_TEXT

Call = Callable[[list[PythonCode]], PythonCode]


def _argument(arg: PythonCode, kind: Type) -> PythonCode:
    """Return an argument of a type, perhaps empty; an untyped value is cast."""
    found = atomize_item(arg)
    if found.type is Type.UNTYPED:
        return map_values(found, CASTS_FROM_TEXT[kind], kind)
    if found.type is not kind:
        raise NotTranslatable(f"{found.type.value} where xs:{kind.value} is expected")
    return found


def _component(function: str, kind: Type, result: Type = Type.INTEGER) -> Call:
    return lambda args: lift([_argument(args[0], kind)], f"{function}({{}})", result)


def _duration_component(name: str) -> Call:
    def called(args: list[PythonCode]) -> PythonCode:
        found = atomize_item(args[0])
        if found.type not in (Type.DAY_TIMES, Type.YEAR_MONTHS):
            raise NotTranslatable(f"the {name} of {found.type.value}")
        return lift([found], f"component_of({{}}, {name!r})", Type.DECIMAL if name == "seconds" else Type.INTEGER)

    return called


def _zone(kind: Type) -> Call:
    def called(args: list[PythonCode]) -> PythonCode:
        found = require_at_most_one(_argument(args[0], kind))
        moment, zone = new_name(), new_name()
        clauses = f"for {moment} in {found.each} for {zone} in zone_of({moment})"
        return PythonCode(zone, Type.DAY_TIMES, is_list=True, clauses=clauses, is_single=True)

    return called


def _adjust(kind: Type) -> Call:
    def called(args: list[PythonCode]) -> PythonCode:
        moment = _argument(args[0], kind)
        if len(args) == 1:
            raise NotTranslatable("the implicit time zone")
        if args[1].type is Type.EMPTY:
            return lift([moment], "remove_zone({})", kind)
        zone = _argument(args[1], Type.DAY_TIMES)
        if zone.is_list:
            raise NotTranslatable("a time zone that may be empty")
        return lift([moment, zone], "adjust_zone({}, {})", kind)

    return called


def _join(args: list[PythonCode]) -> PythonCode:
    parts = [_argument(args[0], Type.DATE), _argument(args[1], Type.TIME)]
    return lift(parts, "join_date_and_time({}, {})", Type.DATE_TIME)


def read_clock(name: str, now: str) -> PythonCode:
    """Return the time of the round, given the Python expression for it."""
    found = PythonCode(f"moment_now({now})", Type.DATE_TIME)
    match name:
        case "current-dateTime":
            return found
        case "current-date":
            return replace(found, item=f"date_part({found.item})", type=Type.DATE)
        case "current-time":
            return replace(found, item=f"time_part({found.item})", type=Type.TIME)
    return PythonCode("day_times('PT0S')", Type.DAY_TIMES)


_ON_DATES = {"year": "year_of", "month": "month_of", "day": "day_of"}
_ON_TIMES = {"hours": "hours_of", "minutes": "minutes_of"}

DATE_CALLS: Mapping[tuple[str, int], Call] = {
    **{(f"{name}-from-date", 1): _component(function, Type.DATE) for name, function in _ON_DATES.items()},
    **{
        (f"{name}-from-dateTime", 1): _component(function, Type.DATE_TIME)
        for name, function in {**_ON_DATES, **_ON_TIMES}.items()
    },
    **{(f"{name}-from-time", 1): _component(function, Type.TIME) for name, function in _ON_TIMES.items()},
    ("seconds-from-dateTime", 1): _component("seconds_of", Type.DATE_TIME, Type.DECIMAL),
    ("seconds-from-time", 1): _component("seconds_of", Type.TIME, Type.DECIMAL),
    **{
        (f"{name}-from-duration", 1): _duration_component(name)
        for name in ("years", "months", "days", "hours", "minutes", "seconds")
    },
    **{(f"timezone-from-{kind.value}", 1): _zone(kind) for kind in (Type.DATE, Type.DATE_TIME, Type.TIME)},
    **{
        (f"adjust-{kind.value}-to-timezone", arity): _adjust(kind)
        for kind in (Type.DATE, Type.DATE_TIME, Type.TIME)
        for arity in (1, 2)
    },
    ("dateTime", 2): _join,
}
"""By name and number of arguments."""
