"""Dates, times and durations from text, and as text.

Years from 1 to 9999 and microseconds; anything else is left to Saxon.
"""

from __future__ import annotations

import datetime
import re
from functools import lru_cache
from typing import Any, TypeVar

from demaq.evaluation.native.atomic_values import Date, DateTime, DayTimes, Time, YearMonths
from demaq.evaluation.native.fallback import InvalidValue, NeedsSaxon
from demaq.evaluation.native.number_texts import XML_SPACE

Moment = TypeVar("Moment", DateTime, Date, Time)

_DATE = r"(-?[0-9]{4,})-([0-9]{2})-([0-9]{2})"
_TIME = r"([0-9]{2}):([0-9]{2}):([0-9]{2})(\.[0-9]+)?"
_ZONE = r"(Z|[+-][0-9]{2}:[0-9]{2})?"
_DATE_FORM = re.compile(_DATE + _ZONE, re.ASCII)
_TIME_FORM = re.compile(_TIME + _ZONE, re.ASCII)
_DATE_TIME_FORM = re.compile(f"{_DATE}T{_TIME}{_ZONE}", re.ASCII)
_MONTHS_FORM = re.compile(r"(-?)P(?=[0-9])(?:([0-9]+)Y)?(?:([0-9]+)M)?", re.ASCII)
_DAYS_FORM = re.compile(
    r"(-?)P(?=[0-9T])(?:([0-9]+)D)?(?:T(?=[0-9])(?:([0-9]+)H)?(?:([0-9]+)M)?(?:([0-9]+)(\.[0-9]+)?S)?)?", re.ASCII
)
FRACTION_DIGITS = 6
_PART_DIGITS_MAX = 8
"""A duration with a longer part is left to Saxon."""
TIME_DAY = 1972, 12, 31
"""The day that every time is on (Functions and Operators 3.1, 9.4)."""
DATES_MAX = 1024
"""So many dates are kept that have been read from text."""
_MONTHS_MAX = 12 * 10_000
ZONES = {minutes: datetime.timezone(datetime.timedelta(minutes=minutes)) for minutes in range(-14 * 60, 14 * 60 + 1)}

# --- from text


def date(text: str) -> Date:
    if len(text) == 10:
        try:
            return _plain_date(text)
        except ValueError:
            pass
    found = _DATE_FORM.fullmatch(text.strip(XML_SPACE))
    if found is None:
        raise InvalidValue("no date")
    year, month, day, zone = found.groups()
    return _make(Date, _year(year), int(month), int(day), 0, 0, 0, 0, _zone(zone))


@lru_cache(DATES_MAX)
def _plain_date(text: str) -> Date:
    """Return the date of the usual form. Messages have few different ones. Raises ValueError for any other text."""
    if text[4] != "-" or text[7] != "-":
        raise ValueError("another form of ISO 8601")
    return Date.fromisoformat(text)


def time(text: str) -> Time:
    found = _TIME_FORM.fullmatch(text.strip(XML_SPACE))
    if found is None:
        raise InvalidValue("no time")
    hour, minute, second, fraction, zone = found.groups()
    if hour == "24":
        hour = _end_of_day(minute, second, fraction)
    return _make(Time, *TIME_DAY, int(hour), int(minute), int(second), _microseconds(fraction), _zone(zone))


def date_time(text: str) -> DateTime:
    if len(text) == 19 or (len(text) == 20 and text[19] == "Z"):
        try:
            if text[4] == text[7] == "-" and text[10] == "T" and text[13] == text[16] == ":":
                return DateTime.fromisoformat(text)  # the usual case, fast
        except ValueError:
            pass
    found = _DATE_TIME_FORM.fullmatch(text.strip(XML_SPACE))
    if found is None:
        raise InvalidValue("no date and time")
    year, month, day, hour, minute, second, fraction, zone = found.groups()
    is_end = hour == "24"
    if is_end:
        hour = _end_of_day(minute, second, fraction)
    made = _make(
        DateTime,
        _year(year),
        int(month),
        int(day),
        int(hour),
        int(minute),
        int(second),
        _microseconds(fraction),
        _zone(zone),
    )
    if not is_end:
        return made
    try:
        return made + DayTimes(days=1)
    except OverflowError:
        raise NeedsSaxon("a year beyond 9999") from None


def _make(kind: type[Moment], *parts: Any) -> Moment:
    try:
        return kind(*parts)
    except ValueError:
        raise InvalidValue("a date or time that does not exist") from None


def _year(text: str) -> int:
    if len(text) > 4:
        if text.lstrip("-").startswith("0") and len(text.lstrip("-")) > 4:
            raise InvalidValue("a year with leading zeros")
        raise NeedsSaxon("a year beyond 9999, or before 1")
    year = int(text)
    if not year:
        raise NeedsSaxon("the year 0")
    return year


def _end_of_day(minute: str, second: str, fraction: str | None) -> str:
    """Return the hour that 24:00:00 begins with on the next day."""
    if int(minute) or int(second) or (fraction or "").strip(".0"):
        raise InvalidValue("a time after the end of the day")
    return "0"


def _microseconds(fraction: str | None) -> int:
    if fraction is None:
        return 0
    digits = fraction[1:].rstrip("0")
    if len(digits) > FRACTION_DIGITS:
        raise NeedsSaxon("a part of a microsecond")
    return int(digits.ljust(FRACTION_DIGITS, "0"))


def _zone(text: str | None) -> datetime.timezone | None:
    if text is None:
        return None
    if text == "Z":
        return ZONES[0]
    hours, minutes = int(text[1:3]), int(text[4:6])
    total = 60 * hours + minutes
    if minutes > 59 or total > 14 * 60:
        raise InvalidValue("no time zone")
    return ZONES[-total if text[0] == "-" else total]


def year_months(text: str) -> YearMonths:
    found = _MONTHS_FORM.fullmatch(text.strip(XML_SPACE))
    if found is None:
        raise InvalidValue("no duration of years and months")
    sign, years, months = found.groups()
    total = 12 * _part(years) + _part(months)
    return make_months(-total if sign else total)


def day_times(text: str) -> DayTimes:
    found = _DAYS_FORM.fullmatch(text.strip(XML_SPACE))
    if found is None:
        raise InvalidValue("no duration of days and times")
    sign, days, hours, minutes, seconds, fraction = found.groups()
    total = DayTimes(
        days=_part(days),
        hours=_part(hours),
        minutes=_part(minutes),
        seconds=_part(seconds),
        microseconds=_microseconds(fraction),
    )
    return -total if sign else total


def _part(digits: str | None) -> int:
    if digits is None:
        return 0
    if len(digits) > _PART_DIGITS_MAX:
        raise NeedsSaxon("a long duration")
    return int(digits)


def make_months(months: int) -> YearMonths:
    if abs(months) > _MONTHS_MAX:
        raise NeedsSaxon("a long duration")
    return YearMonths(months)


# --- as text


_date_text = datetime.date.isoformat


def moment_text(value: DateTime | Date | Time) -> str:
    if type(value) is Date and value.tzinfo is None:
        return _date_text(value)  # the usual case, fast
    text = value.isoformat()
    zone = ""
    if value.tzinfo is not None:
        text, zone = text[:-6], text[-6:]
        if zone == "+00:00":
            zone = "Z"
    if "." in text:
        text = text.rstrip("0")
    if type(value) is Date:
        return text[:10] + zone
    return (text[11:] if type(value) is Time else text) + zone


def year_months_text(value: YearMonths) -> str:
    years, months = divmod(abs(value.months), 12)
    parts = (f"{years}Y" if years else "") + (f"{months}M" if months or not years else "")
    return f"{'-' if value.months < 0 else ''}P{parts}"


def day_times_text(value: DayTimes) -> str:
    sign, whole = ("-", -value) if value.days < 0 else ("", value)
    if not whole:
        return "PT0S"
    minutes, seconds = divmod(whole.seconds, 60)
    hours, minutes = divmod(minutes, 60)
    shown = f"{seconds}.{whole.microseconds:06}".rstrip("0") if whole.microseconds else str(seconds)
    clock = (f"{hours}H" if hours else "") + (f"{minutes}M" if minutes else "") + (f"{shown}S" if shown != "0" else "")
    return f"{sign}P{f'{whole.days}D' if whole.days else ''}{f'T{clock}' if clock else ''}"
