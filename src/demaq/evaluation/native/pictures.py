"""Numbers, dates and times as a picture says: what format-number, format-integer, format-date and their kin return."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import ROUND_HALF_EVEN, Decimal
from typing import Any

from demaq.evaluation.native.arithmetic import EXACT, expect_number
from demaq.evaluation.native.fallback import NeedsSaxon

_CERTAIN_DIGITS = 15
"""Of numbers with so many digits no two are read as the same double."""
_INTEGER_MAX = 10**18
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
)


def format_number(
    values: Sequence[Any], affixes: tuple[str, str], integer_digits: int, group: int, fraction_digits: tuple[int, int]
) -> str:
    """Return a number, or NaN if there is none, as a picture says.

    Affixes are before and after it, `group` is the number of digits between commas, 0 if there are none, and the digits
    of the fraction have a least and a greatest number.
    """
    if len(values) > 1:
        raise NeedsSaxon("more than one item")
    value = expect_number(values[0]) if values else math.nan
    if isinstance(value, float) and not math.isfinite(value):
        raise NeedsSaxon("no ordinary number")
    prefix, suffix = affixes
    least, greatest = fraction_digits
    scaled = _scale(value, greatest + 2 if "%" in suffix else greatest)
    digits = str(abs(scaled)).rjust(greatest + 1, "0")
    whole, fraction = digits[: len(digits) - greatest], digits[len(digits) - greatest :]
    fraction = fraction[:least] + fraction[least:].rstrip("0")
    whole = whole.lstrip("0").rjust(integer_digits, "0")
    is_negative = value < 0 or (isinstance(value, float) and math.copysign(1, value) < 0)
    shown = f"{prefix}{_grouped(whole, group)}{'.' if fraction else ''}{fraction}{suffix}"
    return f"-{shown}" if is_negative else shown


def _scale(value: Any, digits: int) -> int:
    """Return a number multiplied by a power of ten, rounded half to even."""
    factor = Decimal(1).scaleb(digits, EXACT)
    if not isinstance(value, float):
        return _round(EXACT.multiply(Decimal(value), factor))
    shown = Decimal(repr(float(value)))
    found = _round(EXACT.multiply(shown, factor))
    if type(value) is not float or digits > _CERTAIN_DIGITS:
        raise NeedsSaxon("a float, or a double with many digits")
    if len(shown.as_tuple().digits) > _CERTAIN_DIGITS and found != _round(EXACT.multiply(Decimal(value), factor)):
        raise NeedsSaxon("a double that is near to the middle of two numbers")
    return found


def _round(value: Decimal) -> int:
    return int(value.to_integral_value(ROUND_HALF_EVEN))


def _grouped(digits: str, group: int) -> str:
    if not group:
        return digits
    first = len(digits) % group
    parts = [digits[start : start + group] for start in range(first, len(digits), group)]
    return ",".join([digits[:first], *parts] if first else parts)


def format_integer(value: int, digits: int, group: int) -> str:
    if abs(value) > _INTEGER_MAX:
        raise NeedsSaxon("a large integer, of which Saxon writes another")
    shown = _grouped(str(abs(value)).rjust(digits, "0"), group)
    return f"-{shown}" if value < 0 else shown


Part = str | tuple[str, str, int]
"""A text, or a component: its letter, its presentation, and the least number of digits or the length of a name."""


def format_moment(moment: Any, parts: Sequence[Part]) -> str:
    return "".join([part if isinstance(part, str) else _component(moment, *part) for part in parts])


def _component(moment: Any, letter: str, kind: str, width: int) -> str:
    if kind == "digits":
        number = _number(moment, letter)
        if letter == "Y" and width > 1:
            number %= 10**width
        return str(number).rjust(width, "0")
    name = _DAYS[moment.weekday()] if letter == "F" else _MONTHS[moment.month - 1]
    name = name[:width] if width else name
    return name.upper() if kind == "N" else name.lower() if kind == "n" else name


def _number(moment: Any, letter: str) -> int:
    match letter:
        case "Y":
            found = moment.year
        case "M":
            found = moment.month
        case "D":
            found = moment.day
        case "F":
            found = moment.isoweekday()
        case "H":
            found = moment.hour
        case "m":
            found = moment.minute
        case _:
            found = moment.second
    return int(found)
