"""Atomic values in native rules where Saxon's answer is no matter of course. Each answer was asked of Saxon."""

from __future__ import annotations

import re
from decimal import Decimal

import pytest

from demaq.compiler.emit.python.code import NotTranslatable
from demaq.compiler.emit.python.regex_translation import translate_regex
from demaq.evaluation.native.arithmetic import decimal_divide, integer_idivide, integer_modulo, round_number, round_to
from demaq.evaluation.native.atomic_values import Date
from demaq.evaluation.native.casts import cast, castable, text_of
from demaq.evaluation.native.comparisons import compare_values, distinct, sort_keys
from demaq.evaluation.native.date_arithmetic import add_to_moment, divide_duration, order_moments
from demaq.evaluation.native.dates import date, date_time, day_times, year_months
from demaq.evaluation.native.fallback import NeedsSaxon
from demaq.evaluation.native.number_texts import show_decimal
from demaq.evaluation.native.regexes import matches, replace_matches, split_at_matches
from demaq.evaluation.native.strings import lower, substring
from demaq.evaluation.native.tuples import order_by


@pytest.mark.parametrize(
    ("dividend", "divisor", "quotient"),
    [
        (1, 3, "0.333333333333333333"),
        (2, -3, "-0.666666666666666667"),
        (1, 524288, "0.000001907348632812"),  # half down
        (100, 30, "3.333333333333333333"),
        (-1751, 30, "-58.3666666666666666667"),
        (6177067511, 30, "205902250.3666666666666666667"),
        (Decimal("1.1"), 7, "0.1571428571428571429"),
        (Decimal("0.00000000000000000001"), Decimal(4), "0.0000000000000000000025"),
        (4, 2, "2"),
    ],
)
def test_quotients_have_the_digits_that_saxon_gives_them(dividend: int | Decimal, divisor: int, quotient: str):
    assert show_decimal(decimal_divide(dividend, divisor)) == quotient


@pytest.mark.parametrize(("dividend", "divisor"), [(1, Decimal(-30)), (Decimal(7), Decimal(30)), (1, 0)])
def test_a_quotient_whose_digits_are_not_certain_needs_saxon(dividend: int | Decimal, divisor: Decimal):
    with pytest.raises(NeedsSaxon):
        decimal_divide(dividend, divisor)


def test_integers_are_divided_towards_zero():
    assert [integer_idivide(a, b) for a, b in ((5, 2), (-5, 2), (5, -2))] == [2, -2, -2]
    assert [integer_modulo(a, b) for a, b in ((5, 3), (-5, 3), (5, -3))] == [2, -2, 2]


def test_halves_are_rounded_up():
    assert [round_number(value) for value in (2.5, -2.5, Decimal("2.5"), Decimal("-2.5"), 7)] == [3, -2, 3, -2, 7]
    assert text_of(round_number(-0.3)) == "-0"
    assert [round_to(value, 2) for value in (2.675, Decimal("2.675"), 1.255)] == [2.67, Decimal("2.68"), 1.25]
    assert round_to(1250, -2) == 1300


@pytest.mark.parametrize(
    ("text", "type_", "is_castable"),
    [
        *((" 12 ", "integer", True), ("1e3", "integer", False), ("1e3", "double", True), ("INF", "decimal", False)),
        *(("2020-02-30", "date", False), ("2020-02-29Z", "date", True), ("24:00:01", "time", False)),
        *(("300", "byte", False), ("P1Y", "dayTimeDuration", False), ("1", "boolean", True), ("", "NCName", False)),
    ],
)
def test_what_certainly_cannot_be_cast_is_known(text: str, type_: str, is_castable: bool):
    assert castable([text], type_, allows_none=False) is is_castable


@pytest.mark.parametrize(
    ("text", "type_"), [("12020-01-01", "date"), ("0000-01-01", "date"), ("PT0.0000001S", "dayTimeDuration")]
)
def test_what_python_has_no_value_for_needs_saxon(text: str, type_: str):
    with pytest.raises(NeedsSaxon):
        castable([text], type_, allows_none=False)


def test_a_cast_and_its_text():
    cases = [
        ("1.50", "decimal"),
        ("1999-12-31T24:00:00", "dateTime"),
        ("P1DT25H", "dayTimeDuration"),
        ("-P14M", "yearMonthDuration"),
    ]
    assert [text_of(cast(text, type_)) for text, type_ in cases] == ["1.5", "2000-01-01T00:00:00", "P2DT1H", "-P1Y2M"]


@pytest.mark.parametrize("type_", ["integer", "decimal", "date"])
@pytest.mark.parametrize(
    "text",
    [
        *(
            "0",
            "7",
            "007",
            "-7",
            "+7",
            "1.50",
            ".5",
            "5.",
            ".",
            "",
            "1..5",
            "1_0",
            "1e3",
            "0.00",
            "-0",
            "NaN",
            "٣",
            "²",
        ),
        *(
            "2026-01-31",
            "2026-02-30",
            "0000-01-01",
            "2026-W01-1",
            "20260131",
            "2026-1-031",
            "2026-01-31Z",
            "٢٠٢٦-01-31",
        ),
        *("9" * 100, "9" * 101, "9" * 99 + ".9"),
    ],
)
def test_a_text_is_cast_as_it_is_with_a_blank_before_it(text: str, type_: str):
    """The usual texts are cast in a faster way, which texts with blanks are not."""
    assert _outcome(text, type_) == _outcome(f" {text}", type_)


def _outcome(text: str, type_: str) -> tuple[type, str]:
    try:
        return type(cast(text, type_)), text_of(cast(text, type_))
    except NeedsSaxon as error:
        return type(error), str(error)


@pytest.mark.parametrize("text", ["0", "0.00", "12.50", "100", "1E3", "1E-9", "-0.0000001", "0E-9", "0E5"])
def test_decimals_are_written_without_exponent_and_needless_zeros(text: str):
    shown = show_decimal(Decimal(text))
    assert Decimal(shown) == Decimal(text)
    assert re.fullmatch(r"-?(0|[1-9][0-9]*)(\.[0-9]*[1-9])?", shown)


def test_days_that_are_added_to_a_date_make_a_date():
    for duration, expected in (("P14D", "2026-02-14"), ("-P31D", "2025-12-31"), ("P1DT25H", "2026-02-02")):
        found = add_to_moment(date("2026-01-31"), day_times(duration))
        assert (type(found), text_of(found)) == (Date, expected)
    with pytest.raises(NeedsSaxon):
        add_to_moment(date("9999-12-31"), day_times("P1D"))


def test_tuples_are_ordered_by_several_keys_in_several_directions():
    values = [("b", "1.5"), ("a", "10"), ("c", "1.50"), ("a", "1.5"), ("", "1.5")]
    rows = [(Decimal(number), text or None, text) for text, number in values]
    found = order_by(rows, ((1, False, True, True), (0, True, False, False)))
    assert [text for _, _, text in found] == ["a", "a", "b", "c", ""]


def test_decimals_and_doubles_are_compared_as_doubles():
    assert compare_values(Decimal("0.1"), 0.1, "==")
    assert compare_values("𝄞", "ﬀ", ">")
    with pytest.raises(NeedsSaxon):
        distinct([Decimal("0.1"), 0.1])
    with pytest.raises(NeedsSaxon):
        sort_keys([1, "a"])
    assert distinct([1, Decimal(1), 1.0, "1"]) == [1, "1"]


def test_the_implicit_time_zone_is_saxons():
    with pytest.raises(NeedsSaxon):
        order_moments(date("2020-01-01"), date("2020-01-01Z"))
    assert order_moments(date_time("2020-01-01T12:00:00Z"), date_time("2020-01-01T13:00:00+01:00")) == 0


def test_months_end_where_they_end():
    assert text_of(add_to_moment(date("2020-01-31"), year_months("P1M"))) == "2020-02-29"
    assert text_of(add_to_moment(date("2020-01-01"), day_times("PT36H"))) == "2020-01-02"


def test_a_duration_is_divided_if_the_reciprocal_is_exact():
    assert text_of(divide_duration(day_times("PT10S"), 4)) == "PT2.5S"
    with pytest.raises(NeedsSaxon):
        divide_duration(day_times("PT90M"), 3)


def test_substrings_by_positions_that_are_no_integers():
    assert substring("abcdef", 1.5, 2.6) == "bcd"
    assert substring("𝄞bc", 2) == "bc"
    with pytest.raises(NeedsSaxon):  # Saxon fails
        substring("abc", 0.4)
    for start in (3.2, 3.49):  # Saxon says that it is after the end, and does not round it
        with pytest.raises(NeedsSaxon):
            substring("abc", start)
    assert substring("abc", 3.5) == ""


def test_each_character_has_its_lower_case():
    assert lower("\u0391\u03a3") == "\u03b1\u03c3"


def test_regular_expressions_mean_what_they_mean_in_xpath():
    assert not matches("a\n", "a$")
    assert not matches("a\rb", "a.b")
    assert matches("$", "\\w")
    assert replace_matches("abc", "(b)", "[$1$2]\\$") == "a[b]$c"
    assert split_at_matches(",a,,b", ",") == ["", "a", "", "b"]
    with pytest.raises(NeedsSaxon):
        matches("é", "\\w")


def test_quantifiers_inside_of_two_others_are_saxons():
    assert translate_regex("a+(?:(?:xy)?a){2}").pattern.search("aaaa")
    with pytest.raises(NotTranslatable):  # Saxon finds nothing in aaaa
        translate_regex("a+(?:(?:x?y)?a){2}")


@pytest.mark.parametrize(
    "pattern",
    ["(a)\\1", "(a*)*", "(?=a)", "a**", "[]]", "a{", "(^a)", "(a|b$)c", "(a+?)+", "\\p{IsGreek}", "[a-z&&[b]]", "\\b"],
)
def test_patterns_in_which_engines_differ_are_not_native(pattern: str):
    with pytest.raises(NotTranslatable):
        translate_regex(pattern)
