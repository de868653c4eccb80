"""Ranges of message numbers, compared with sets."""

from __future__ import annotations

import random

import pytest

from demaq.soap.reliability.number_ranges import NO_NUMBERS, NumberRanges

HUGE = 2**63 - 1


def ranges_of(numbers):
    return NumberRanges.of([(number, number) for number in numbers])


def test_numbers_are_merged_into_ranges():
    found = NumberRanges.of([(7, 9), (1, 2), (3, 3), (8, 12), (20, 20)])
    assert found.ranges == ((1, 3), (7, 12), (20, 20))
    assert str(found) == "1-3,7-12,20"
    assert NumberRanges.parse("1-3,7-12,20") == found
    assert (found.count, found.highest, found.first_gap) == (10, 20, 4)
    assert found.gaps().ranges == ((4, 6), (13, 19))
    assert found.gaps(22).ranges == ((4, 6), (13, 19), (21, 22))
    assert found.take(4) == [1, 2, 3, 7]


def test_no_numbers():
    assert (str(NO_NUMBERS), NO_NUMBERS.count, NO_NUMBERS.highest, NO_NUMBERS.first_gap) == ("", 0, 0, 1)
    assert NumberRanges.parse("") == NO_NUMBERS
    assert not NO_NUMBERS
    assert 1 not in NO_NUMBERS
    assert NO_NUMBERS.gaps(3).ranges == ((1, 3),)


def test_a_range_without_end_costs_nothing():
    everything = NumberRanges.up_to(HUGE)
    assert everything.count == HUGE
    assert HUGE in everything
    assert everything.remove(ranges_of([5])).ranges == ((1, 4), (6, HUGE))
    assert everything.first_gap == HUGE + 1


def test_ranges_are_sets(chance: random.Random):
    for _ in range(300):
        one, other = ({chance.randint(1, 30) for _ in range(chance.randint(0, 20))} for _ in range(2))
        left, right = ranges_of(one), ranges_of(other)
        assert set(left) == one
        assert list(left) == sorted(one)
        assert set(left.merge(right)) == one | other
        assert set(left.remove(right)) == one - other
        assert left.merge(right) == right.merge(left)
        assert NumberRanges.parse(str(left)) == left
        assert [number in left for number in range(32)] == [number in one for number in range(32)]
        number = chance.randint(1, 31)
        assert set(left.add(number)) == one | {number}
        assert left.first_gap == min(set(range(1, 40)) - one)
        assert set(left.gaps(25)) == set(range(1, 26)) - one
        for result in (left.merge(right), left.remove(right), left.gaps(), left.add(number)):
            assert all(high + 1 < low for (_, high), (low, _) in zip(result.ranges, result.ranges[1:], strict=False))


@pytest.mark.parametrize("pair", [(0, 1), (3, 2), (-1, 5)])
def test_ranges_that_are_none_are_a_mistake_of_ours(pair):
    with pytest.raises(AssertionError):
        NumberRanges.of([pair])
