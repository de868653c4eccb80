"""Arithmetic on numbers as Saxon does it: exact integers and decimals, doubles and floats of IEEE 754."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_EVEN, Context, Decimal, Inexact, InvalidOperation
from typing import Any

from demaq.evaluation.native.atomic_values import NUMERIC_TYPES, AnyUri, Single, Untyped
from demaq.evaluation.native.fallback import NeedsSaxon
from demaq.evaluation.native.number_texts import double, number_or_nan

EXACT = Context(prec=5000, traps=[Inexact, InvalidOperation])
"""Far more digits than any computation needs whose operands have at most `DIGITS_MAX`."""
DIVISION_DIGITS = 18
"""A quotient has at least so many digits after the point if it is not exact."""
_LARGE = 10**DIVISION_DIGITS
_SMALL = 2**31
"""Saxon divides small integers in another way, which makes a difference if there are zeros at their end."""
_POSITIONS_MAX = 50
_CLAMPED = 2.0**63
"""The one double of which Saxon makes another integer: the greatest of 64 bits, which is less by one."""
_HALF = Decimal("0.5")

decimal_add = EXACT.add
decimal_subtract = EXACT.subtract
decimal_multiply = EXACT.multiply


def to_double(value: Any) -> float:
    """Return a number as a double. A decimal has no negative zero."""
    kind = type(value)
    if kind is float:
        return value  # type: ignore[no-any-return]
    if kind is Decimal:
        return float(value) if value else 0.0
    try:
        return float(value)
    except OverflowError:
        raise NeedsSaxon("an integer beyond all doubles") from None


def to_single(value: Any) -> Single:
    """Return a number as a float."""
    if isinstance(value, Single):
        return value
    found = to_double(value)
    if not math.isfinite(found):
        return Single(found)
    try:
        [rounded] = struct.unpack("f", struct.pack("f", found))
    except OverflowError:
        raise NeedsSaxon("a number beyond all floats") from None
    if type(value) is not float and found != value and rounded != found and abs(found - rounded) * 2**24 >= abs(found):
        raise NeedsSaxon("a number that is rounded twice")
    return Single(rounded)


def to_integer(value: float) -> int:
    """Return a finite double without its fraction."""
    if value == _CLAMPED:
        raise NeedsSaxon("a double of which Saxon makes another integer")
    return int(value)


# --- division of integers and decimals


def decimal_divide(dividend: int | Decimal, divisor: int | Decimal) -> Decimal:
    if not divisor:
        raise NeedsSaxon("a division by zero")
    one, other = Decimal(dividend).normalize(EXACT), Decimal(divisor).normalize(EXACT)
    if type(dividend) is int and type(divisor) is int and not (0 <= dividend < _SMALL and 0 < divisor < _SMALL):
        digits = _exponent(other) - _exponent(one)
    else:
        digits = max(-_exponent(one), 0) - max(-_exponent(other), 0)
    quotient = _quotient(one, other, DIVISION_DIGITS + max(digits, 0))
    if EXACT.multiply(quotient, other) == one:
        return quotient
    if (
        one.copy_abs() >= _LARGE
        or other.copy_abs() >= _LARGE
        or max(-_exponent(one), -_exponent(other)) > DIVISION_DIGITS
    ):
        raise NeedsSaxon("a division of long numbers")
    is_certain = type(divisor) is int and (type(dividend) is int or _exponent(one) < 0)
    if _exponent(other) > 0 and not is_certain:
        raise NeedsSaxon("a division by tens, to which Saxon may give more digits")
    return quotient


def _quotient(one: Decimal, other: Decimal, digits: int) -> Decimal:
    scaled, divisor = _common_integers(one, other)
    scaled *= 10**digits
    whole, rest = divmod(abs(scaled), abs(divisor))
    if 2 * rest > abs(divisor):
        whole += 1
    found = Decimal(whole).scaleb(-digits, EXACT)
    return EXACT.minus(found) if (scaled < 0) != (divisor < 0) else found


def _common_integers(one: Decimal, other: Decimal) -> tuple[int, int]:
    """Return two integers with the same quotient."""
    scale = max(-_exponent(one), -_exponent(other), 0)
    return int(one.scaleb(scale, EXACT)), int(other.scaleb(scale, EXACT))


def _exponent(value: Decimal) -> int:
    exponent = value.as_tuple().exponent
    assert isinstance(exponent, int), "decimals are finite"
    return exponent


def integer_idivide(dividend: int | Decimal, divisor: int | Decimal) -> int:
    """Return the quotient of integers or decimals without its fraction."""
    if not divisor:
        raise NeedsSaxon("a division by zero")
    if type(dividend) is not int or type(divisor) is not int:
        dividend, divisor = _common_integers(Decimal(dividend), Decimal(divisor))
    whole = abs(dividend) // abs(divisor)
    return -whole if (dividend < 0) != (divisor < 0) else whole


def integer_modulo(dividend: int, divisor: int) -> int:
    """Return the remainder, which has the sign of the dividend."""
    if not divisor:
        raise NeedsSaxon("a division by zero")
    rest = abs(dividend) % abs(divisor)
    return -rest if dividend < 0 else rest


def decimal_modulo(dividend: int | Decimal, divisor: int | Decimal) -> Decimal:
    if not divisor:
        raise NeedsSaxon("a division by zero")
    return EXACT.remainder(dividend, divisor)


# --- division of doubles


def double_divide(dividend: float, divisor: float) -> float:
    if divisor:
        return dividend / divisor
    if not dividend or dividend != dividend:
        return math.nan
    return math.copysign(math.inf, math.copysign(1, dividend) * math.copysign(1, divisor))


def double_idivide(dividend: float, divisor: float) -> int:
    if not divisor or not math.isfinite(dividend) or divisor != divisor:
        raise NeedsSaxon("a division by zero, or of no number")
    quotient = dividend / divisor
    if not math.isfinite(quotient):
        raise NeedsSaxon("a quotient beyond all doubles")
    return to_integer(quotient)


def double_modulo(dividend: float, divisor: float) -> float:
    if not divisor or not math.isfinite(dividend):
        return math.nan
    return math.fmod(dividend, divisor)


# --- numbers whose types are known at run time only


def promote(one: Any, other: Any) -> tuple[Any, Any, type]:
    """Return two numbers as the type that they are computed with, and that type: int stands for integers."""
    kinds = _kind(one), _kind(other)
    if float in kinds:
        return to_double(one), to_double(other), float
    if Single in kinds:
        return to_single(one), to_single(other), Single
    if Decimal in kinds:
        return one, other, Decimal
    return one, other, int


def _kind(value: Any) -> type:
    kind: type = type(value)
    if kind not in NUMERIC_TYPES:
        raise NeedsSaxon("no number")
    return kind


def add_numbers(one: Any, other: Any) -> Any:
    one, other, kind = promote(one, other)
    if kind is Decimal:
        return EXACT.add(one, other)
    return to_single(float(one) + float(other)) if kind is Single else one + other


def subtract_numbers(one: Any, other: Any) -> Any:
    one, other, kind = promote(one, other)
    if kind is Decimal:
        return EXACT.subtract(one, other)
    return to_single(float(one) - float(other)) if kind is Single else one - other


def multiply_numbers(one: Any, other: Any) -> Any:
    one, other, kind = promote(one, other)
    if kind is Decimal:
        return EXACT.multiply(one, other)
    return to_single(float(one) * float(other)) if kind is Single else one * other


def divide_numbers(one: Any, other: Any) -> Any:
    one, other, kind = promote(one, other)
    if kind is float:
        return double_divide(one, other)
    return to_single(double_divide(float(one), float(other))) if kind is Single else decimal_divide(one, other)


def idivide_numbers(one: Any, other: Any) -> int:
    one, other, kind = promote(one, other)
    if kind is Single:
        quotient = divide_numbers(one, other)
        if not math.isfinite(quotient):
            raise NeedsSaxon("a division by zero, or of no number")
        return to_integer(quotient)
    return double_idivide(one, other) if kind is float else integer_idivide(one, other)


def modulo_numbers(one: Any, other: Any) -> Any:
    one, other, kind = promote(one, other)
    if kind is int:
        return integer_modulo(one, other)
    if kind is Decimal:
        return decimal_modulo(one, other)
    rest = double_modulo(float(one), float(other))
    return to_single(rest) if kind is Single else rest


def negate(value: Any) -> Any:
    kind = _kind(value)
    if kind is Decimal:
        return EXACT.minus(value)
    return Single(-value) if kind is Single else -value


# --- rounding


def absolute(value: Any) -> Any:
    return Single(abs(value)) if _kind(value) is Single else EXACT.abs(value) if type(value) is Decimal else abs(value)


def floor_number(value: Any) -> Any:
    if _kind(value) is int:
        return value
    if type(value) is Decimal:
        return Decimal(math.floor(value))
    return _whole(value, math.floor)


def ceiling_number(value: Any) -> Any:
    if _kind(value) is int:
        return value
    if type(value) is Decimal:
        return Decimal(math.ceil(value))
    return _whole(value, math.ceil)


def _whole(value: float, function: Any) -> float:
    if not math.isfinite(value) or not value:
        return value
    found = math.copysign(float(function(value)), value)  # what is rounded to zero keeps its sign
    return Single(found) if type(value) is Single else found


def round_number(value: Any) -> Any:
    """Return the nearest integer; of two the greater one."""
    kind = _kind(value)
    if kind is int:
        return value
    if kind is Decimal:
        return Decimal(math.floor(EXACT.add(value, _HALF)))
    if not math.isfinite(value) or abs(value) >= 2**52:
        return value
    below = math.floor(value)
    return _whole(value, lambda _: below if value - below < 0.5 else below + 1)


def round_to(value: Any, digits: int) -> Any:
    """Return the nearest number with so many digits after the point; of two the greater one."""
    return _round_exactly(value, digits, lambda shifted: Decimal(math.floor(EXACT.add(shifted, _HALF))))


def round_half_even(value: Any, digits: int = 0) -> Any:
    """Return the nearest number with so many digits after the point; of two the one whose last digit is even."""
    return _round_exactly(value, digits, lambda shifted: shifted.to_integral_value(ROUND_HALF_EVEN))


def _round_exactly(value: Any, digits: int, to_integral: Callable[[Decimal], Decimal]) -> Any:
    kind = _kind(value)
    if abs(digits) > _POSITIONS_MAX or kind is Single:
        raise NeedsSaxon("rounding a float, or to many digits")
    if (kind is int and digits >= 0) or (kind is float and (not math.isfinite(value) or not value)):
        return value
    shifted = EXACT.multiply(Decimal(value), Decimal(1).scaleb(digits, EXACT))
    found = EXACT.multiply(to_integral(shifted), Decimal(1).scaleb(-digits, EXACT))
    if kind is float:
        return math.copysign(float(found), value)  # what is rounded to zero keeps its sign
    return int(found) if kind is int else found


def expect_number(value: Any) -> Any:
    """Return an argument of a parameter of a numeric type: an untyped value is a double."""
    if type(value) is Untyped:
        return double(value)
    _kind(value)
    return value


def number_of(values: Sequence[Any]) -> float:
    """Return the value of fn:number for a sequence of at most one value."""
    if len(values) > 1:
        raise NeedsSaxon("more than one item")
    if not values:
        return math.nan
    [value] = values
    if isinstance(value, str):
        return math.nan if type(value) is AnyUri else number_or_nan(value)
    return to_double(value) if type(value) in NUMERIC_TYPES or type(value) is bool else math.nan
