"""Numbers and booleans from text, and as text (XQuery and XPath Functions and Operators 3.1, 19)."""

from __future__ import annotations

import math
import re
import sys
from decimal import Decimal
from typing import Any

from demaq.evaluation.native.atomic_values import Single
from demaq.evaluation.native.fallback import InvalidValue, NeedsSaxon

XML_SPACE = " \t\r\n"
DIGITS_MAX = 100
"""Integers and decimals with more digits are left to Saxon."""
_DOUBLE = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
_INTEGER = re.compile(r"[+-]?[0-9]+")
_DECIMAL = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)")
_SPECIAL = {"INF": math.inf, "+INF": math.inf, "-INF": -math.inf, "NaN": math.nan}
_PLAIN_MIN, _PLAIN_MAX = 1e-6, 1e6
"""Doubles between these are written without an exponent."""
_EXACT_MAX = 2**53
"""Every integer up to here is a double."""
_CERTAIN_DIGITS = 15
"""Of numbers with so many digits no two are read as the same double."""
_CERTAIN_SINGLE_DIGITS = 6
_ZERO = Decimal(0)
_find_small = {str(number): number for number in range(1000)}.get

# --- from text


def double(text: str) -> float:
    """Return the number that an untyped value is in arithmetic and comparisons."""
    try:
        value = float(text)
    except ValueError:
        raise NeedsSaxon("no number") from None
    # Python accepts more than XQuery, or reads it as another number. XML has no other white space inside.
    if not text.isascii() or "_" in text or not math.isfinite(value) or is_negative_zero(value):
        raise NeedsSaxon("no ordinary number")
    return value


def cast_double(text: str) -> float:
    """Return the number that a text is cast to: any double."""
    try:
        value = float(text)
        if text.isascii() and "_" not in text and math.isfinite(value):
            return value  # the usual case, fast
    except ValueError:
        pass
    found = find_double(text)
    if found is None:
        raise InvalidValue("no number")
    return found


def find_double(text: str) -> float | None:
    """Return the number that a text is cast to; None if it is none.

    Raises NeedsSaxon for INF and NaN with white space after them, which Saxon takes for no numbers.
    """
    bare = text.strip(XML_SPACE)
    if bare in _SPECIAL and text[-1] in XML_SPACE:
        raise NeedsSaxon("white space after INF or NaN")
    return float(bare) if _DOUBLE.fullmatch(bare) else _SPECIAL.get(bare)


def number_or_nan(text: str) -> float:
    """Return the value of fn:number."""
    found = find_double(text)
    return math.nan if found is None else found


def integer(text: str) -> int:
    small = _find_small(text)
    if small is not None:
        return small  # the usual case, three times as fast as the next one
    if text.isdigit() and text.isascii() and len(text) <= DIGITS_MAX:
        return int(text)  # nearly as usual
    bare = text.strip(XML_SPACE)
    if not _INTEGER.fullmatch(bare):
        raise InvalidValue("no integer")
    if len(bare) > DIGITS_MAX:
        raise NeedsSaxon("a long integer")
    return int(bare)


def decimal(text: str) -> Decimal:
    if len(text) <= DIGITS_MAX and text.replace(".", "", 1).isdigit() and text.isascii():
        return Decimal(text) or _ZERO  # the usual case, fast
    bare = text.strip(XML_SPACE)
    if not _DECIMAL.fullmatch(bare):
        raise InvalidValue("no decimal")
    if len(bare) > DIGITS_MAX:
        raise NeedsSaxon("a long decimal")
    return Decimal(bare) or _ZERO


def boolean(text: str) -> bool:
    match text.strip(XML_SPACE):
        case "true" | "1":
            return True
        case "false" | "0":
            return False
    raise InvalidValue("no boolean")


# --- as text


def boolean_text(text: str) -> str:
    """Return a text that is cast to a boolean as XQuery writes it."""
    return "true" if boolean(text) else "false"


def decimal_text(text: str) -> str:
    """Return a text that is cast to a decimal as XQuery writes it."""
    return show_decimal(decimal(text))


def show_decimal(value: Decimal | int) -> str:
    """Return a decimal, which may be an integer, as XQuery writes it."""
    if isinstance(value, int):
        return str(value)
    shown = str(value)
    if "E" in shown:
        shown = format(value, "f")
    if "." in shown:
        shown = shown.rstrip("0").rstrip(".")
    return "0" if not value else shown


def double_text(value: float) -> str:
    """Return a double as XQuery writes it."""
    if not math.isfinite(value):
        return "NaN" if value != value else "INF" if value > 0 else "-INF"
    if value == 0:
        return "-0" if is_negative_zero(value) else "0"
    if value.is_integer() and abs(value) < _PLAIN_MAX:
        return str(int(value))
    shown = Decimal(repr(value)).normalize()  # the nearest of the shortest numbers that are read as this one
    sign, digits, exponent = shown.as_tuple()
    assert isinstance(exponent, int), "it is finite"
    is_certain = len(digits) <= _CERTAIN_DIGITS
    if _PLAIN_MIN <= abs(value) < _PLAIN_MAX:
        if not is_certain and Decimal(value).as_tuple().exponent == exponent - 1:  # it has a 5 more: half a digit
            raise NeedsSaxon("a number with another one as near to it, which Saxon prefers")
        return format(shown, "f")
    if not is_certain or abs(value) > _EXACT_MAX or abs(value) < sys.float_info.min:
        raise NeedsSaxon("a number for which Saxon may write another one that is not the nearest")
    return _with_exponent(sign, digits, exponent)


def single_text(value: float) -> str:
    """Return a float as XQuery writes it."""
    if not math.isfinite(value) or value == 0 or (value.is_integer() and abs(value) < _PLAIN_MAX):
        return double_text(float(value))
    shown = Decimal(f"{float(value):.{_CERTAIN_SINGLE_DIGITS}g}").normalize()
    if abs(float(shown) - value) * 2**24 >= abs(value) / 2 or not 1e-30 < abs(value) < 1e30:
        raise NeedsSaxon("a float with many digits")
    if _PLAIN_MIN <= abs(float(shown)) < _PLAIN_MAX:
        return format(shown, "f")
    sign, digits, exponent = shown.as_tuple()
    assert isinstance(exponent, int), "it is finite"
    return _with_exponent(sign, digits, exponent)


def _with_exponent(sign: int, digits: tuple[int, ...], exponent: int) -> str:
    first, rest = digits[0], "".join([str(digit) for digit in digits[1:]]) or "0"
    return f"{'-' if sign else ''}{first}.{rest}E{exponent + len(digits) - 1}"


def number_text(value: Any) -> str:
    """Return a number as XQuery writes it."""
    if isinstance(value, int):
        return str(value)
    if isinstance(value, Decimal):
        return show_decimal(value)
    return single_text(value) if isinstance(value, Single) else double_text(value)


def is_negative_zero(value: float) -> bool:
    return value == 0 and math.copysign(1, value) < 0
