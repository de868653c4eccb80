"""Numbers that native rules write are those that Saxon writes, or are left to it."""

from __future__ import annotations

import math
import random
import struct
from collections.abc import Sequence

import pytest
import saxonche

from demaq.documents import parse_document
from demaq.evaluation.native.fallback import NeedsSaxon
from demaq.evaluation.native.number_texts import double_text
from tests.support.native import Comparison, compare

NUMBERS = 40_000
QUERY = "declare variable $s external; string-join(tokenize($s, ' ') ! string(xs:double(.)), ' ')"


def draw(chance: random.Random) -> float:
    match chance.randrange(8):
        case 0:
            return float(struct.unpack("d", chance.randbytes(8))[0])
        case 1:
            return chance.getrandbits(chance.randint(1, 60)) * 2.0 ** chance.randint(-60, 60)
        case 2:
            return chance.randrange(10 ** chance.randint(1, 17)) / 10.0 ** chance.randint(0, 11)
        case 3:
            return float(f"{chance.randrange(10 ** chance.randint(1, 17))}e{chance.randint(-320, 280)}")
        case 4:
            return chance.uniform(-1e7, 1e7)
        case 5:
            return 2.0 ** chance.randint(-1074, 1023)
        case 6:
            return math.nextafter(2.0 ** chance.randint(-1074, 1023), chance.choice((0, math.inf)))
        case _:
            return sum([chance.randrange(100_000) / 100 for _ in range(chance.randint(2, 20))])


def test_doubles_are_written_as_saxon_writes_them_or_left_to_it(chance: random.Random):
    numbers = [number for number in [draw(chance) for _ in range(NUMBERS)] if math.isfinite(number)]
    processor = saxonche.PySaxonProcessor(license=False)
    query = processor.new_xquery_processor()
    query.set_query_content(QUERY)
    query.set_parameter("s", processor.make_string_value(" ".join([repr(number) for number in numbers])))
    expected = query.run_query_to_value().head.string_value.split(" ")
    assert len(expected) == len(numbers)
    written = with_exponent = 0
    for number, saxon in zip(numbers, expected, strict=True):
        try:
            text = double_text(number)
        except NeedsSaxon:
            continue
        assert text == saxon, repr(number)
        written += 1
        with_exponent += "E" in text
    assert written > NUMBERS / 5
    assert with_exponent > NUMBERS / 50


def test_sums_of_prices_are_not_left_to_saxon(chance: random.Random):
    """These are frequent, and have many digits for want of an exact binary form."""
    sums = [sum([chance.randrange(100_000) / 100 for _ in range(10)]) for _ in range(1_000)]
    assert any([len(repr(number)) > 15 for number in sums])
    for number in sums:
        assert float(double_text(number)) == number


@pytest.mark.parametrize("text", ["NaN ", "INF\n", " -INF ", " NaN", "INF"])
@pytest.mark.parametrize("cast", ["xs:double(/m)", "xs:float(/m)", "number(/m)", "/m castable as xs:double"])
def test_special_numbers_with_white_space_are_what_saxon_takes_them_for(text: str, cast: str):
    rule = f"if (/m) then do enqueue <o>{{ {cast} }}</o> into o"
    found = compare([rule], [parse_document(f"<m>{text}</m>")])
    assert not found.differences
    assert found.native or text[-1] in " \n"


def compare_numbers(expressions: Sequence[str], numbers: Sequence[str]) -> Comparison:
    rules = [f"if (/m) then do enqueue <o>{{ {expression} }}</o> into o" for expression in expressions]
    found = compare(rules, [parse_document(f"<m><n>{number}</n></m>") for number in numbers])
    assert not found.differences
    return found


def test_a_double_of_which_saxon_makes_the_greatest_long_is_left_to_it():
    doubles = ["number(/m/n)", "xs:float((//n)[1])"]
    integers = ["xs:integer({})", "xs:unsignedLong({})", "{} idiv 1e0", "{} idiv 1"]
    found = compare_numbers(
        [integer.format(double) for integer in integers for double in doubles],
        [str(2**63), str(2**63 - 1), "1e10", "1e20"],
    )
    assert len(found.native) == len(doubles) * len(integers)


def test_an_untyped_zero_is_compared_with_the_literal_minus_zero_as_saxon_does():
    compare_numbers(["//n = -0e0", "//n != -(0e0)", "-0E5 >= //n", "//n = -0", "//n = -1e0"], ["0", "-0", "-1"])


def test_an_item_is_inserted_at_a_position_of_more_than_32_bits_where_saxon_inserts_it():
    found = compare_numbers(
        ["insert-before((1, 2), xs:integer(number(//n)), 3)"], [str(2**31), str(-(2**31)), "2", "10"]
    )
    assert found.compared == 2


RANGES = ["1 to 3", "1 to count(//n)", "if (//n) then 1 to 3 else ()", "index-of(('a', 'b'), 'a')", "local:range()"]


def test_an_untyped_value_is_compared_with_several_numbers_as_saxon_does():
    operators = ["=", "!=", "<", ">="]
    rules = [
        f"if (//n[. {operator} ({numbers})]) then do enqueue <o/> into o"
        for operator in operators
        for numbers in (*RANGES, "1, 2", "1, -2, 3.5")
    ]
    head = "declare function local:range() as xs:integer* { 1 to 3 };"
    bodies = [parse_document(f"<m><n>{number}</n></m>") for number in ("1.5", "2", "x", "1e0", "5")]
    found = compare(rules, bodies, head)
    assert not found.differences
    assert found.native, "literals are"
