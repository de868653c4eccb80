"""Compare and compute with dates, times and durations (XQuery and XPath Functions and Operators 3.1, 8 and 9).

Every comparison of a moment that has a time zone with one that has none is left to Saxon, whose implicit time zone is
the machine's.
"""

from __future__ import annotations

import datetime
import math
from decimal import Decimal
from typing import Any

from demaq.evaluation.native.arithmetic import EXACT, decimal_divide
from demaq.evaluation.native.atomic_values import Date, DateTime, DayTimes, Time, YearMonths
from demaq.evaluation.native.dates import FRACTION_DIGITS, TIME_DAY, ZONES, Moment, make_months
from demaq.evaluation.native.fallback import NeedsSaxon

_MICROSECOND = datetime.timedelta(microseconds=1)
_DAY_SECONDS = 24 * 60 * 60

# --- compared


def order_moments(one: Any, other: Any) -> int:
    """Return -1, 0 or 1, like the order of two values of one type."""
    if (one.tzinfo is None) != (other.tzinfo is None):
        raise NeedsSaxon("the implicit time zone")
    return int(one > other) - int(one < other)


def order_durations(one: Any, other: Any) -> int:
    """Return -1, 0 or 1, like the order of two durations of one type."""
    if type(one) is not type(other):
        raise NeedsSaxon("durations of different types")
    if type(one) is YearMonths:
        one, other = one.months, other.months
    return int(one > other) - int(one < other)


# --- computed with


def add_to_moment(moment: Moment, duration: DayTimes | YearMonths) -> Moment:
    """Return the moment so much later. A time remains on its day, a date has no hours."""
    if isinstance(duration, YearMonths):
        return _add_months(moment, duration.months)  # type: ignore[no-any-return]
    try:
        later = moment + duration
    except OverflowError:
        raise NeedsSaxon("a year beyond 9999, or before 1") from None
    if type(moment) is Date and not duration.seconds and not duration.microseconds:
        return later  # whole days: it is the first moment of a day, too
    return _fit(moment, later)  # type: ignore[no-any-return]


def subtract_from_moment(moment: Moment, duration: DayTimes | YearMonths) -> Moment:
    if isinstance(duration, YearMonths):
        return _add_months(moment, -duration.months)  # type: ignore[no-any-return]
    return add_to_moment(moment, -duration)


def _fit(kind: Any, moment: Any) -> Any:
    """Return a moment as one of the same type."""
    if type(kind) is Time:
        year, month, day = TIME_DAY
        return moment.replace(year=year, month=month, day=day)
    if type(kind) is Date:
        return moment.replace(hour=0, minute=0, second=0, microsecond=0)
    return moment


def _add_months(moment: Any, months: int) -> Any:
    if type(moment) is Time:
        raise NeedsSaxon("months added to a time")
    year, month = divmod(12 * moment.year + moment.month - 1 + months, 12)
    if not 1 <= year <= 9999:
        raise NeedsSaxon("a year beyond 9999, or before 1")
    month += 1
    return moment.replace(year=year, month=month, day=min(moment.day, _days_in(year, month)))


def _days_in(year: int, month: int) -> int:
    if month == 2:
        return 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28
    return 30 if month in (4, 6, 9, 11) else 31


def subtract_moments(one: Any, other: Any) -> DayTimes:
    if (one.tzinfo is None) != (other.tzinfo is None):
        raise NeedsSaxon("the implicit time zone")
    found: DayTimes = one - other
    return found


def add_durations(one: Any, other: Any) -> Any:
    if type(one) is not type(other):
        raise NeedsSaxon("durations of different types")
    try:
        return make_months(one.months + other.months) if type(one) is YearMonths else one + other
    except OverflowError:
        raise NeedsSaxon("a long duration") from None


def subtract_durations(one: Any, other: Any) -> Any:
    if type(one) is not type(other):
        raise NeedsSaxon("durations of different types")
    try:
        return make_months(one.months - other.months) if type(one) is YearMonths else one - other
    except OverflowError:
        raise NeedsSaxon("a long duration") from None


def multiply_duration(duration: Any, factor: Any) -> Any:
    return _scale_duration(duration, EXACT.multiply(_size(duration), _exact_factor(factor)))


def divide_duration(duration: Any, divisor: Any) -> Any:
    """Return a part of a duration. Saxon multiplies by the reciprocal, which must be exact."""
    exact = _exact_factor(divisor)
    reciprocal = decimal_divide(1, exact)
    if EXACT.multiply(reciprocal, exact) != 1:
        raise NeedsSaxon("a quotient of durations with many digits")
    return _scale_duration(duration, EXACT.multiply(_size(duration), reciprocal))


def divide_durations(one: Any, other: Any) -> Decimal:
    """Return how often a duration contains another one."""
    if type(one) is not type(other):
        raise NeedsSaxon("durations of different types")
    size, part = _size(one), _size(other)
    found = decimal_divide(size, part)
    if EXACT.multiply(found, Decimal(part)) != size:
        raise NeedsSaxon("a quotient of durations with many digits")
    return found


def _scale_duration(duration: Any, size: Decimal) -> Any:
    """Return a duration of the same type: months are rounded, parts of microseconds are left to Saxon."""
    if isinstance(duration, YearMonths):
        return make_months(math.floor(EXACT.add(size, Decimal("0.5"))))
    if size != int(size):
        raise NeedsSaxon("a part of a microsecond")
    try:
        return DayTimes(microseconds=int(size))
    except OverflowError:
        raise NeedsSaxon("a long duration") from None


def _size(duration: Any) -> int:
    """Return the months or microseconds of a duration."""
    return duration.months if isinstance(duration, YearMonths) else duration // _MICROSECOND


def _exact_factor(factor: Any) -> Decimal:
    if isinstance(factor, float) and not factor.is_integer():
        raise NeedsSaxon("a duration multiplied by a fraction that may not be exact")
    return Decimal(factor)


# --- components


def year_of(moment: Any) -> int:
    return moment.year  # type: ignore[no-any-return]


def month_of(moment: Any) -> int:
    return moment.month  # type: ignore[no-any-return]


def day_of(moment: Any) -> int:
    return moment.day  # type: ignore[no-any-return]


def hours_of(moment: Any) -> int:
    return moment.hour  # type: ignore[no-any-return]


def minutes_of(moment: Any) -> int:
    return moment.minute  # type: ignore[no-any-return]


def seconds_of(moment: Any) -> Decimal:
    return EXACT.add(moment.second, EXACT.scaleb(Decimal(moment.microsecond), -FRACTION_DIGITS))


def zone_of(moment: Any) -> list[DayTimes]:
    """Return the time zone of a moment, if it has one."""
    return [] if moment.tzinfo is None else [moment.utcoffset()]


def component_of(duration: Any, name: str) -> Any:
    """Return a component of a duration, by the name of the function that asks for it."""
    is_months = isinstance(duration, YearMonths)
    size = abs(_size(duration))
    if name in ("years", "months"):
        found: Any = (size // 12 if name == "years" else size % 12) if is_months else 0
    elif is_months:
        found = 0
    else:
        seconds, rest = divmod(size, 10**FRACTION_DIGITS)
        match name:
            case "days":
                found = seconds // _DAY_SECONDS
            case "hours":
                found = seconds % _DAY_SECONDS // 3600
            case "minutes":
                found = seconds % 3600 // 60
            case _:
                found = EXACT.add(seconds % 60, EXACT.scaleb(Decimal(rest), -FRACTION_DIGITS))
    if name == "seconds":
        found = Decimal(found)
    return EXACT.minus(found) if name == "seconds" and _size(duration) < 0 else -found if _size(duration) < 0 else found


# --- time zones and conversions


def adjust_zone(moment: Any, zone: DayTimes) -> Any:
    """Return the same moment in another time zone; what has no time zone gets this one."""
    minutes, rest = divmod(zone, DayTimes(minutes=1))
    if rest or abs(minutes) > 14 * 60:
        raise NeedsSaxon("no time zone")
    if moment.tzinfo is None:
        return moment.replace(tzinfo=ZONES[minutes])
    try:
        return _fit(moment, moment.astimezone(ZONES[minutes]))
    except OverflowError:
        raise NeedsSaxon("a year beyond 9999, or before 1") from None


def remove_zone(moment: Any) -> Any:
    return moment.replace(tzinfo=None)


def date_part(moment: DateTime) -> Date:
    return Date(moment.year, moment.month, moment.day, tzinfo=moment.tzinfo)


def time_part(moment: DateTime) -> Time:
    clock = moment.hour, moment.minute, moment.second, moment.microsecond
    return Time(*TIME_DAY, *clock, tzinfo=moment.tzinfo)


def start_of(day: Date) -> DateTime:
    return DateTime(day.year, day.month, day.day, tzinfo=day.tzinfo)


def join_date_and_time(day: Date, clock: Time) -> DateTime:
    if day.tzinfo is not None and clock.tzinfo is not None and day.utcoffset() != clock.utcoffset():
        raise NeedsSaxon("a date and a time in different time zones")
    parts = day.year, day.month, day.day, clock.hour, clock.minute, clock.second, clock.microsecond
    return DateTime(*parts, tzinfo=day.tzinfo if day.tzinfo is not None else clock.tzinfo)


def moment_now(now: datetime.datetime) -> DateTime:
    """Return the time of a round."""
    offset = now.utcoffset()
    zone = None if offset is None else ZONES[offset // DayTimes(minutes=1)]
    return DateTime(now.year, now.month, now.day, now.hour, now.minute, now.second, now.microsecond, zone)
